package definition

import (
	"context"
	"slices"

	"mpps/internal/advise/knob"
	"mpps/internal/advise/plan"
	"mpps/internal/change/apply"
	"mpps/internal/machine"
	"mpps/internal/model/datapath"
	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/ops"
	"mpps/internal/ops/change"
)

// editID is the ID, in plans and journals, of edits to values that no knob covers.
const editID = "domain.edit"

// carryOut changes a guest's definition on this host as an ordinary plan: value by value, journaled and read back. With
// live it also changes what libvirt can change while the guest runs.
func carryOut(ctx context.Context, env *ops.Env, d *Definition, edits []domain.Edit, live,
	dryRun bool) (*change.Outcome,
	error) {
	m, err := env.Open()
	if err != nil {
		return nil, err
	}
	defer m.Close()
	mechanisms := m.Mechanisms()
	var changes, now []plan.Change
	for _, e := range edits {
		if !changed(e) {
			continue
		}
		at := setting.Of(setting.Domain, d.Guest.Name, e.Path)
		want := setting.NotThere()
		if e.HasTo {
			want = setting.Exact(e.To)
		}
		if want, err = want.Canonical(at); err != nil {
			return nil, err
		}
		asked := func(at setting.Address, want setting.Want, needs setting.Needs) plan.Change {
			return withKnob(d, at, plan.Change{
				Address: at, From: mechanisms.Read(ctx, at), To: want.Target(), Want: want,
				Because: "asked for by name",
				Lasts:   setting.Kinds[at.Kind].Lasts, Needs: needs,
			})
		}
		running := setting.Of(setting.DomainLive, d.Guest.Name, e.Path)
		if !live || !machine.Movable(running) || !d.Guest.Active() {
			changes = append(changes, asked(at, want, needsRestart(d.Guest)))
			continue
		}
		changes = append(changes, asked(at, want, setting.Needs{}))
		if !e.HasTo { // an unpinned thread may use every CPU
			want = setting.Exact(d.Host.Topology.Online.String())
		}
		if found := mechanisms.Read(ctx, running); !want.Met(found) {
			now = append(now, asked(running, want, setting.Needs{}))
		}
	}
	p := plan.OfChanges(d.Host, goal.Goal{}, append(changes, now...))
	return change.Transact(ctx, env, p, &ops.Host{Facts: d.Host, Mechanisms: mechanisms}, apply.Options{DryRun: dryRun})
}

// changed reports whether an edit changes something.
func changed(e domain.Edit) bool { return e.From != e.To || e.HasFrom != e.HasTo }

// withKnob fills in the ID, title, stage and risk of a change: those of the knob that covers its value, or else those
// of a plain edit.
func withKnob(d *Definition, at setting.Address, c plan.Change) plan.Change {
	c.ID, c.Title = editID, "a value of a guest's definition"
	c.Stage, c.Risk, c.Severity = datapath.Domain, goal.GuestRestart, knob.Info
	for _, k := range knob.Catalogue() {
		if !k.Check && slices.Contains(k.Where(d.Host), at) {
			c.ID, c.Title, c.Stage, c.Risk = k.ID, k.Title, k.Stage, k.Risk
			break
		}
	}
	return c
}

// needsRestart returns what a change of a definition waits for: the guest's restart, or nothing if it does not run.
func needsRestart(g *facts.Guest) setting.Needs {
	if !g.Active() {
		return setting.Needs{}
	}
	return setting.RestartOf(g.Name)
}
