package bottleneck

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
)

// onWire is what a frame takes on the wire beyond what a NIC's byte counters have: check sequence, preamble, start
// delimiter and the gap between frames (IEEE 802.3, 3.1.1 and 4.4.2), bytes.
const onWire = 4 + 8 + 12

// once are counters of rtnl_link_stats64 that count a packet which went no further, no packet in two of them
// (Documentation/networking/statistics.rst).
var once = []string{"rx_dropped", "tx_dropped", "rx_missed_errors", "rx_nohandler", "tx_aborted_errors"}

// losing are parts of names of a driver's own counters of packets that were lost.
var losing = []string{"drop", "discard", "missed", "no_buffer", "no_dma", "out_of_buffer", "overrun", "overflow",
	"fifo", "errors"}

// device is a network device with its queues and queue disciplines.
func (b *stations) device(stage string, d facts.DeviceLoad) Station {
	s := station(stage, called(&d))
	s.Guest = d.Guest
	s.In, s.Out = b.rate(d.RxPackets), b.rate(d.TxPackets)
	if d.Kind == "tap" { // what a tap sends the guest receives
		s.In, s.Out = s.Out, s.In
	}
	if line := float64(d.SpeedMbps) * 1e6; line > 0 && (d.Kind == "nic" || d.Kind == "vf") && b.load.Seconds > 0 {
		bits := func(bytes, packets uint64) float64 { return float64(bytes+packets*onWire) * 8 / b.load.Seconds }
		s.Use, s.Of = min(1, max(bits(d.RxBytes, d.RxPackets), bits(d.TxBytes, d.TxPackets))/line), bitrate(line)
	}
	b.losses(&s, d.Counters)
	for _, q := range d.Queues {
		s.Parts = append(s.Parts, b.queue(d, q))
	}
	for _, q := range d.Qdisc {
		p := b.qdisc(&d, q)
		if p.Loss > 0 && q.Parent == "root" { // one below the root is counted there too
			s.Loss += p.Loss
		}
		if p.Loss > 0 || len(p.Waits) > 0 || p.Use >= 0 {
			s.Parts = append(s.Parts, p)
		}
	}
	b.dropped(&s, d)
	return s
}

// losses takes over the counters that tell of lost packets. A driver's own repeat the standard ones in many drivers, so
// that they are counted only where these stand still, and of them the one that moved most.
func (b *stations) losses(s *Station, counters map[string]uint64) {
	var names []string
	for name := range counters {
		names = append(names, name)
	}
	slices.Sort(names)
	var own uint64
	for _, name := range names {
		switch {
		// a program took them: a measurement's receiver, or a filter, which counts for itself
		case strings.Contains(name, "xdp"):
		case slices.Contains(once, name):
			b.lost(s, name, counters[name], true)
		case slices.ContainsFunc(losing,
			func(part string) bool { return strings.Contains(strings.ToLower(name), part) }):
			b.lost(s, name, counters[name], false)
			own = max(own, counters[name])
		}
	}
	if s.Loss == 0 {
		s.Loss = b.rate(own)
	}
}

// queue is one of a device.
func (b *stations) queue(d facts.DeviceLoad, q facts.QueueLoad) Station {
	p := station(stageOf(d), fmt.Sprintf("%s %d", q.Direction, q.Index))
	p.Guest = d.Guest
	if (q.Direction == "rx") == (d.Kind != "tap") {
		p.In = b.rate(q.Packets)
	} else {
		p.Out = b.rate(q.Packets)
	}
	if len(q.CPUs) == 1 {
		p.Of = fmt.Sprintf("CPU %d", q.CPUs[0])
	} else if len(q.CPUs) > 1 {
		p.Of = "CPUs " + q.CPUs.String()
	}
	if len(q.CPUs) == 1 && q.Direction == "rx" {
		if c, known := b.cpu(q.CPUs[0]); known {
			p.Use = c.Softirq + c.IRQ
		}
	}
	b.lost(&p, "drops", q.Drops, true)
	if q.Stopped > 0 {
		p.Waits = append(p.Waits, Evidence{What: "found stopped", Value: b.rate(q.Stopped), Unit: "times/s",
			Source: p.Name})
	}
	return p
}

func stageOf(d facts.DeviceLoad) string {
	if d.Kind == "tunnel" {
		return "overlay"
	}
	return d.Kind
}

// qdisc is one queue discipline; its use is known where it limits the rate.
func (b *stations) qdisc(d *facts.DeviceLoad, q facts.QdiscLoad) Station {
	s := station("qdisc", q.Kind+" of "+called(d))
	if q.Parent != "root" && q.Parent != "" {
		s.Name = q.Kind + " " + q.Parent + " of " + called(d)
	}
	s.Out = b.rate(q.Packets)
	if q.RateBps > 0 && b.load.Seconds > 0 {
		s.Use, s.Of = min(1, float64(q.Bytes)*8/b.load.Seconds/q.RateBps), bitrate(q.RateBps)
	}
	b.lost(&s, "drops", q.Drops, true)
	if q.Backlog > 0 {
		s.Waits = append(s.Waits, Evidence{What: "backlog", Value: float64(q.Backlog), Unit: "packets", Source: s.Name})
	}
	if q.Requeues > 0 {
		s.Waits = append(s.Waits, Evidence{What: "requeues", Value: b.rate(q.Requeues), Unit: "packets/s",
			Source: s.Name})
	}
	return s
}

// dropped adds the kernel's reasons for what it dropped at a device, and the locks that were waited for there.
func (b *stations) dropped(s *Station, d facts.DeviceLoad) {
	for _, site := range b.load.Drops {
		// that may be no loss
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
			s.Waits = append(s.Waits, Evidence{What: "lock of " + w.Lock, Value: w.Share, Unit: "share",
				Source: "lock:contention_begin"})
		}
	}
}
