package queuepath

import (
	"maps"
	"slices"

	"mpps/internal/model/facts"
)

// inward reports whether a device transmits to a guest, whose queues are its own choice, rather than to the wire. A tap
// always does. A veth can be either: a container's end, or in a namespace a stand-in for a NIC. It leads to a guest if
// its packets came out of a tunnel, or if all came by one device that also sends packets of other devices (the NIC, for
// many containers), or if it has a single partner and more packets come from it than go to it.
func (j *judge) inward(d *Device) bool {
	if d.guest() {
		return true
	}
	if d.Kind != "veth" {
		return false
	}
	sources, all, tunnelled, sent := map[string]uint64{}, uint64(0), uint64(0), uint64(0)
	for l := range facts.Each(j.lanes) {
		switch exit := l.Exit(); {
		case l.Origin().Device == d.Name && l.Origin().Direction == Rx:
			sent += l.Packets
		case exit.Device == d.Name && exit.Direction == Tx && l.Way != Own:
			all += l.Packets
			sources[l.Origin().Device] += l.Packets
			if slices.ContainsFunc(l.Stops[1:], func(s Stop) bool {
				d := j.Device(s.Device)
				return s.Direction == Rx && d != nil && slices.Contains(overlays, d.Kind)
			}) {
				tunnelled += l.Packets
			}
		}
	}
	if 2*tunnelled > all {
		return true
	}
	var only string
	for name, n := range sources {
		if float64(n) >= 0.9*float64(all) {
			only = name
		}
	}
	if only == "" {
		return false
	}
	return j.feeders(only) > 1 || j.feeders(only) == 1 && sent > all
}

// feeders returns how many devices have at least 2 % of the packets that leave by a device.
func (j *judge) feeders(device string) int {
	packets := map[string]uint64{}
	for l := range facts.Each(j.lanes) {
		if exit := l.Exit(); exit.Device == device && exit.Direction == Tx && l.Way != Own {
			packets[l.Origin().Device] += l.Packets
		}
	}
	all := float64(sum(packets))
	return facts.Count(slices.Collect(maps.Values(packets)), func(p uint64) bool { return float64(p) >= 0.02*all })
}
