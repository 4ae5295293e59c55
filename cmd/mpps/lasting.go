package main

import (
	"context"

	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/host"
	"mpps/internal/journal"
	"mpps/internal/knob"
	"mpps/internal/lasting"
	"mpps/internal/ops"
	"mpps/internal/plan"
	"mpps/internal/setting"
)

// lastingPlan plans for a goal, with what makes the changes last (and what earlier applies have given and does not last yet)
// unless only the running host is to be changed.
func (a *app) lastingPlan(m *ops.Host, g goal.Goal, runtimeOnly bool) (*plan.Plan, error) {
	p, err := plan.MakeWith(m.Facts, g, knob.Catalogue(), m.Site.Adjust)
	if err != nil {
		return nil, err
	}
	var standing []plan.Change
	if m.Mechanisms != nil {
		standing = a.standing()
	}
	if err := lasting.Add(p, m.Facts, standing...); err != nil {
		return nil, err
	}
	if runtimeOnly {
		lasting.Strip(p)
	}
	return p, nil
}

// standing are the values that applies which stand have given; none where the journal cannot be read, which apply refuses
// in its own words.
func (a *app) standing() []plan.Change {
	j, err := journal.Open(a.root)
	if err != nil {
		return nil
	}
	defer j.Close()
	ledger, err := j.Ledger()
	if err != nil {
		return nil
	}
	at := map[setting.Address]int{}
	var all []plan.Change
	for _, t := range ledger.Open() {
		for _, c := range t.Changes() {
			if c.State != journal.ChangeDone {
				continue
			}
			given := plan.Change{ID: c.ID, Address: c.Address, From: c.Before, To: c.After, Want: c.Want, Lasts: c.Lasts}
			if i, known := at[c.Address]; known {
				all[i] = given
				continue
			}
			at[c.Address] = len(all)
			all = append(all, given)
		}
	}
	return all
}

// watchOwners makes the engine tell who else sets a value that is not as applied. Files and daemons are looked at only where
// there is such a value.
func (e *engine) watchOwners(ctx context.Context, root string) {
	var owners *facts.Host
	e.Owner = func(c journal.Change, found setting.Reading) string {
		if owners == nil {
			owners = ownersNow(ctx, root)
		}
		for _, o := range lasting.Owners(owners, c.Address) {
			if o.Value == "" || found.State == setting.Known && o.Value == found.Value {
				return o.String()
			}
		}
		return ""
	}
}

func ownersNow(ctx context.Context, root string) *facts.Host {
	m, err := host.Open(root)
	if err != nil {
		return &facts.Host{}
	}
	defer m.Close()
	return m.Owners(ctx)
}
