package plan

import (
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
)

// Of is a plan of changes that somebody asked for by name: nothing is judged, they are made in the order in which they
// stand. It carries the identity of the host and a digest like any plan.
func Of(h *facts.Host, g goal.Goal, changes []Change) *Plan {
	p := &Plan{
		Schema: Schema, Host: h.Name, Made: h.Taken, Goal: g, Tier: g.Tier(), Why: "asked for by name", Asked: true,
		Identity: identity(h),
		Changes:  append([]Change{}, changes...), Consent: []Change{}, Skipped: []Skipped{}, Restarts: []Restart{},
		Later: []Later{}, Management: []Management{},
		Phases: []Phase{}, Notes: []string{},
	}
	for _, c := range p.Changes {
		p.wait(c)
	}
	p.manage(h)
	p.Seal()
	return p
}
