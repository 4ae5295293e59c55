//go:build lab

package machine

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"mpps/internal/lab"
	"mpps/internal/lab/labtest"
	"mpps/internal/must"
)

func TestMain(m *testing.M) { os.Exit(labtest.Main(m)) }

// inLab runs the calling test again in the emulated KVM host, whose NICs have real drivers, with a copy of this test
// binary. It returns true there, and here false once that run has passed.
func inLab(t *testing.T) bool {
	t.Helper()
	const mark = "MPPS_TEST_IN_LAB"
	if os.Getenv(mark) == t.Name() {
		return true
	}
	program := must.Get(os.Executable())(t)
	l := labtest.Host(t, labtest.NoBinary)
	must.Do(t, l.Put("host.test", program))
	result, err := l.Exec(t.Context(), lab.Cmd{Script: "cd /tmp && cp /share/host.test . && " + mark + "=" + t.Name() +
		" ./host.test -test.v -test.run='^" + t.Name() + "$' 2>&1"})
	must.Do(t, err)
	must.Need(t, result.Code == 0 && strings.Contains(result.Stdout, "--- PASS: "+t.Name()),
		"in the lab: exit %d\n%s", result.Code, result.Stdout)
	t.Logf("in the lab:\n%s", result.Stdout)
	return false
}

// patient returns a context with a deadline, which replaces the limits for single values and programs: those are for
// real hosts, and an emulated one may stand still for a while.
func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
