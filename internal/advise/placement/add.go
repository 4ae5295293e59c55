package placement

import "slices"

// PerQueue is how many packets per second one vhost thread is counted on to carry: the founding measurement had 1.8
// Mpps through 9 queues, and 140 kpps through one that did everything.
const PerQueue = 200e3

// Add places guests beside those of an ask, which stay where they are, or where the ask alone would put them: only
// those named may move, all where one of the names is "all". What could not be placed without the new ones stays
// refused.
func Add(ask Ask, more []Guest, move []string) *Result {
	base := place(ask)
	all := slices.Contains(move, "all")
	if all {
		move = nil
		for _, g := range ask.Guests {
			if !g.Fixed {
				move = append(move, g.Name)
			}
		}
	}
	with := seated(ask, base, move)
	for i := range with.Guests {
		g := &with.Guests[i]
		if slices.Contains(move, g.Name) {
			g.Pins = nil
		}
		g.NICs = slices.Clone(g.NICs)
		for j := range g.NICs {
			g.NICs[j].Queues = max(1, g.NICs[j].Queues)
		}
	}
	for _, g := range more {
		g.fresh, g.NICs = true, slices.Clone(g.NICs)
		for i := range g.NICs {
			if n := &g.NICs[i]; n.Queues == 0 && !n.VF && g.Rate > 0 {
				n.asked = true
				n.Queues = max(1, min(g.VCPUs, int((g.Rate+PerQueue-1)/PerQueue)))
			}
		}
		with.Guests = append(with.Guests, g)
	}
	with.queue()
	r := Place(with)
	for i := range r.Guests {
		p := &r.Guests[i]
		if was := base.Guest(p.Name); was != nil {
			p.Kept = was.Kept && p.VCPUSet().Equal(was.VCPUSet())
			if !p.VCPUSet().Equal(was.VCPUSet()) && !slices.Contains(r.Moved, p.Name) {
				r.Moved = append(r.Moved, p.Name)
			}
		}
	}
	slices.Sort(r.Moved)
	return r
}
