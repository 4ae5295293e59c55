package bottleneck

import (
	"slices"
	"strings"

	"mpps/internal/model/facts"
)

// minMissing is the share of a namespace's packets that may be missing without a trace.
const minMissing = 0.05

// balance compares what came into a network namespace with what went out.
type balance struct {
	netns   string
	in      float64 // packets that came in by a device, or from the namespace's programs
	missing float64 // of these: neither sent, nor for a program, nor known to be lost
	copies  float64 // packets that left in excess of those that came in: a bridge floods, or a filter mirrors
	// a macvlan in any namespace takes packets too: only what a device refused, for another host, is known to be lost
	shared     bool
	noise      float64 // packets that may seem to be missing because counters are read one after the other
	incomplete float64 // fragments that wait for others of their packet
}

// mostFragments is how many fragments a packet of 64 KiB has on an Ethernet with an MTU of 1500.
const mostFragments = 45

// fragments returns how many of a namespace's packets were fragments that are part of complete packets now, less these,
// and how many wait in vain: more than the complete packets can consist of. The kernel counts fragments and complete
// packets (net/ipv4/ip_fragment.c).
func (p *path) fragments(netns string) (joined, incomplete float64) {
	for l := range facts.Each(p.l.Stack) {
		if l.Netns == netns {
			all := float64(l.Counters["Ip.ReasmReqds"] + l.Counters["Ip6ReasmReqds"])
			complete := float64(l.Counters["Ip.ReasmOKs"] + l.Counters["Ip6ReasmOKs"])
			taken := min(all, mostFragments*complete)
			return max(taken-complete, 0), all - taken
		}
	}
	return 0, 0
}

// matters reports whether so many missing packets are more than noise.
func (b *balance) matters(missing float64) bool { return missing >= minMissing*b.in+b.noise }

// edge reports whether packets come into or leave a namespace by a device. A bridge, bond, VLAN or tunnel is on top of
// such devices.
func edge(d *facts.DeviceLoad) bool {
	return slices.Contains([]string{"nic", "vf", "veth", "tap"}, d.Kind)
}

// balances returns the balance of each namespace. Those are left out whose packets other devices take too (macvlan,
// ipvlan, dummy), where a measurement receives, or whose programs' packets were not counted.
func (p *path) balances() (all []balance) {
	for _, local := range p.l.Local {
		b := balance{netns: local.Netns, in: float64(local.Sent)}
		out, bytesIn, bytesOut, other, redirected := float64(local.Received), 0.0, 0.0, 0.0, 0.0
		measured := false // a measurement's receiver takes copies
		for d := range facts.Each(p.l.Devices) {
			in, sent := float64(d.RxPackets), float64(d.TxPackets)
			switch {
			case d.Netns != local.Netns:
			case d.Kind == "tunnel": // IP counts the outer packets as the host's own
				b.in, out = max(b.in-sent, 0), max(out-in, 0)
			case edge(d) && !p.macvtap(d):
				b.in, out = b.in+in, out+sent+xdpDropped(d)+float64(xdpRefused(d))
				redirected += xdpRedirected(d) - sent
				measured = measured || p.measuredIn(d.Netns)
				bytesIn, bytesOut = bytesIn+float64(d.RxBytes), bytesOut+float64(d.TxBytes)
				b.shared = b.shared || d.Shared
			case d.Kind != "bridge":
				other += in + sent
			}
		}
		b.copies, b.noise = max(out-b.in, 0), p.rate(b.in)*local.Apart
		if measured || other > minMissing*b.in || p.takenIn(local.Netns) {
			continue
		}
		for _, s := range p.losses {
			if s.device != nil && s.device.Netns == local.Netns && s.afterReceive() ||
				s.counted && s.netns == local.Netns ||
				s.at == atBacklog && local.Netns == "" {
				out += s.packets
			}
		}
		for _, t := range p.l.Tracked { // the tracepoint has them as dropped by a rule
			if t.Netns == local.Netns && p.l.Method != facts.ByTracepoints {
				out += trackDrops(t)
			}
		}
		joined, rest := p.fragments(local.Netns)
		b.incomplete = rest
		b.missing = max(b.in-out-joined, 0)
		if p.cpumap() == nil { // AF_XDP sockets have what no other device sent
			b.missing = max(b.missing-max(redirected, 0), 0)
		}
		if bytesOut >= (1-minMissing)*bytesIn { // GRO merged them
			b.missing = 0
		}
		all = append(all, b)
	}
	return all
}

// takesCopies reports whether a device loses only copies that a filter mirrors to it: the network interfaces of its
// namespace nevertheless send what they receive.
func (p *path) takesCopies(d *facts.DeviceLoad, lost float64) bool {
	if d == nil || d.Kind != "other" {
		return false
	}
	in, out := 0.0, 0.0
	for local := range facts.Each(p.l.Local) {
		if local.Netns == d.Netns {
			in, out = float64(local.Sent), float64(local.Received)
		}
	}
	for o := range facts.Each(p.l.Devices) {
		if o.Netns == d.Netns && edge(o) {
			in, out = in+float64(o.RxPackets), out+float64(o.TxPackets)
		}
	}
	return lost >= minMissing*in && in-out < lost/2
}

// doubtful reports whether dropped packets may be no loss: unwanted ones, or copies, such as those that a bridge makes
// of flooded frames for the host's own network layer.
func doubtful(d *facts.DeviceLoad, means dropMeaning) bool {
	return means.benign || d != nil && d.Kind == "bridge" && means.place == "" && means.stage == "" && !means.sends
}

// macvtap reports whether a tap is a macvtap: its packets are counted by the NIC too.
func (p *path) macvtap(d *facts.DeviceLoad) bool {
	return d.Macvtap || slices.ContainsFunc(p.h.Taps, func(t facts.Tap) bool {
		return t.Name == d.Name && t.Type == "macvtap"
	})
}

// afterReceive reports whether a lost packet was counted as received by a device, and not by IP as one for a program.
// What XDP dropped is counted apart by drivers, and in generic mode not at all.
func (s *loss) afterReceive() bool {
	switch s.at {
	case atRule, atFilter, atQdisc, atTap, atDevice:
		return true
	case atKernel:
		if s.reason == "XDP" {
			return s.device != nil && xdpDropped(s.device) == 0 && xdpRefused(s.device) == 0
		}
		return s.means.stage != "socket"
	}
	return false
}

// addBenignLosses adds drops whose reasons mostly mean no loss (copies, unwanted packets), up to the number of packets
// that are missing. Copies that a watched namespace made for another host are not missing. Packets that are still
// missing then have no explanation.
func (p *path) addBenignLosses() {
	all, copies := p.balances(), 0.0
	for _, b := range all {
		copies += b.copies
	}
	for _, b := range all {
		for _, site := range p.l.Drops {
			if site.Netns == b.netns && meaningOf(site.Reason, site.Symbol).copies {
				n := float64(site.Packets)
				if copies >= n/2 { // namespaces are read one after the other: the numbers differ
					copies, b.missing = max(copies-n, 0), max(b.missing-n, 0)
				}
			}
		}
		for site := range facts.Each(p.l.Drops) {
			means := meaningOf(site.Reason, site.Symbol)
			d := p.dropDevice(site)
			if !doubtful(d, means) || b.shared && !means.copies || strings.HasPrefix(site.Symbol, "veth_xdp") ||
				d == nil || site.Netns != b.netns || !b.matters(b.missing) {
				continue
			}
			lost := min(float64(site.Packets), b.missing)
			if means.unwanted {
				b.missing -= lost
			}
			if means.unwanted && lost >= mostLost*b.in {
				p.addTraced(site, d, atKernel, means, lost)
			}
			if !means.unwanted && b.matters(lost) {
				p.addTraced(site, d, atKernel, means, lost)
				b.missing -= lost
			}
		}
		if lost := min(b.incomplete, b.missing); b.matters(lost) {
			p.addLoss(loss{at: atKernel, cpu: -1, reason: "FRAG_REASM_TIMEOUT", counted: true, netns: b.netns,
				means:  dropReasons["FRAG_REASM_TIMEOUT"],
				source: "/proc/net/snmp, ReasmReqds and ReasmOKs"}, lost, b.in-lost)
			b.missing -= lost
		}
		if !b.shared && b.matters(b.missing) && p.rate(b.missing) >= minPPS {
			p.missing = append(p.missing, b)
		}
	}
}
