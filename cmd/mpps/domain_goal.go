package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mpps/internal/audit"
	"mpps/internal/domain"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/host"
	"mpps/internal/knob"
	"mpps/internal/ops"
	"mpps/internal/outcome"
	"mpps/internal/plan"
	"mpps/internal/setting"
)

// domainGoal are the goal flags of mpps domain tune. --nic and --guest mean something else there.
type domainGoal struct {
	goalFlags
	snapshot string
}

func (f *domainGoal) add(cmd *cobra.Command) {
	own := &cobra.Command{}
	f.goalFlags.add(own)
	f.set = own.Flags()
	own.Flags().VisitAll(func(flag *pflag.Flag) {
		if slices.Contains([]string{"pps", "frame", "loss", "bulk", "latency", "cpus"}, flag.Name) {
			cmd.Flags().AddFlag(flag)
		}
	})
	cmd.Flags().Lookup("pps").Usage = "let the catalogue decide for so many packets per second, such as 1.8M"
	cmd.Flags().StringVar(&f.snapshot, "snapshot", "", "the host that the definition is for: a file of 'mpps snapshot'")
}

// goal is the target that the flags name; nil where they name none.
func (f *domainGoal) goal() (*goal.Goal, error) {
	if !slices.ContainsFunc([]string{"pps", "bulk", "latency", "frame", "loss", "cpus"}, f.set.Changed) {
		return nil, nil
	}
	g, err := f.goalFlags.goal()
	return &g, err
}

// advice is what the catalogue wants of a definition on a host, and what that host has.
type advice struct {
	wishes []domain.Wish
	on     domain.Host
	notes  []outcome.Warning // what it would want, and why it cannot be
}

// advised asks the catalogue. Without a goal nothing is wanted.
func (a *app) advised(ctx context.Context, d *definition, flags *domainGoal, g *goal.Goal) (*advice, error) {
	m, err := a.env().Gather(ctx, ops.Look{Snapshot: flags.snapshot, Guest: ops.NoGuest})
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
			all.wishes = append(all.wishes, domain.Wish{Path: c.Address.Rest(), Value: c.To.Value, Off: c.To.State == setting.Absent})
		}
	}
	pin := setting.Of(setting.Domain, g.Guest, "vcpupin", "0")
	for _, f := range found.Findings {
		if f.Address == pin && f.State == audit.NotApplicable && f.Why != "" {
			all.notes = append(all.notes, outcome.Warning{Code: "not-pinned", Text: "not pinned: " + f.Why, Hint: "'mpps audit' on that host tells who has its CPUs"})
		}
	}
	return all, nil
}

// seat puts a definition among the guests of a host, in place of the one of its name, and gives that name.
func seat(h *facts.Host, d *definition) string {
	g := host.DescribeDefinition(d.doc.Guest(), string(d.text))
	if at := slices.IndexFunc(h.Guests, func(o facts.Guest) bool { return o.Name == g.Name }); at >= 0 {
		h.Guests[at] = g
	} else {
		h.Guests = append(h.Guests, g)
	}
	for _, address := range knob.Addresses(h, knob.Catalogue()) {
		if address.Kind == setting.Domain && address.Object() == g.Name {
			h.Readings[address] = host.DefinedValue(d.doc, address.Rest())
		}
	}
	return g.Name
}

// overridden is advice without what flags say of the same values, and the flags' wishes behind it. Advice that the document
// or the host refuses is left out: nobody asked for it by name.
func overridden(d *domain.Doc, from *advice, wishes []domain.Wish, nics []string) []domain.Wish {
	trial, err := d.Clone()
	if err != nil {
		return wishes
	}
	var good []domain.Wish
	for _, w := range from.wishes {
		if _, err := trial.Carry([]domain.Wish{w}, nil, from.on); err == nil {
			good = append(good, w)
		}
	}
	edits, _ := trial.Carry(wishes, nics, from.on) // what is wrong with these is told where they are carried for good
	good = slices.DeleteFunc(good, func(w domain.Wish) bool {
		return slices.ContainsFunc(edits, func(e domain.Edit) bool { return e.Path == w.Path })
	})
	return append(good, wishes...)
}
