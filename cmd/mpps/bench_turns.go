package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mpps/internal/apply"
	"mpps/internal/goal"
	"mpps/internal/journal"
	"mpps/internal/measure"
	"mpps/internal/plan"
	"mpps/internal/setting"
)

// turning changes the machine between the two sides of a comparison, as found and as planned, by transactions of apply
// and rollback and by nothing else.
type turning struct {
	*engine
	root   string
	plan   *plan.Plan
	beside []setting.Address
	tx     string // the transaction that stands; empty where everything is as it was found
	alone  *orphans
	times  int // that the plan was applied
	close  func() error
}

// turning opens the plan of a file for turns. Plans that do not take effect at once, or that can cut the way that the
// operator came by, are refused, and so are those that change nothing. What would make the values last is left out.
func (a *app) turning(ctx context.Context, file string) (*turning, error) {
	p, m, cuts, err := a.planned(ctx, []string{file}, nil, true)
	if err != nil {
		return nil, err
	}
	t := &turning{root: a.root, plan: p, beside: besides(p, m.facts), close: m.close}
	if err = inTurns(p, m, cuts); err == nil {
		err = a.needsRoot("bench --plan")
	}
	if err == nil {
		t.engine, err = a.engine(m.mechanisms)
	}
	if err == nil {
		t.alone, err = a.watchOrphans()
	}
	if err != nil {
		return nil, errors.Join(err, m.close())
	}
	t.close = func() error { return errors.Join(t.alone.told.Close(), t.engine.close(), m.close()) }
	return t, nil
}

const byThemselves = "measure before and after by themselves: 'mpps bench … -o FILE', then 'mpps bench compare'"

// inTurns tells why a plan cannot be applied and rolled back in turns; nil where it can. cuts says that it can cut the
// path that the operator came by.
func inTurns(p *plan.Plan, m *machine, cuts bool) error {
	met := 0
	for _, c := range p.Changes {
		if !c.Needs.IsZero() {
			return usage(fmt.Errorf("--plan: %s takes effect after %s, and turns need changes that take effect at once", c.Address, c.Needs), byThemselves)
		}
		if c.Risk == goal.Connectivity {
			return usage(fmt.Errorf("--plan: %s can cut the way that you came by, and would be changed many times", c.Address), byThemselves)
		}
		if c.Want.Met(m.facts.Readings.At(c.Address)) {
			met++
		}
	}
	if cuts {
		return usage(errors.New("--plan: it can cut the way that you came by, and would be applied many times"), byThemselves)
	}
	if met == len(p.Changes) {
		return usage(errors.New("--plan: everything is as planned already: there are no two sides to compare"), "'mpps rollback' puts back what an apply changed")
	}
	return nil
}

// apply brings the planned side about.
func (t *turning) apply(ctx context.Context) error {
	result, err := t.Run(ctx, t.plan, apply.Options{Beside: t.beside, Arm: t.alone.stands})
	var failure *apply.Failure
	switch {
	case errors.As(err, &failure) && failure.State != journal.FailedUndone:
		t.tx = failure.TX
		return err
	case err != nil:
		return err
	case result.TX == "":
		return errors.New("everything is as planned already: somebody else changed it meanwhile")
	}
	t.tx = result.TX
	t.times++
	for _, moved := range result.Moved {
		return failed(fmt.Errorf("%s moved from %s to %s beside the plan and could not be put back", moved.Address, moved.From, moved.Found), moved.Why)
	}
	return nil
}

// patience is how long another program that changes the machine is waited for before the plan is left standing.
const patience = 30 * time.Second

// back brings about the machine as it was found. An ended context does not keep it from doing so.
func (t *turning) back(ctx context.Context) error {
	if t.tx == "" {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	t.watchGuests(ctx, t.root)
	restored, err := t.Rollback(ctx, apply.RollbackOptions{TX: t.tx, Why: "bench in turns"})
	var locked *journal.Locked
	for deadline := time.Now().Add(patience); errors.As(err, &locked) && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond)
		restored, err = t.Rollback(ctx, apply.RollbackOptions{TX: t.tx, Why: "bench in turns"})
	}
	if err != nil {
		return failed(fmt.Errorf("put back what the plan changed: %w", err), "the plan stands: 'mpps rollback "+t.tx+"'")
	}
	if len(restored) == 0 {
		err = failed(fmt.Errorf("somebody else has rolled back transaction %s while it was measured: what was measured then is not as planned", t.tx), "measure again")
	}
	for _, r := range restored {
		if n := r.Drifted(); n > 0 {
			return failed(fmt.Errorf("%s of the plan: somebody else changed them meanwhile, and they were left alone", counted(n, "value")),
				"see 'mpps rollback "+t.tx+" --dry-run'")
		}
	}
	t.tx = ""
	_ = t.alone.stands("") // if it is gone, the next apply says so before it writes
	return err
}

// sides are the configurations of a comparison with the runs that they fill in.
func (t *turning) sides(before, after *measure.Run) [2]measure.Configuration {
	return [2]measure.Configuration{measure.A: {Run: before, Bring: t.back}, measure.B: {Run: after, Bring: t.apply}}
}

// changes are the differences between the sides, for people and programs.
func (t *turning) changes() []measure.ABChange {
	all := make([]measure.ABChange, len(t.plan.Changes))
	for i, c := range t.plan.Changes {
		all[i] = measure.ABChange{ID: c.ID, Address: c.Address.String(), From: c.From.String(), To: c.To.String()}
	}
	return all
}
