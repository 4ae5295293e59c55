package labtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"mpps/internal/lab"
	"mpps/internal/owned"
)

// secondTry is set in the environment of the process that repeats failed tests; there is no third try.
const secondTry = "MPPS_LAB_SECOND_TRY"

var (
	passed   []string // tests that need no second try
	bereaved []string // tests that failed in a lab in which a kernel died
	others   bool     // a test failed in a lab in which no kernel died

	deaths = map[string]string{} // by lab name, as seen by a test: at the test's end the guest is gone
)

// saw records what has died in a lab so far.
func saw(l *lab.Lab) {
	if died := l.Died(context.Background()); died != "" {
		mu.Lock()
		if _, known := deaths[l.Name()]; !known {
			lab.Record(lab.StatDeath, died, 0)
		}
		deaths[l.Name()] = died
		mu.Unlock()
	}
}

// note records a test's result. It is a cleanup that runs after all that the test added later.
func note(t testing.TB, l *lab.Lab) {
	if t.Failed() && l.Emulated() {
		saw(l)
	}
	mu.Lock()
	defer mu.Unlock()
	died := ""
	if t.Failed() && l.Emulated() {
		died = deaths[l.Name()]
	}
	switch {
	case died != "":
		fmt.Fprintf(os.Stderr, "labtest: %s failed in an emulated lab in which a kernel had died: %s\n", t.Name(), died)
		bereaved = append(bereaved, t.Name())
	case t.Failed():
		others = true
	case !strings.Contains(t.Name(), "/"): // a subtest says nothing about the whole test
		passed = append(passed, t.Name())
	}
}

// mayTryAgain reports whether every failed test with a lab had one in which a kernel died.
func mayTryAgain() bool {
	return len(bereaved) > 0 && !others && place != nil && os.Getenv(secondTry) == ""
}

// again runs all tests except those that passed in another process, and returns its exit code: tests that failed for
// another reason fail there too.
func again() int {
	fmt.Fprintln(os.Stderr, "labtest: trying again, once:", bereaved)
	args := slices.Clone(os.Args[1:])
	if len(passed) > 0 {
		args = append(args, "-test.skip=^("+strings.Join(passed, "|")+")$")
	}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), secondTry+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := owned.Run(cmd); err != nil {
		fmt.Fprintln(os.Stderr, "labtest: again:", err)
		return 1
	}
	return 0
}
