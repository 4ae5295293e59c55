package command

import (
	"errors"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"mpps/internal/must"
)

const announceScript = "../../../scripts/announce"

// TestAnnounce: a program that is silent is announced, then a line says again and again that it goes on; its exit code
// is passed on and nothing is left that would print or hold the output.
func TestAnnounce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		program string
		code    int
	}{{"sleep 2; echo done", 0}, {"sleep 2; echo done; exit 7", 7}} {
		cmd := exec.CommandContext(t.Context(), announceScript, "building", "a minute", "sh", "-c", c.program)
		cmd.Env = append(cmd.Environ(), "ANNOUNCE_EVERY=0.1")
		began := time.Now()
		out, err := cmd.Output() // until nobody has the output any more
		var exit *exec.ExitError
		code := 0
		if errors.As(err, &exit) {
			code = exit.ExitCode()
		}
		if code != c.code || time.Since(began) > 10*time.Second ||
			!regexp.MustCompile(`^building \(a minute\)\n(still building, \d s\n){2,}done\n(still building, \d s\n)*$`).Match(out) {
			t.Errorf("exit code %d after %v: %s", code, time.Since(began), out)
		}
	}
}

// TestAnnounceEnds: a signal ends the beat with the script, and the default leaves no silence of 20 s.
func TestAnnounceEnds(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), announceScript, "building", "a minute", "sleep", "1")
	var out strings.Builder
	cmd.Stdout = &out
	must.Do(t, cmd.Start())
	time.Sleep(200 * time.Millisecond)
	began := time.Now()
	must.Do(t, cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err == nil || time.Since(began) > 10*time.Second { // the beat sleeps for 15 s
		t.Errorf("%v after %v", err, time.Since(began))
	}
}
