package queuepath

import (
	"slices"
)

// Path is an observation with what follows from it.
type Path struct {
	Observation
	Lanes  []Lane  `json:"lanes"`
	Hops   []Hop   `json:"hops"`
	Faults []Fault `json:"faults"`
}

// Judge returns an observation's lanes, matrices and faults.
func Judge(o *Observation) *Path {
	return &Path{Observation: *o, Lanes: Lanes(o), Hops: Hops(o), Faults: Faults(o)}
}

// Joined reports whether packets were followed from queue to queue. If they could not be, rows hold only what each
// queue carried, and nothing follows from that.
func (o *Observation) Joined() bool {
	return slices.ContainsFunc(o.Rows, func(r Row) bool { return r.CPU >= 0 }) || len(o.Rows) == 0 &&
		!slices.ContainsFunc(o.Unseen, func(u Unseen) bool { return u.Blind == BlindWays })
}
