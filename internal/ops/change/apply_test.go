package change

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"mpps/internal/advise/lasting"
	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
	"mpps/internal/ops"
)

// TestApprove: the operator is asked once for the same changes, again for others, and never for none.
func TestApprove(t *testing.T) {
	t.Parallel()
	at, found := setting.Of(setting.Sysctl, "net.core.dev_weight"), "64"
	planned := func(to string, risk goal.Risk) *Planned {
		want := setting.Exact(to)
		return &Planned{
			Plan: &plan.Plan{Changes: []plan.Change{{ID: "x", Address: at, From: setting.Value(found),
				To: want.Target(), Want: want, Risk: risk}}},
			Host: &ops.Host{Facts: &facts.Host{Readings: facts.Readings{at: setting.Value(found)}}},
		}
	}
	asked, yes := 0, true
	a := &Request{Approve: func(context.Context, *plan.Plan) (bool, error) { asked++; return yes, nil }}
	for i, step := range []struct {
		found, to string
		risk      goal.Risk
		yes       bool
		asked     int
	}{
		{"128", "128", goal.None, true, 0}, // as planned already
		{"64", "128", goal.None, true, 1},
		{"65", "128", goal.None, false, 1}, // found differently, changed to the same
		{"64", "256", goal.None, true, 2},
		{"64", "256", goal.Blip, true, 3},
	} {
		found, yes = step.found, step.yes
		if err := a.approve(t.Context(), planned(step.to, step.risk)); err != nil || asked != step.asked {
			t.Errorf("step %d: asked %d times, %v; expected %d", i, asked, err, step.asked)
		}
	}
	yes = false
	for range 2 { // a refusal is not remembered as approval
		must.Refuse(t, a.approve(t.Context(), planned("512", goal.None)), "a plan that was refused is applied")
	}
	gone := errors.New("interrupted")
	a.Approve = func(context.Context, *plan.Plan) (bool, error) { return true, gone }
	if err := a.approve(t.Context(), planned("1", goal.None)); !errors.Is(err, gone) {
		t.Errorf("%v; expected that the question ended", err)
	}
	a.DryRun, a.Approve = true, nil
	must.Succeed(t, a.approve(t.Context(), planned("2", goal.None)), "a dry run is asked about")
}

// TestWhileMoving: a value that moved is looked at again, one that never stands still is an error in the end, and
// others are at once.
func TestWhileMoving(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, test := range []struct {
		name  string
		stale int // looks that find a value changed
		then  error
		looks int
		fails bool
	}{
		{"stands still", 0, nil, 1, false},
		{"moved once", 1, nil, 2, false},
		{"moved and broken", 1, broken, 2, true},
		{"moves on", maxAttempts, nil, maxAttempts, true},
		{"broken", 0, broken, 1, true},
	} {
		n := 0
		_, err := retryStale(&ops.Env{Out: ops.Deaf{}}, func() (*Outcome, error) {
			if n++; n <= test.stale {
				return nil, fmt.Errorf("apply: %w",
					&plan.Stale{Changed: []plan.Difference{{What: "irq-affinity:eth0/48", Then: "1", Now: "3"}}})
			}
			return nil, test.then
		})
		must.Hold(t, n == test.looks && (err != nil) == test.fails,
			"%s: %d looks, %v; expected %d", test.name, n, err, test.looks)
	}
}

// TestProgramOfServices: no service of root is made that runs what others can change.
func TestProgramOfServices(t *testing.T) {
	program := filepath.Join(t.TempDir(), "mpps")
	must.Do(t, os.WriteFile(program, nil, 0o755))
	must.Do(t, os.Chmod(filepath.Dir(program), 0o777))
	h := &facts.Host{Lasting: &facts.Lasting{Systemd: true, Program: program}}
	write := plan.Change{Address: setting.Of(setting.File, lasting.UnitFile), To: setting.Value("[Unit]\n")}
	remove := write
	remove.To = setting.Missing("removed")
	must.Say(t, checkProgram(&plan.Plan{Changes: []plan.Change{write}}, h), "mpps-restore.service would run "+program,
		"a service that runs %s", program)
	for _, changes := range [][]plan.Change{nil, {remove}, {{Address: setting.Of(setting.Sysctl, "net.core.somaxconn")}}} {
		must.Succeed(t, checkProgram(&plan.Plan{Changes: changes}, h), "%v", changes)
	}
}
