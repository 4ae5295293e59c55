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

// advice is what the catalogue wants of a definition on a host, and what that host has.
type advice struct {
	wishes []domain.Change
	on     domain.Host
	notes  []outcome.Warning // what it would want, and why it cannot be
}

// advise asks the catalogue what is good for a definition on this host, or on that of a snapshot. Without a goal it
// wants nothing.
func advise(ctx context.Context, env *ops.Env, d *Definition, snapshot string, g *goal.Goal) (*advice, error) {
	m, err := env.Gather(ctx, ops.Look{Snapshot: snapshot, Guest: ops.NoGuest})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	h := m.Facts
	all := &advice{on: definedOn(h)}
	if g == nil {
		return all, nil
	}
	g.Guest = seat(h, d)
	if err := m.Has(*g); err != nil {
		return nil, err
	}
	found := audit.RunWith(h, *g, knob.Catalogue(), m.Site.Adjust)
	p, err := plan.From(h, *g, found, knob.Catalogue())
	if err != nil {
		return nil, err
	}
	for _, c := range p.Changes {
		if c.Address.Kind == setting.Domain && c.Address.Object() == g.Guest {
			all.wishes = append(all.wishes, domain.Change{
				Path: c.Address.Rest(), Value: c.To.Value, Off: c.To.State == setting.Absent,
			})
		}
	}
	pin := setting.Of(setting.Domain, g.Guest, "vcpupin", "0")
	for _, f := range found.Findings {
		if f.Address == pin && f.State == audit.NotApplicable && f.Why != "" {
			all.notes = append(all.notes, outcome.Warning{
				Code: "not-pinned", Text: "not pinned: " + f.Why,
				Hint: "'mpps audit' on that host tells who has its CPUs",
			})
		}
	}
	return all, nil
}

// seat puts a definition among the guests of a host, in place of the one of its name, and gives that name.
func seat(h *facts.Host, d *Definition) string {
	g := machine.DescribeDefinition(d.Doc.Guest(), string(d.Text))
	if at := slices.IndexFunc(h.Guests, func(o facts.Guest) bool { return o.Name == g.Name }); at >= 0 {
		h.Guests[at] = g
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

// override returns the advice followed by wishes, which win: advice about the same values is left out, and so is
// advice that the document or the host refuses.
func (a *advice) override(d *domain.Doc, wishes []domain.Change, nics []string) []domain.Change {
	trial, err := d.Clone()
	if err != nil {
		return wishes
	}
	var good []domain.Change
	for _, w := range a.wishes {
		if _, err := trial.Apply([]domain.Change{w}, nil, a.on); err == nil {
			good = append(good, w)
		}
	}
	edits, _ := trial.Apply(wishes, nics, a.on) // what is wrong with these is told where they are carried for good
	good = slices.DeleteFunc(good, func(w domain.Change) bool {
		return slices.ContainsFunc(edits, func(e domain.Edit) bool { return e.Path == w.Path })
	})
	return append(good, wishes...)
}

// unadvised is advice that wants nothing, with what the host of the guest has; nothing is known of a file's host.
func (d *Definition) unadvised() *advice {
	if d.Host == nil {
		return &advice{}
	}
	return &advice{on: definedOn(d.Host)}
}

// definedOn is what a host has for definitions.
func definedOn(h *facts.Host) domain.Host {
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
