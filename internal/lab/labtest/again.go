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
	passed       []string // tests that need no second try
	diedInLab    []string // tests that failed in a lab in which a kernel died
	otherFailure bool     // a test failed in a lab in which no kernel died

	deaths = map[string]string{} // by lab name, as seen by a test: at the test's end the guest is gone
)

// recordDeath records what has died in a lab so far.
func recordDeath(l *lab.Lab) {
	if died := l.Death(context.Background()); died != "" {
		mu.Lock()
		deaths[l.Name()] = died
		mu.Unlock()
	}
}

// recordResult records a test's result. It is a cleanup that runs after all that the test added later.
func recordResult(t testing.TB, l *lab.Lab) {
	if t.Failed() && l.Emulated() {
		recordDeath(l)
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
		diedInLab = append(diedInLab, t.Name())
	case t.Failed():
		otherFailure = true
	case !strings.Contains(t.Name(), "/"): // a subtest says nothing about the whole test
		passed = append(passed, t.Name())
	}
}

// mayRetry reports whether every failed test with a lab had one in which a kernel died.
func mayRetry() bool {
	return len(diedInLab) > 0 && !otherFailure && place != nil && os.Getenv(secondTry) == ""
}

// retryFailed runs all tests except those that passed in another process, and returns its exit code: tests that failed
// for another reason fail there too.
func retryFailed() int {
	fmt.Fprintln(os.Stderr, "labtest: trying again, once:", diedInLab)
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
