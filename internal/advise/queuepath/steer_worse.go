package queuepath

import (
	"fmt"
	"slices"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// packetsBy returns the packets that were seen to leave by a port, by origin and by the port's queue.
func (s *steerer) packetsBy(name string) (from, to map[Queue]uint64) {
	from, to = map[Queue]uint64{}, map[Queue]uint64{}
	if s.seen == nil {
		return from, to
	}
	for r := range facts.Each(s.seen.Rows) {
		if r.To.Device == name && r.To.Direction == Tx {
			from[r.Origin] += r.Packets
			to[r.To] += r.Packets
		}
	}
	return from, to
}

// setSeen sets what each sender's queues were seen to send by a group's NICs, unless too little was seen to tell.
func (s *steerer) setSeen(g *group) {
	seen, total := make([][]float64, len(g.senders)), uint64(0)
	for _, p := range g.ports {
		from, _ := s.packetsBy(p.name)
		for i, sender := range g.senders {
			if seen[i] == nil {
				seen[i] = make([]float64, sender.Queues)
			}
			for q := range sender.Queues {
				n := from[Queue{g.taps[i], Rx, q}]
				seen[i][q] += float64(n)
				total += n
			}
		}
	}
	if total < leastPackets {
		return
	}
	for i := range g.senders {
		g.senders[i].Seen = seen[i]
	}
}

// crowding returns by how much windows would make the fullest queue of a NIC fuller than it was seen; "" if they would
// not. A lane that has a queue to itself crowds nobody, even if its flows were on several queues before.
func (s *steerer) crowding(g group, lanes []setting.Lane) string {
	for _, p := range g.ports {
		from, to := s.packetsBy(p.name)
		planned := make([]uint64, p.queues)
		var total, most, widest, fullest uint64
		for i, l := range lanes {
			for q := range g.senders[i].Queues {
				n := from[Queue{g.taps[i], Rx, q}]
				delete(from, Queue{g.taps[i], Rx, q})
				planned[QueueOf(l, q)%p.queues] += n
				total, widest = total+n, max(widest, n)
			}
		}
		if total < leastPackets {
			continue
		}
		others := sum(from) // of the host itself and of senders without a lane: they do not move
		fullest = slices.Max(planned)
		for _, n := range to {
			most = max(most, n)
		}
		if limit := max(most, widest); float64(fullest) > 1.05*float64(limit) {
			return fmt.Sprintf("the fullest queue of %s would have %.0f %% of the packets, and has %.0f %%", p.name,
				100*float64(fullest)/float64(total+others), 100*float64(most)/float64(total+others))
		}
	}
	return ""
}
