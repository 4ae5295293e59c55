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

// secondTry is set in the environment of the process that tries failed tests again, and has no third.
const secondTry = "MPPS_LAB_SECOND_TRY"

var (
	passed   []string // tests that need no second try
	bereaved []string // tests that failed in a lab in which a kernel had died
	others   bool     // a test failed in a lab in which none had

	deaths = map[string]string{} // what died in a lab, by its name, as a test saw it: at its end the guest is gone
)

// saw keeps what has died in a lab by now.
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

// note keeps what a test's end and its lab tell. It is a cleanup that runs after all that the test has added since.
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
	case !strings.Contains(t.Name(), "/"): // a part tells nothing of the whole
		passed = append(passed, t.Name())
	}
}

// mayTryAgain reports whether every failed test that had a lab had one in which a kernel died.
func mayTryAgain() bool {
	return len(bereaved) > 0 && !others && place != nil && os.Getenv(secondTry) == ""
}

// again runs all tests but those that passed in another process, and gives its exit code: what failed for another
// reason fails there too.
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
