package queuepath

import (
	"fmt"
	"slices"
)

// Astray lists what was seen, once lanes were steered, to leave by another queue than was planned: more than a
// twentieth of a lane's packets, of lanes that sent enough to tell.
func Astray(o *Observation, s *Steering) []string {
	var all []string
	for i := range s.Groups {
		g := &s.Groups[i]
		if g.Means == AsItIs {
			continue
		}
		for at, l := range g.Lanes {
			planned, other := map[int]uint64{}, map[int]uint64{}
			for j := range o.Rows {
				r := &o.Rows[j]
				if r.Origin.Device != g.taps[at] || r.Origin.Queue < 0 || r.To.Direction != Tx ||
					!slices.Contains(g.NICs, r.To.Device) {
					continue
				}
				if r.To.Queue == QueueOf(l, r.Origin.Queue) {
					planned[r.Origin.Queue] += r.Packets
				} else {
					other[r.Origin.Queue] += r.Packets
				}
			}
			var queues []int
			var lost, total uint64
			for q, n := range other {
				if n+planned[q] >= leastSent && 20*n > n+planned[q] {
					queues = append(queues, q)
					lost, total = lost+n, total+n+planned[q]
				}
			}
			if len(queues) > 0 {
				slices.Sort(queues)
				all = append(all, fmt.Sprintf("%d of %d packets of %s of %s leave by other queues than planned (%s)",
					lost, total,
					some(len(queues), "queue"), g.taps[at], l))
			}
		}
	}
	return all
}
