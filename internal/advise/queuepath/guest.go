package queuepath

import (
	"slices"

	"mpps/internal/model/facts"
)

// Of returns the part of a path that concerns one guest: rows and lanes of packets from it or to it, its vhost workers,
// and the faults of queues that its packets take, since others on the same queues affect it too. Devices, locks and
// what could not be seen stay complete.
func (p *Path) Of(guest string) *Path {
	taps := map[string]bool{}
	for _, d := range p.Devices {
		if d.Guest == guest {
			taps[d.Name] = true
		}
	}
	part := *p
	part.Rows = facts.Where(p.Rows, func(r Row) bool { return taps[r.Origin.Device] || taps[r.To.Device] })
	part.Vhost = facts.Where(p.Vhost, func(v Vhost) bool { return v.Guest == guest })
	part.Lanes = facts.Where(p.Lanes, func(l Lane) bool {
		return slices.ContainsFunc(l.Stops, func(s Stop) bool { return taps[s.Device] })
	})
	part.Hops, part.Faults = Hops(&part.Observation), part.faultsOf(p.Faults)
	return &part
}

// faultsOf returns the faults whose queues the path's rows take; of flapping, only if these rows flap. A fault whose
// cause is left out follows nothing.
func (p *Path) faultsOf(faults []Fault) []Fault {
	met := facts.Where(faults, func(f Fault) bool {
		return slices.ContainsFunc(p.Rows, func(r Row) bool {
			return r.Packets >= leastSent && slices.Contains(f.Queues, r.To) &&
				(f.Kind != Flapping || f.origins[r.Origin])
		})
	})
	for i := range met {
		if !slices.ContainsFunc(met, func(c Fault) bool { return c.Name() == met[i].Follows }) {
			met[i].Follows = ""
		}
	}
	return met
}
