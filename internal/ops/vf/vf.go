// Package vf implements 'mpps sriov': it inspects virtual functions, creates them, sets their attributes, assigns them
// to guests and takes them back.
package vf

import (
	"context"
	"fmt"

	"mpps/internal/advise/knob"
	"mpps/internal/advise/lasting"
	"mpps/internal/advise/plan"
	"mpps/internal/advise/sriov"
	"mpps/internal/change/journal"
	"mpps/internal/machine"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/ops"
	"mpps/internal/ops/change"
	"mpps/internal/outcome"
)

// explicitGoal is the goal of changes that the user named: it consents to security risks.
var explicitGoal = goal.Goal{Consent: []goal.Risk{goal.Security}}

// List lists the VFs of this machine, or of a snapshot.
func List(ctx context.Context, env *ops.Env, snapshot string, which sriov.Which) (h *facts.Host, l sriov.List,
	err error) {
	if snapshot != "" {
		h, err = ops.ReadSnapshot(snapshot)
	} else {
		err = env.With(func(m *machine.Machine) error {
			h = m.Within(ctx).Functions(ctx)
			return ops.Complete(ctx)
		})
	}
	if err != nil {
		return nil, l, err
	}
	l, err = sriov.Show(h, which)
	return h, l, err
}

// Check checks the prerequisites of SR-IOV for one physical function, or for all if pf is empty.
func Check(ctx context.Context, env *ops.Env, snapshot, pf string) (*facts.Host, sriov.Check, error) {
	h, err := env.Host(ctx, ops.Look{Snapshot: snapshot, Guest: ops.NoGuest,
		Read: func(h *facts.Host) []setting.Address {
			return knob.Addresses(h, sriov.Catalogued())
		}})
	if err != nil {
		return nil, sriov.Check{}, err
	}
	defer h.Close()
	j := sriov.Journal{Unread: "a snapshot has no journal"}
	if snapshot == "" {
		j = unsettledTransactions(env)
	}
	c, err := sriov.Examine(h.Facts, pf, j)
	return h.Facts, c, err
}

// unsettledTransactions returns the transactions about VFs in this host's journal that must be rolled back.
func unsettledTransactions(env *ops.Env) sriov.Journal {
	d, err := journal.Open(env.Root)
	if err != nil {
		return sriov.Journal{Unread: err.Error()}
	}
	defer d.Close()
	ledger, err := d.Ledger()
	if err != nil {
		return sriov.Journal{Unread: err.Error()}
	}
	var j sriov.Journal
	for _, t := range ledger.Unsettled() {
		u := sriov.Unsettled{TX: t.Header.TX, State: string(ledger.State(t))}
		for _, c := range t.Changes() {
			if c.Wrote() && sriov.Concerns(c.Address) {
				u.About = append(u.About, c.Address.String())
			}
		}
		if len(u.About) > 0 {
			j.Unsettled = append(j.Unsettled, u)
		}
	}
	return j
}

// Guest returns the VFs of a guest as seen from the host and from inside.
func Guest(ctx context.Context, env *ops.Env, snapshot, guest string) (*facts.Host, *sriov.GuestSide, error) {
	h, err := env.Host(ctx, ops.Look{Snapshot: snapshot, Guest: guest, Site: true})
	if err != nil {
		return nil, nil, err
	}
	defer h.Close()
	side, err := sriov.Guest(h.Facts, guest)
	return h.Facts, side, err
}

// Migrate plans the migration of a guest with VFs to another host. target is a snapshot of that host; empty: none.
func Migrate(ctx context.Context, env *ops.Env, ask sriov.MigrateRequest, target string) (*facts.Host, *sriov.Migration,
	error) {
	if target != "" {
		there, err := ops.ReadSnapshot(target)
		if err != nil {
			return nil, nil, err
		}
		ask.Target = there
	}
	inside := ops.NoGuest
	if ask.Failover { // its kernel matters
		inside = ask.Guest
	}
	h, err := env.Host(ctx, ops.Look{Guest: inside})
	if err != nil {
		return nil, nil, err
	}
	defer h.Close()
	found, err := sriov.Migrate(h.Facts, ask)
	return h.Facts, found, err
}

// Create creates VFs on a NIC.
func Create(ctx context.Context, env *ops.Env, ask sriov.CreateRequest, o change.Options) (*change.Outcome, error) {
	if ask.Persist == sriov.ByLink {
		if err := env.With(func(m *machine.Machine) error {
			l := &ask.Link
			l.Systemd, l.Path, l.File, l.Text = m.Link(ask.PF)
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return change.CarryOut(ctx, env, change.Wish{Changes: func(h *ops.Host) ([]plan.Change, []outcome.Warning, error) {
		h.Read(ctx, sriov.CreateReads(h.Facts, ask.PF)...)
		changes, notes, err := sriov.Create(h.Facts, ask)
		return changes, noteWarnings(notes), err
	}}, o)
}

// Destroy removes all VFs of a NIC.
func Destroy(ctx context.Context, env *ops.Env, pf string, force bool, o change.Options) (*change.Outcome, error) {
	return change.CarryOut(ctx, env, change.Wish{Changes: func(h *ops.Host) ([]plan.Change, []outcome.Warning, error) {
		h.Read(ctx, sriov.CreateReads(h.Facts, pf)...)
		changes, notes, err := sriov.Destroy(h.Facts, pf, force)
		return changes, noteWarnings(notes), err
	}}, o)
}

// noteWarnings returns notes as warnings of an answer.
func noteWarnings(notes []sriov.Note) []outcome.Warning {
	var all []outcome.Warning
	for _, n := range notes {
		all = append(all, outcome.Warning{Code: n.Code, Text: n.Text, Hint: n.Hint})
	}
	return all
}

// Set sets attributes of a VF. words name the VF, then attributes with their values.
func Set(ctx context.Context, env *ops.Env, words []string, o change.Options) (*change.Outcome, error) {
	return change.CarryOut(ctx, env,
		change.Wish{Goal: explicitGoal, Changes: func(h *ops.Host) ([]plan.Change, []outcome.Warning, error) {
			f, rest, err := sriov.Find(h.Facts, words)
			if err != nil {
				return nil, nil, err
			}
			sets, err := sriov.ParseSets(rest)
			if err != nil {
				return nil, nil, outcome.Usage(err, "")
			}
			h.Read(ctx, sriov.Addresses(f, sets)...)
			changes, err := sriov.PlanSet(h.Facts, f, sets)
			return changes, nil, err
		}}, o)
}

// findOne returns the VF that words name. No other words may follow.
func findOne(h *facts.Host, words []string) (*facts.VF, error) {
	f, rest, err := sriov.Find(h, words)
	if err == nil && len(rest) > 0 {
		err = outcome.Usage(fmt.Errorf("found %q behind the virtual function", rest[0]), "")
	}
	return f, err
}

// desiredAddresses returns a predicate for addresses whose desired values count.
func desiredAddresses(h *facts.Host, counts func(lasting.Value) bool) (func(setting.Address) bool, error) {
	values, err := change.DesiredValues(h)
	kept := map[setting.Address]bool{}
	for _, v := range values {
		kept[v.Address] = counts(v)
	}
	return func(a setting.Address) bool { return kept[a] }, err
}

// forAnyGuest reports whether a value is put back whichever guest has the VF.
func forAnyGuest(v lasting.Value) bool { return v.For == "" }
