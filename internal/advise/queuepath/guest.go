package queuepath

import "slices"

// Of is what of a path concerns one guest: rows and lanes of packets that come from it or go to it, its workers, and
// the faults that its packets meet: what others do on the same queues is what hurts it. What is told of devices, locks
// and what could not be seen stays whole.
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
	part.Hops, part.Faults = Hops(&part.Observation), part.met(p.Faults)
	return &part
}

// met are the faults on whose queues packets of the path's rows were seen; of flapping, packets that flap. One whose
// cause is another's stands for itself.
func (p *Path) met(faults []Fault) []Fault {
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
