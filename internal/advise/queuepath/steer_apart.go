package queuepath

import (
	"fmt"
	"slices"

	"mpps/internal/model/setting"
)

// apart says why a group's lanes are apart as it is; empty where they are not, or where that is not known.
func (s *steerer) apart(g group) string {
	if s.host.Readings != nil && len(s.byProgramNow(g)) > 0 {
		return "" // what stands is planned anew: a guest may have come
	}
	if s.seen != nil {
		if why := s.seenApart(g); why != "" {
			return why
		}
	}
	if len(g.senders) != 1 || len(s.choosers(g)) > 0 || len(s.planQdiscs(g)) > 0 || g.senders[0].Queues > s.fewest(g) {
		return ""
	}
	for _, p := range g.ports {
		for q := range p.queues {
			if r := s.host.Readings.At(setting.XPS(p.name, q)); r.State == setting.Known && r.Value != "" {
				return ""
			}
		}
	}
	return fmt.Sprintf("%s alone sends by %s, nothing on the way erases its queue, and there is no XPS: queue n "+
		"leaves by queue n", g.senders[0].Guest, g.ports[0].name)
}

// seenApart reports whether lanes were seen to be apart: each queue of each tap sent enough to tell, by one queue of
// the NIC that no other took, and nothing else was wrong.
func (s *steerer) seenApart(g group) string {
	exits, shares := map[Queue]map[Queue]uint64{}, map[Queue]map[Queue]uint64{} // by origin, by queue of a NIC
	note := func(all map[Queue]map[Queue]uint64, at, other Queue, n uint64) {
		if all[at] == nil {
			all[at] = map[Queue]uint64{}
		}
		all[at][other] += n
	}
	total := uint64(0)
	for i := range s.seen.Rows {
		r := &s.seen.Rows[i]
		leaves := r.To.Direction == Tx &&
			slices.ContainsFunc(g.ports, func(p port) bool { return p.name == r.To.Device })
		if leaves && slices.Contains(g.taps, r.Origin.Device) {
			note(exits, r.Origin, r.To, r.Packets)
			note(shares, r.To, r.Origin, r.Packets)
			total += r.Packets
		}
	}
	for i, tap := range g.taps {
		for q := range g.senders[i].Queues {
			if !alone(exits[Queue{tap, Rx, q}]) {
				return ""
			}
		}
	}
	for _, origins := range shares {
		if !alone(origins) {
			return ""
		}
	}
	for _, f := range Faults(s.seen) {
		if f.Kind != RemoteNode {
			return ""
		}
	}
	return fmt.Sprintf("%d packets were watched: lanes are apart", total)
}

// alone reports whether one of some queues has nearly all packets, and those are enough to tell.
func alone(packets map[Queue]uint64) bool {
	most, total := uint64(0), uint64(0)
	for _, n := range packets {
		most, total = max(most, n), total+n
	}
	return total >= leastSent && float64(total-most) < party*float64(total)
}
