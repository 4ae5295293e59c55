//go:build lab

package labtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mpps/internal/must"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// Of a process that TestSecondTry starts: how its tests are to fail, and where it keeps whether they have.
const (
	asked = "MPPS_LABTEST_FAIL"
	mark  = "MPPS_LABTEST_MARK"
)

// TestPlanted fails as it is asked to, the first time.
func TestPlanted(t *testing.T) {
	how := os.Getenv(asked)
	if how == "" {
		t.Skip("a part of TestSecondTry, which runs it")
	}
	l := Host(t, NoBinary)
	if _, err := os.Stat(os.Getenv(mark)); err == nil {
		return
	}
	must.Do(t, os.WriteFile(os.Getenv(mark), nil, 0o644))
	if how == "death" {
		_, err := l.Shell(t.Context(), "echo c > /proc/sysrq-trigger; sleep 20")
		t.Fatal(err)
	}
	t.Error("an assertion")
}

// TestSecondTry has a test fail in another process: where the lab's kernel has died it is tried again, once; an
// assertion is not.
func TestSecondTry(t *testing.T) {
	Long(t)
	for how, ok := range map[string]bool{"death": true, "assertion": false} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPlanted$", "-test.v")
		cmd.Env = append(os.Environ(), asked+"="+how, mark+"="+filepath.Join(t.TempDir(), "failed"))
		out, err := cmd.CombinedOutput()
		if tried := strings.Contains(string(out), "trying again, once: [TestPlanted]"); (err == nil) != ok ||
			tried != ok {
			t.Errorf("%s: passed %v and tried again %v, expected %v for both:\n%s", how, err == nil, tried, ok, out)
		}
	}
}
