package placement

import (
	"slices"

	"mpps/internal/model/facts"
)

// PerQueue is the rate that one vhost thread is expected to carry, in packets per second: the guest of the bridge
// guide had 1.8 Mpps through 9 queues. (The 140 kpps through one queue are of the multi-queue article,
// through a tunnel.)
const PerQueue = 200e3

// Add places more guests next to those of an ask. Those stay where they are, or where the ask alone would place them,
// except the ones named in move ("all": any of them). Guests that have no place without the new ones stay refused.
func Add(ask Ask, more []Guest, move []string) *Result {
	base := settle(ask)
	if slices.Contains(move, "all") {
		move = nil
		for _, g := range ask.Guests {
			if !g.Fixed {
				move = append(move, g.Name)
			}
		}
	}
	with := withSeats(ask, base, move)
	for g := range facts.Each(with.Guests) {
		if slices.Contains(move, g.Name) {
			g.Pins, g.free, g.left = nil, true, nil
		}
		g.NICs = slices.Clone(g.NICs)
		for n := range facts.Each(g.NICs) {
			n.Queues = max(1, n.Queues)
		}
	}
	for _, g := range more {
		g.isNew, g.NICs = true, slices.Clone(g.NICs)
		for n := range facts.Each(g.NICs) {
			if n.Queues == 0 && !n.VF && g.Rate > 0 {
				n.fromRate = true
				n.Queues = max(1, min(g.VCPUs, int((g.Rate+PerQueue-1)/PerQueue)))
			}
		}
		with.Guests = append(with.Guests, g)
	}
	with.chooseQueues()
	r := Place(with)
	for p := range facts.Each(r.Guests) {
		if was := base.Guest(p.Name); was != nil {
			same := p.VCPUSet().Equal(was.VCPUSet())
			p.Kept = was.Kept && same
			if !same && !slices.Contains(r.Moved, p.Name) {
				r.Moved = append(r.Moved, p.Name)
			}
		}
	}
	slices.Sort(r.Moved)
	return r
}
