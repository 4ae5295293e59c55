package queuepath

import (
	"slices"
)

// Path is what was seen in an interval, and what follows from it.
type Path struct {
	Observation
	Lanes  []Lane  `json:"lanes"`
	Hops   []Hop   `json:"hops"`
	Faults []Fault `json:"faults"`
}

// Judge works out lanes, matrices and faults of an observation.
func Judge(o *Observation) *Path {
	return &Path{Observation: *o, Lanes: Lanes(o), Hops: Hops(o), Faults: Faults(o)}
}

// Joined reports whether packets were watched on their way. Where they could not be, rows hold what each queue carried
// and no more, of which nothing follows.
func (o *Observation) Joined() bool {
	for i := range o.Rows {
		if o.Rows[i].CPU >= 0 {
			return true
		}
	}
	return len(o.Rows) == 0 && !slices.ContainsFunc(o.Unseen, func(u Unseen) bool { return u.Blind == BlindWays })
}
