package main

import (
	"context"
	"slices"

	"mpps/internal/apply"
	"mpps/internal/datapath"
	"mpps/internal/domain"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/host"
	"mpps/internal/knob"
	"mpps/internal/plan"
	"mpps/internal/setting"
)

// editID is the ID under which edits of values stand in plans and journals that no knob speaks of.
const editID = "domain.edit"

// applyEdits changes a guest's definition on this host, as a plan like any other: value by value, journaled and read back. With
// live it also changes what libvirt can change of the guest while it runs.
func (a *app) applyEdits(ctx context.Context, d *definition, edits []domain.Edit, live, dryRun, detailed bool) error {
	m, err := host.Open(a.root)
	if err != nil {
		return err
	}
	defer m.Close()
	mechanisms := m.Mechanisms()
	var changes, now []plan.Change
	for _, e := range edits {
		if !changed(e) {
			continue
		}
		at := setting.Of(setting.Domain, d.guest.Name, e.Path)
		want := setting.NotThere()
		if e.HasTo {
			want = setting.Exact(e.To)
		}
		if want, err = want.Canonical(at); err != nil {
			return err
		}
		asked := func(at setting.Address, want setting.Want, needs setting.Needs) plan.Change {
			return described(d, at, plan.Change{
				Address: at, From: mechanisms.Read(ctx, at), To: want.Target(), Want: want, Because: "asked for by name",
				Lasts: setting.Kinds[at.Kind].Lasts, Needs: needs,
			})
		}
		running := setting.Of(setting.DomainLive, d.guest.Name, e.Path)
		if !live || !host.Movable(running) || !d.guest.Active() {
			changes = append(changes, asked(at, want, restart(d.guest)))
			continue
		}
		changes = append(changes, asked(at, want, setting.Needs{}))
		if !e.HasTo { // a thread without a pin has every CPU
			want = setting.Exact(d.host.Topology.Online.String())
		}
		if found := mechanisms.Read(ctx, running); !want.Met(found) {
			now = append(now, asked(running, want, setting.Needs{}))
		}
	}
	p := plan.Of(d.host, goal.Goal{}, append(changes, now...))
	return a.apply(ctx, p, &machine{facts: d.host, mechanisms: mechanisms}, apply.Options{DryRun: dryRun}, detailed)
}

// described gives a change the name and title of the knob that speaks of its value, or names of its own.
func described(d *definition, at setting.Address, c plan.Change) plan.Change {
	c.ID, c.Title, c.Stage, c.Risk, c.Severity = editID, "a value of a guest's definition", datapath.Domain, goal.GuestRestart, knob.Info
	for _, k := range knob.Catalogue() {
		if !k.Check && slices.Contains(k.Where(d.host), at) {
			c.ID, c.Title, c.Stage, c.Risk = k.ID, k.Title, k.Stage, k.Risk
			break
		}
	}
	return c
}

// restart is what a change of a definition waits for: nothing where the guest does not run.
func restart(g *facts.Guest) setting.Needs {
	if !g.Active() {
		return setting.Needs{}
	}
	return setting.RestartOf(g.Name)
}
