package change

import (
	"context"
	"path"

	"mpps/internal/advise/sriov"
	"mpps/internal/change/apply"
	"mpps/internal/change/journal"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// Undo selects what to roll back.
type Undo = apply.RollbackOptions

// RolledBack is the outcome of a rollback.
type RolledBack struct {
	DryRun       bool             `json:"dry_run,omitempty"`
	Transactions []apply.Restored `json:"transactions"`

	Host     string            `json:"-"`
	Warnings []outcome.Warning `json:"-"`
}

// Drifted returns how many values were left alone because somebody else changed them.
func (r *RolledBack) Drifted() int {
	n := 0
	for _, t := range r.Transactions {
		n += t.Drifted()
	}
	return n
}

// Written returns how many values were restored, or with DryRun would be.
func (r *RolledBack) Written() int {
	n := 0
	for _, t := range r.Transactions {
		n += t.Written()
	}
	return n
}

// Rollback undoes transactions. If it fails half-way, it returns both the outcome and the error.
func Rollback(ctx context.Context, env *ops.Env, o Undo) (*RolledBack, error) {
	if err := env.NeedsRoot("rollback"); err != nil && !o.DryRun {
		return nil, err
	}
	e, err := Open(env, nil)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	e.WatchGuests(ctx)
	e.Journal.Appended = func(_ string, r journal.Record) {
		if r.Address != nil {
			env.Out.Progress("putting back change %d: %s", r.N, r.Address)
		}
	}
	e.InHand = e.refuseInUse
	restored, err := e.Engine.Rollback(ctx, o)
	if err != nil && len(restored) == 0 {
		return nil, err
	}
	for _, r := range restored {
		if r.Guarded && r.State == journal.Applied {
			cancelGuard(ctx, e.Machine, r.Of)
		}
	}
	if restored == nil {
		restored = []apply.Restored{}
	}
	return &RolledBack{DryRun: o.DryRun, Transactions: restored, Host: e.Name, Warnings: unrecorded(restored)}, err
}

// unrecorded warns of transactions that were put back without a record.
func unrecorded(all []apply.Restored) (warnings []outcome.Warning) {
	for _, r := range all {
		if r.Unrecorded != "" {
			why := &apply.Unrecorded{TX: r.Of, Why: r.Unrecorded}
			warnings = append(warnings, outcome.Warning{Code: "unrecorded", Text: why.Error(), Hint: why.Hint()})
		}
	}
	return warnings
}

// refuseInUse refuses to undo the assignment of a VF that its guest is running with: that would take the VF's MAC
// address and VLAN away. A VF hot-plugged into a running guest is unplugged first, so it is accepted.
func (e *Engine) refuseInUse(ctx context.Context, changes []journal.Change) error {
	var gave []facts.Reservation
	for _, c := range changes {
		switch {
		case c.Address.Kind == setting.DomainDevice:
			return nil
		case c.Address.Kind != setting.File || path.Dir(c.Address.Path) != setting.Reservations,
			c.After.State != setting.Known, !c.Wrote():
			continue
		}
		all, err := facts.ParseReservations(c.Address, c.After.Value)
		if err != nil {
			continue // not a reservation of this version
		}
		gave = append(gave, all...)
	}
	if len(gave) == 0 {
		return nil
	}
	return sriov.CheckReturned(e.Machine.Functions(ctx), gave)
}
