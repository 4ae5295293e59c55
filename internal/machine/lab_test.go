//go:build lab

package machine

import (
	"os"
	"strings"
	"testing"

	"mpps/internal/lab"
	"mpps/internal/lab/labtest"
)

func TestMain(m *testing.M) { os.Exit(labtest.Main(m)) }

// inLab runs the test that calls it once more inside the emulated KVM host, whose NICs have real drivers: this test
// program is put there. It returns true there and false, after the outcome is known, here.
func inLab(t *testing.T) bool {
	t.Helper()
	const mark = "MPPS_TEST_IN_LAB"
	if os.Getenv(mark) == t.Name() {
		return true
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l := labtest.Host(t, labtest.NoBinary)
	if err := l.Put("host.test", program); err != nil {
		t.Fatal(err)
	}
	result, err := l.Exec(t.Context(), lab.Cmd{Script: "cd /tmp && " + mark + "=" + t.Name() +
		" /share/host.test -test.v -test.run='^" + t.Name() + "$' 2>&1"})
	if err != nil {
		t.Fatal(err)
	}
	if result.Code != 0 || !strings.Contains(result.Stdout, "--- PASS: "+t.Name()) {
		t.Fatalf("in the lab: exit %d\n%s", result.Code, result.Stdout)
	}
	t.Logf("in the lab:\n%s", result.Stdout)
	return false
}
