package plan

import (
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
)

// OfChanges returns a plan of changes that somebody asked for by name: they are not judged and are made in the given
// order. It has the identity of the host and a digest like any plan.
func OfChanges(h *facts.Host, g goal.Goal, changes []Change) *Plan {
	p := newPlan(h, g)
	p.Why, p.Asked, p.Changes = "asked for by name", true, append(p.Changes, changes...)
	p.finish(h)
	p.Seal()
	return p
}
