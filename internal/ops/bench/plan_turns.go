package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mpps/internal/advise/plan"
	"mpps/internal/change/apply"
	"mpps/internal/change/journal"
	"mpps/internal/measure"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/ops"
	"mpps/internal/ops/change"
	"mpps/internal/outcome"
)

// planTurns switches the machine between the two sides of a comparison, as found and as planned, by apply and rollback.
type planTurns struct {
	*change.Engine
	plan    *plan.Plan
	beside  []setting.Address
	tx      string // the transaction that stands; empty: the machine is as found
	orphans *change.OrphanGuard
	applied int // that the plan was applied
	close   func() error
}

// openTurns opens the plan of a file for turns, without what would make it last. It refuses plans that do not take
// effect at once, that can cut off the operator's connection, or that change nothing.
func openTurns(ctx context.Context, env *ops.Env, from change.Source) (*planTurns, error) {
	from.RuntimeOnly = true
	p, err := change.File(ctx, env, from)
	if err != nil {
		return nil, err
	}
	t := &planTurns{plan: p.Plan, beside: change.CoupledAddresses(p.Plan, p.Host.Facts)}
	if err = refuseTurns(p.Plan, p.Host, p.Cuts); err == nil {
		err = env.NeedsRoot("bench --plan")
	}
	if err == nil {
		t.Engine, err = change.Open(env, p.Host.Mechanisms)
	}
	if err == nil {
		t.orphans, err = change.StartOrphanGuard(env)
	}
	if err != nil {
		return nil, errors.Join(err, p.Host.Close())
	}
	t.close = func() error { return errors.Join(t.orphans.Close(), t.Engine.Close(), p.Host.Close()) }
	return t, nil
}

const byThemselves = "measure before and after by themselves: 'mpps bench … -o FILE', then 'mpps bench compare'"

// refuseTurns refuses a plan that cannot be applied and rolled back in turns. cuts says whether the plan can cut off
// the operator's connection.
func refuseTurns(p *plan.Plan, m *ops.Host, cuts bool) error {
	met := 0
	for _, c := range p.Changes {
		if !c.Needs.IsZero() {
			return outcome.Usage(fmt.Errorf("--plan: %s takes effect after %s, and turns need changes that take "+
				"effect at once", c.Address, c.Needs), byThemselves)
		}
		if c.Risk == goal.Connectivity {
			return outcome.Usage(fmt.Errorf("--plan: %s can cut the way that you came by, and would be changed many "+
				"times", c.Address), byThemselves)
		}
		if c.Want.Met(m.Facts.Readings.At(c.Address)) {
			met++
		}
	}
	if cuts {
		return outcome.Usage(errors.New("--plan: it can cut the way that you came by, and would be applied many "+
			"times"), byThemselves)
	}
	if met == len(p.Changes) {
		return outcome.Usage(errors.New("--plan: everything is as planned already: there are no two sides to compare"),
			"'mpps rollback' puts back what an apply changed")
	}
	return nil
}

// guard arranges that a transaction is undone if this process dies.
func (t *planTurns) guard(tx string) error { return t.orphans.Set(tx) }

// Apply applies the plan.
func (t *planTurns) Apply(ctx context.Context) error {
	result, err := t.Run(ctx, t.plan, apply.Options{Beside: t.beside, Arm: t.guard})
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
	t.applied++
	for _, moved := range result.Moved {
		return outcome.Failed(fmt.Errorf("%s moved from %s to %s beside the plan and could not be put back",
			moved.Address, moved.From, moved.Found), moved.Why)
	}
	return nil
}

// patience is how long a rollback waits for another mpps that holds the lock.
const patience = 30 * time.Second

// Rollback rolls back transactions, also if the context has ended. It waits for another mpps to finish.
func Rollback(ctx context.Context, e *change.Engine, o apply.RollbackOptions) ([]apply.Restored, error) {
	ctx = context.WithoutCancel(ctx)
	var locked *journal.Locked
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		restored, err := e.Rollback(ctx, o)
		if !errors.As(err, &locked) || time.Now().After(deadline) {
			return restored, err
		}
	}
}

// Back rolls the plan back, also if the context has ended.
func (t *planTurns) Back(ctx context.Context) error {
	if t.tx == "" {
		return nil
	}
	t.WatchGuests(context.WithoutCancel(ctx))
	restored, err := Rollback(ctx, t.Engine, apply.RollbackOptions{TX: t.tx, Why: "bench in turns"})
	if err != nil {
		return outcome.Failed(fmt.Errorf("put back what the plan changed: %w", err),
			"the plan stands: 'mpps rollback "+t.tx+"'")
	}
	if len(restored) == 0 {
		err = outcome.Failed(fmt.Errorf("somebody else has rolled back transaction %s while it was measured: what "+
			"was measured then is not as planned", t.tx), "measure again")
	}
	for _, r := range restored {
		if n := r.Drifted(); n > 0 {
			return outcome.Failed(fmt.Errorf("%s of the plan: somebody else changed them meanwhile, and they were "+
				"left alone", ops.Count(n, "value")), "see 'mpps rollback "+t.tx+" --dry-run'")
		}
	}
	t.tx = ""
	_ = t.orphans.Set("") // if that process is gone, the next apply fails before it writes
	return err
}

// Describe fills in the difference between the two sides.
func (t *planTurns) Describe(ab *measure.AB) {
	for _, c := range t.plan.Changes {
		ab.Changes = append(ab.Changes, measure.ABChange{ID: c.ID, Address: c.Address.String(), From: c.From.String(),
			To: c.To.String()})
	}
	ab.Plan, ab.Switches, ab.RolledBack = t.plan.Digest, t.applied, t.tx == ""
}
