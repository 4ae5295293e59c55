package queuepath

import (
	"fmt"
	"slices"

	"mpps/internal/model/facts"
	"mpps/internal/words"
)

// Astray lists the steered lanes that leave by other queues than planned: with more than 5 % of a queue's packets, if
// it sent enough to tell.
func Astray(o *Observation, s *Steering) []string {
	var all []string
	for g := range facts.Each(s.Groups) {
		if g.Means == AsItIs {
			continue
		}
		for at, l := range g.Lanes {
			planned, other := map[int]uint64{}, map[int]uint64{}
			for r := range facts.Each(o.Rows) {
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
					lost, total, words.Count(len(queues), "queue"), g.taps[at], l))
			}
		}
	}
	return all
}
