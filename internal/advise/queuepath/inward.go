package queuepath

import "slices"

// inward reports whether what is transmitted on a device goes to a guest, whose queues are its own affair, and not to
// the wire. A tap says so itself. A veth can be either: a container's end, or in a namespace what stands for a NIC. It
// leads to a guest if its packets came out of a tunnel, or all came by one device that itself gets packets from more
// devices than this one (the NIC, for many containers), or if with one partner only it sends more than it gets.
func (j *judge) inward(d *Device) bool {
	if d.guest() {
		return true
	}
	if d.Kind != "veth" {
		return false
	}
	sources, all, tunnelled, sent := map[string]uint64{}, uint64(0), uint64(0), uint64(0)
	for i := range j.lanes {
		l := &j.lanes[i]
		switch exit := l.Exit(); {
		case l.Origin().Device == d.Name && l.Origin().Direction == Rx:
			sent += l.Packets
		case exit.Device == d.Name && exit.Direction == Tx && l.Way != Own:
			all += l.Packets
			sources[l.Origin().Device] += l.Packets
			if slices.ContainsFunc(l.Stops[1:], func(s Stop) bool {
				return s.Direction == Rx &&
					slices.Contains(overlays, j.kind(s.Device))
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

func (j *judge) kind(device string) string {
	if d := j.Device(device); d != nil {
		return d.Kind
	}
	return ""
}

// feeders is how many devices' packets leave by a device, stray ones left out.
func (j *judge) feeders(device string) int {
	packets, all := map[string]uint64{}, uint64(0)
	for i := range j.lanes {
		l := &j.lanes[i]
		if exit := l.Exit(); exit.Device == device && exit.Direction == Tx && l.Way != Own {
			packets[l.Origin().Device] += l.Packets
			all += l.Packets
		}
	}
	n := 0
	for _, p := range packets {
		if float64(p) >= 0.02*float64(all) {
			n++
		}
	}
	return n
}
