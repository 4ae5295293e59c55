package bottleneck

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"mpps/internal/model/facts"
)

// standardLosses are counters of rtnl_link_stats64 for packets that went no further. No packet is in two of them
// (Documentation/networking/statistics.rst).
var standardLosses = []string{"rx_dropped", "tx_dropped", "rx_missed_errors", "rx_nohandler", "tx_aborted_errors"}

// driverLosses are parts of the names that drivers give to their own counters of lost packets.
var driverLosses = []string{"drop", "discard", "missed", "no_buffer", "no_dma", "out_of_buffer", "overrun", "overflow",
	"fifo", "errors"}

// device returns the station of a network device with its queues and queue disciplines.
func (b *stations) device(stage string, d facts.DeviceLoad) Station {
	s := station(stage, deviceName(&d))
	s.Guest = d.Guest
	s.In, s.Out = b.rate(d.RxPackets), b.rate(d.TxPackets)
	if d.Kind == "tap" { // the guest receives what the tap sends
		to, _ := d.ToProgram()
		s.In, s.Out = b.rate(to), b.rate(d.FromProgram())
	}
	if line := float64(d.SpeedMbps) * 1e6; line > 0 && (d.Kind == "nic" || d.Kind == "vf") && b.load.Seconds > 0 {
		bits := max(wireBits(d.RxBytes, d.RxPackets), wireBits(d.TxBytes, d.TxPackets)) / b.load.Seconds
		s.Use, s.Of = min(1, bits/line), bitrate(line)
	}
	b.addCounters(&s, d.Counters)
	for _, q := range d.Queues {
		s.Parts = append(s.Parts, b.queue(d, q))
	}
	for _, q := range d.Qdisc {
		p := b.qdisc(&d, q)
		if q.Parent == "root" { // the root's count includes those below it
			s.Loss += p.Loss
		}
		if p.Loss > 0 || len(p.Waits) > 0 || p.Use >= 0 {
			s.Parts = append(s.Parts, p)
		}
	}
	b.addDropped(&s, d)
	return s
}

// addCounters adds the counters of lost packets. Many drivers' own counters repeat the standard ones, so they count as
// loss only if no standard one grew, and then only the largest.
func (b *stations) addCounters(s *Station, counters map[string]uint64) {
	var own uint64
	for _, name := range slices.Sorted(maps.Keys(counters)) {
		switch {
		// an XDP program took them: a measurement's receiver, or a filter with its own counters
		case strings.Contains(name, "xdp"):
		case slices.Contains(standardLosses, name):
			b.addLost(s, name, counters[name], true)
		case slices.ContainsFunc(driverLosses,
			func(part string) bool { return strings.Contains(strings.ToLower(name), part) }):
			b.addLost(s, name, counters[name], false)
			own = max(own, counters[name])
		}
	}
	if s.Loss == 0 {
		s.Loss = b.rate(own)
	}
}

// queue returns the station of one queue of a device.
func (b *stations) queue(d facts.DeviceLoad, q facts.QueueLoad) Station {
	stage := d.Kind
	if stage == "tunnel" {
		stage = "overlay"
	}
	p := station(stage, fmt.Sprintf("%s %d", q.Direction, q.Index))
	p.Guest = d.Guest
	if (q.Direction == "rx") == (d.Kind != "tap") {
		p.In = b.rate(q.Packets)
	} else {
		p.Out = b.rate(q.Packets)
	}
	switch len(q.CPUs) {
	case 0:
	case 1:
		p.Of = cpuName(q.CPUs[0])
		if c := b.cpu(q.CPUs[0]); c != nil && q.Direction == "rx" {
			p.Use = c.Softirq + c.IRQ
		}
	default:
		p.Of = "CPUs " + q.CPUs.String()
	}
	b.addLost(&p, "drops", q.Drops, true)
	if q.Stopped > 0 {
		p.wait("found stopped", b.rate(q.Stopped), "times/s", p.Name)
	}
	return p
}

// qdisc returns the station of one queue discipline. Its use is known only if it limits the rate.
func (b *stations) qdisc(d *facts.DeviceLoad, q facts.QdiscLoad) Station {
	s := station("qdisc", q.Kind+" of "+deviceName(d))
	if q.Parent != "root" && q.Parent != "" {
		s.Name = q.Kind + " " + q.Parent + " of " + deviceName(d)
	}
	s.Out = b.rate(q.Packets)
	if q.RateBps > 0 && b.load.Seconds > 0 {
		s.Use, s.Of = min(1, float64(q.Bytes)*8/b.load.Seconds/q.RateBps), bitrate(q.RateBps)
	}
	b.addLost(&s, "drops", q.Drops, true)
	if q.Backlog > 0 {
		s.wait("backlog", float64(q.Backlog), "packets", s.Name)
	}
	if q.Requeues > 0 {
		s.wait("requeues", b.rate(q.Requeues), "packets/s", s.Name)
	}
	return s
}

// addDropped adds the kernel's reasons for drops at a device, and the waits for its locks.
func (b *stations) addDropped(s *Station, d facts.DeviceLoad) {
	for _, site := range b.load.Drops {
		// NOT_SPECIFIED may be no loss
		if site.Device == d.Name && site.Packets > 0 && (s.Loss > 0 || site.Reason != "NOT_SPECIFIED") {
			s.Lost = append(s.Lost, Evidence{What: site.Reason, Value: b.rate(site.Packets), Unit: "packets/s",
				Source: site.Symbol})
			if len(d.Counters) == 0 {
				s.Loss += b.rate(site.Packets)
			}
		}
	}
	for _, w := range b.load.Locks {
		if w.Device == d.Name && w.Share >= 0.01 {
			s.wait("lock of "+w.Lock, w.Share, "share", "lock:contention_begin")
		}
	}
}
