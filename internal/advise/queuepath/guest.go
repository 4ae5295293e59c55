package queuepath

import "slices"

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
	part.Rows, part.Vhost, part.Lanes = nil, nil, nil
	for _, r := range p.Rows {
		if taps[r.Origin.Device] || taps[r.To.Device] {
			part.Rows = append(part.Rows, r)
		}
	}
	for _, v := range p.Vhost {
		if v.Guest == guest {
			part.Vhost = append(part.Vhost, v)
		}
	}
	for _, l := range p.Lanes {
		if slices.ContainsFunc(l.Stops, func(s Stop) bool { return taps[s.Device] }) {
			part.Lanes = append(part.Lanes, l)
		}
	}
	part.Hops, part.Faults = Hops(&part.Observation), part.faultsOf(p.Faults)
	return &part
}

// faultsOf returns the faults whose queues the path's rows take; of flapping, only if these rows flap. A fault whose
// cause is left out follows nothing.
func (p *Path) faultsOf(faults []Fault) []Fault {
	met := []Fault{}
	for _, f := range faults {
		if slices.ContainsFunc(p.Rows, func(r Row) bool {
			return r.Packets >= leastSent && slices.Contains(f.Queues, r.To) &&
				(f.Kind != Flapping || f.origins[r.Origin])
		}) {
			met = append(met, f)
		}
	}
	for i := range met {
		if !slices.ContainsFunc(met, func(c Fault) bool { return c.Name() == met[i].Follows }) {
			met[i].Follows = ""
		}
	}
	return met
}
