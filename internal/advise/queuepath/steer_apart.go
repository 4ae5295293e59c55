package queuepath

import (
	"fmt"
	"slices"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// alreadyApart returns why a group's lanes are apart without steering; "" if they are not, or if that is not known.
func (s *steerer) alreadyApart(g group) string {
	if s.host.Readings != nil && len(s.currentLanes(g)) > 0 {
		return "" // plan again: a guest may have started
	}
	if s.seen != nil {
		if why := s.seenApart(g); why != "" {
			return why
		}
	}
	if len(g.senders) != 1 || len(s.queueChoosers(g)) > 0 || len(s.planQdiscs(g)) > 0 ||
		g.senders[0].Queues > s.fewestQueues(g) {
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

// seenApart returns how lanes were seen to be apart, else "": each queue of each tap sent enough packets, by one queue
// of the NIC that no other took, and no other fault was found.
func (s *steerer) seenApart(g group) string {
	exits, shares := map[Queue]map[Queue]uint64{}, map[Queue]map[Queue]uint64{} // by origin, by queue of a NIC
	total := uint64(0)
	for r := range facts.Each(s.seen.Rows) {
		leaves := r.To.Direction == Tx &&
			slices.ContainsFunc(g.ports, func(p port) bool { return p.name == r.To.Device })
		if leaves && slices.Contains(g.taps, r.Origin.Device) {
			count(exits, r.Origin, r.To, r.Packets)
			count(shares, r.To, r.Origin, r.Packets)
			total += r.Packets
		}
	}
	for i, tap := range g.taps {
		for q := range g.senders[i].Queues {
			if !oneDominates(exits[Queue{tap, Rx, q}]) {
				return ""
			}
		}
	}
	for _, origins := range shares {
		if !oneDominates(origins) {
			return ""
		}
	}
	if slices.ContainsFunc(Faults(s.seen), func(f Fault) bool { return f.Kind != RemoteNode }) {
		return ""
	}
	return fmt.Sprintf("%d packets were watched: lanes are apart", total)
}

// oneDominates reports whether one of some queues has nearly all packets, and the packets are enough to tell.
func oneDominates(packets map[Queue]uint64) bool {
	most, total := uint64(0), uint64(0)
	for _, n := range packets {
		most, total = max(most, n), total+n
	}
	return total >= leastSent && float64(total-most) < partyPart*float64(total)
}
