package change

import (
	"context"
	"errors"
	"testing"

	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
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
		if err := a.approve(t.Context(), planned("512", goal.None)); err == nil {
			t.Error("a plan that was refused is applied")
		}
	}
	gone := errors.New("interrupted")
	a.Approve = func(context.Context, *plan.Plan) (bool, error) { return true, gone }
	if err := a.approve(t.Context(), planned("1", goal.None)); !errors.Is(err, gone) {
		t.Errorf("%v; expected that the question ended", err)
	}
	a.DryRun, a.Approve = true, nil
	if err := a.approve(t.Context(), planned("2", goal.None)); err != nil {
		t.Errorf("a dry run is asked about: %v", err)
	}
}
