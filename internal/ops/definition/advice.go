package definition

import (
	"context"
	"slices"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/knob"
	"mpps/internal/advise/plan"
	"mpps/internal/machine"
	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// advice is what the catalogue recommends for a definition on a host.
type advice struct {
	wishes []domain.Change
	on     domain.Host
	notes  []outcome.Warning // recommendations that the host does not allow, and why
}

// advise asks the catalogue for advice on a definition for this host, or for the host of a snapshot. Without a goal
// there are no wishes.
func advise(ctx context.Context, env *ops.Env, d *Definition, snapshot string, g *goal.Goal) (*advice, error) {
	m, err := env.Gather(ctx, ops.Look{Snapshot: snapshot, Guest: ops.NoGuest})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	h := m.Facts
	a := &advice{on: hostLimits(h)}
	if g == nil {
		return a, nil
	}
	g.Guest = placeGuest(h, d)
	if err := ops.CheckGoal(m.Facts, *g); err != nil {
		return nil, err
	}
	found := audit.RunWith(h, *g, knob.Catalogue(), m.Site.Adjust)
	p, err := plan.From(h, *g, found, knob.Catalogue())
	if err != nil {
		return nil, err
	}
	for _, c := range p.Changes {
		if c.Address.Kind == setting.Domain && c.Address.Object() == g.Guest {
			a.wishes = append(a.wishes, domain.Change{
				Path: c.Address.Rest(), Value: c.To.Value, Off: c.To.State == setting.Absent,
			})
		}
	}
	pin := setting.Of(setting.Domain, g.Guest, "vcpupin", "0")
	for _, f := range found.Findings {
		if f.Address == pin && f.State == audit.NotApplicable && f.Why != "" {
			a.notes = append(a.notes, outcome.Warning{
				Code: "not-pinned", Text: "not pinned: " + f.Why,
				Hint: "'mpps audit' on that host tells who has its CPUs",
			})
		}
	}
	return a, nil
}

// placeGuest adds the guest of a definition to a host, replacing a guest of the same name, and returns the name.
func placeGuest(h *facts.Host, d *Definition) string {
	g := machine.DescribeDefinition(d.Doc.Guest(), string(d.Text))
	if same := facts.Find(h.Guests, func(o *facts.Guest) bool { return o.Name == g.Name }); same != nil {
		*same = g
	} else {
		h.Guests = append(h.Guests, g)
	}
	for _, address := range knob.Addresses(h, knob.Catalogue()) {
		if address.Kind == setting.Domain && address.Object() == g.Name {
			h.Readings[address] = machine.DefinedValue(d.Doc, address.Rest())
		}
	}
	return g.Name
}

// override returns the advice followed by the user's wishes, which win: advice about the same values is left out, and
// so is advice that the document or the host refuses.
func (a *advice) override(d *domain.Doc, wishes []domain.Change, nics []string) []domain.Change {
	trial, err := d.Clone()
	if err != nil {
		return wishes
	}
	var good []domain.Change
	for _, w := range a.wishes {
		if _, err := trial.Make([]domain.Change{w}, nil, a.on); err == nil {
			good = append(good, w)
		}
	}
	edits, _ := trial.Apply(wishes, nics, a.on) // Tune reports what is wrong with these
	named := map[string]bool{}
	for _, e := range edits {
		named[e.Path] = true
	}
	good = slices.DeleteFunc(good, func(w domain.Change) bool { return named[w.Path] })
	return append(good, wishes...)
}

// noAdvice returns advice without wishes, with the limits of the guest's host; the host of a file is unknown.
func (d *Definition) noAdvice() *advice {
	if d.Host == nil {
		return &advice{}
	}
	return &advice{on: hostLimits(d.Host)}
}

// hostLimits returns what a host offers to definitions.
func hostLimits(h *facts.Host) domain.Host {
	on := domain.Host{Libvirt: h.KVM.Libvirt, QEMU: h.KVM.QEMU}
	for _, c := range h.Topology.CPUs {
		if c.Online {
			on.CPUs = append(on.CPUs, c.ID)
		}
	}
	for _, n := range h.Topology.Nodes {
		on.Nodes = append(on.Nodes, n.ID)
	}
	return on
}
