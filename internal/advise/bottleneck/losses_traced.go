package bottleneck

import (
	"cmp"
	"slices"
	"strings"

	"mpps/internal/model/facts"
)

// addTracedLosses adds the losses that only the kfree_skb tracepoint shows.
func (p *path) addTracedLosses() {
	for site := range facts.Each(p.l.Drops) {
		means := meaningOf(site.Reason, site.Symbol)
		at, d := cmp.Or(means.place, atKernel), p.dropDevice(site)
		if at == atTap && d != nil && d.Kind != "tap" {
			at = atDevice
		}
		switch {
		case doubtful(d, means):
			continue // see addBenignLosses
		case at == atFilter && d != nil && p.has(at, d): // its queue discipline has counted them
			continue
		case at == atSocket && site.Device == "": // a counter has all of them, with their namespace
			continue
		case at == atQdisc && d != nil && !p.has(at, d) && withoutQueue(d):
			at, means = atKernel, deviceDown
		case at != atKernel && at != atRule && p.has(at, d):
			continue
		case site.Symbol == facts.XDPRedirect && d != nil && xdpRefused(d) > 0: // its driver has counted them
			continue
		case d != nil && site.Symbol == "veth_xmit" && p.explainPeer(d, float64(site.Packets)):
			continue // the other end has counted them
		}
		if at == atKernel && d != nil {
			p.explainDevice(d, site, means)
		}
		p.addTraced(site, d, at, means, float64(site.Packets)-p.refusedAt(site))
	}
}

// refusedAt returns how many of the packets that XDP dropped in generic mode a program redirected in vain: the kernel
// tells both (net/core/dev.c, do_xdp_generic).
func (p *path) refusedAt(site *facts.DropSite) float64 {
	if site.Reason != "XDP" || site.Symbol == facts.XDPRedirect {
		return 0
	}
	for o := range facts.Each(p.l.Drops) {
		if o.Symbol == facts.XDPRedirect && o.Device == site.Device && o.Netns == site.Netns {
			return float64(min(o.Packets, site.Packets))
		}
	}
	return 0
}

// transmits are the beginnings of functions that count what they drop in tx_dropped of the device that they send by:
// drivers/net/tun.c, drivers/net/veth.c, net/core/dev.c (__dev_forward_skb2, of a veth's other end), and
// net/sched/sch_generic.c, noop_enqueue.
var transmits = []string{"tun_net_xmit", "veth_xmit", "__dev_forward_skb", "dev_forward_skb", "__dev_queue_xmit"}

// explainDevice takes from what a device counts as dropped what the kernel gives a reason for: it is the same packets.
// A tap that no program has open keeps them: that is its guest's state.
func (p *path) explainDevice(d *facts.DeviceLoad, site *facts.DropSite, means dropMeaning) {
	if !means.sends || d.Kind == "tap" && means.down ||
		!slices.ContainsFunc(transmits, func(name string) bool { return strings.HasPrefix(site.Symbol, name) }) {
		return
	}
	for s := range facts.Each(p.losses) {
		if s.device == d && (s.at == atTap || s.at == atDevice && s.means.sends) {
			n := min(float64(site.Packets), s.packets)
			if n >= 0.5*s.packets { // they were not read at once: on a busy host up to a second apart
				n = s.packets
			}
			p.merge(s, -n)
		}
	}
}

// explainPeer tells the veth that counts so many packets as dropped that the receive queue of its other end is full:
// drivers/net/veth.c, veth_xmit, gives them to that end before it has room. False if there is no such veth.
func (p *path) explainPeer(d *facts.DeviceLoad, packets float64) bool {
	if d.Kind != "veth" {
		return false
	}
	for s := range facts.Each(p.losses) {
		if s.at == atDevice && s.means.sends && s.device != d && s.device.Kind == "veth" && s.peer == nil &&
			s.packets >= packets/2 && s.packets <= 2*packets {
			s.peer = d
			return true
		}
	}
	return false
}

// withoutQueue reports whether a device that is said to lose packets in its queue has none, or counts them itself: the
// kernel's own of a device that is down (net/sched/sch_generic.c, noop_enqueue).
func withoutQueue(d *facts.DeviceLoad) bool {
	return d.Counters["tx_dropped"] > 0 ||
		!slices.ContainsFunc(d.Qdisc, func(q facts.QdiscLoad) bool { return !q.Filters() })
}

// has reports whether a loss at a place and device is known.
func (p *path) has(at place, d *facts.DeviceLoad) bool {
	return slices.ContainsFunc(p.losses, func(s loss) bool {
		return s.at == at && (d == nil || s.device == nil || s.device == d)
	})
}

// addTraced adds the packets lost at a site to what is known of its place.
func (p *path) addTraced(site *facts.DropSite, d *facts.DeviceLoad, at place, means dropMeaning, lost float64) {
	reason := strings.TrimPrefix(site.Reason, "SKB_DROP_REASON_")
	s := loss{at: at, device: d, cpu: -1, reason: reason, function: site.Symbol, means: means,
		source: "kfree_skb: " + site.Reason + " in " + site.Symbol}
	if d != nil {
		s.guest = d.Guest
	}
	if site.Way != "" {
		s.means.sends = site.Way == "out"
		s.wayKnown = true
	}
	if s.goesRound = p.goesRound(&s); s.goesRound {
		s.means.what = "their time to live ends here, and most of what leaves by " + deviceName(d) +
			" came by it: routes lead it round and round"
		s.means.do = "find the route that sends it back: ip route get ADDRESS, here and at the next hop"
	}
	for known := range facts.Each(p.losses) {
		if known.at == at && known.device == d && s.sameAs(known) {
			p.merge(known, lost)
			return
		}
	}
	p.addLoss(s, lost, p.passed(&s, lost))
}

// sameAs reports whether two losses of a device are one: of the same reason, or of a kind that says as much.
func (s *loss) sameAs(known *loss) bool {
	if s.means.kind != "" && s.means.kind == known.means.kind {
		return true
	}
	return s.reason == known.reason && s.means.what == known.means.what && s.means.sends == known.means.sends
}

// goesRound reports whether packets whose time to live ends go round between this namespace and a next hop: a device
// sends far more than came by all others and from programs.
func (p *path) goesRound(s *loss) bool {
	if s.device == nil || s.function != "ip_forward" && s.function != "ip6_forward" || s.reason != "IP_INHDR" {
		return false
	}
	from, _, known := p.besides(s.device)
	return known && float64(s.device.TxPackets) >= 2*from+float64(facts.MinLostPackets)
}

// besides returns the packets that came into a device's namespace by others and from programs, and those that left by
// others or were for programs. False where its programs' packets are not known.
func (p *path) besides(d *facts.DeviceLoad) (from, to float64, known bool) {
	for _, l := range p.l.Local {
		if l.Netns == d.Netns {
			from, to, known = float64(l.Sent), float64(l.Received), true
		}
	}
	for o := range facts.Each(p.l.Devices) {
		if o.Netns == d.Netns && o.Name != d.Name && edge(o) {
			from, to = from+float64(o.RxPackets), to+float64(o.TxPackets)
		}
	}
	return from, to, known
}

// merge adds packets to a known loss.
func (p *path) merge(known *loss, lost float64) {
	known.packets += lost
	known.share = shareOf(known.packets, p.passed(known, known.packets))
}

// passed returns the packets that passed a place where others were lost. A device has counted those that came in by it
// before they were dropped, and those that leave by it only after.
func (p *path) passed(s *loss, lost float64) float64 {
	d := s.device
	if d == nil {
		return max(p.maxReceived()-lost, 0)
	}
	if s.goesRound { // of those that have an end
		_, to, _ := p.besides(d)
		return to
	}
	in, out := float64(d.RxPackets), float64(d.TxPackets)
	sends := s.means.sends
	if (s.at == atRule || s.means.anyWay) && !s.wayKnown { // before and after routing
		sends = in < lost || in < out
	}
	if sends {
		return out
	}
	return max(in-lost, 0)
}

// shareOfBacklogDrops returns how many of the packets lost at the CPUs' backlogs were of the watched namespaces, 0 to
// 1: softnet_stat counts those of all.
func (p *path) shareOfBacklogDrops() float64 {
	var all, seen float64
	for _, s := range p.l.Softnet {
		all += float64(s.Dropped)
	}
	if p.l.Method != facts.ByTracepoints || all == 0 {
		return 1
	}
	for site := range facts.Each(p.l.Drops) {
		if meaningOf(site.Reason, site.Symbol).place == atBacklog {
			seen += float64(site.Packets)
		}
	}
	if seen >= all/2 { // the tracepoint's counts are scaled where there are many
		return 1
	}
	return seen / all
}

// addFilterLosses adds what filters of tc drop at a device. clsact counts both directions as one; the tracepoint tells
// them apart, and without it the direction with more packets is taken.
func (p *path) addFilterLosses(d *facts.DeviceLoad) {
	var filter facts.QdiscLoad
	for _, q := range d.Qdisc {
		if q.Filters() && q.Drops >= filter.Drops {
			filter = q
		}
	}
	by := map[string]float64{}
	for site := range facts.Each(p.l.Drops) {
		if p.dropDevice(site) == d && meaningOf(site.Reason, site.Symbol).place == atFilter {
			by[strings.TrimPrefix(site.Reason, "SKB_DROP_REASON_")] += float64(site.Packets)
		}
	}
	lost, in, out := float64(filter.Drops), by["TC_INGRESS"], by["TC_EGRESS"]
	if in+out == 0 {
		in = 1
		if filter.Kind != "ingress" && (lost > float64(d.RxPackets) || d.TxPackets > d.RxPackets) {
			in, out = 0, 1
		}
	}
	source := "tc -s qdisc show dev " + d.Name + ": " + filter.Kind
	add := func(lost, passed float64, direction string) {
		p.addLoss(loss{at: atFilter, device: d, cpu: -1, guest: d.Guest, source: source + ", " + direction}, lost,
			passed)
	}
	add(lost*in/(in+out), max(float64(d.RxPackets)-lost*in/(in+out), 0), "ingress")
	add(lost*out/(in+out), float64(d.TxPackets), "egress")
}

// ownXDP is the program of the measurement's receiver (internal/measure/traffic/bpf/sink.bpf.c).
const ownXDP = "sink"

// minPassed is the share of a device's packets that its XDP program passes on from which on it is no receiver, where
// nothing else is in its namespace.
const minPassed = 0.05

// addXDPLosses adds what an XDP program drops on a device, unless it is the end of the path: the measurement's
// receiver, or a program that takes all packets of the only device of its namespace.
func (p *path) addXDPLosses(d *facts.DeviceLoad) {
	lost := xdpDropped(d)
	passed := max(float64(d.RxPackets)-lost, 0)
	if n := float64(xdpRefused(d)); n > 0 {
		p.addLoss(loss{at: atKernel, device: d, cpu: -1, guest: d.Guest, reason: "XDP", function: d.XDP,
			source: "ethtool -S " + d.Name + ": drops", means: xdpRefuses}, n, max(float64(d.RxPackets)-n, 0))
	}
	if lost == 0 || d.XDP == ownXDP || shareOf(passed, lost) < minPassed &&
		!slices.ContainsFunc(p.l.Devices, func(o facts.DeviceLoad) bool {
			return o.Netns == d.Netns && o.Name != d.Name && (edge(&o) || o.Kind == "bridge")
		}) {
		return
	}
	s := loss{at: atKernel, device: d, cpu: -1, guest: d.Guest, reason: "XDP", function: cmp.Or(d.XDP, "XDP program"),
		source: "ethtool -S " + d.Name, means: dropMeaning{stage: "nic", what: "an XDP program drops them",
			do: "find the program and who loaded it: ip link show, bpftool net"}}
	p.addLoss(s, lost, passed)
}

// xdpRefused returns the packets that an XDP program on a veth sent to a device, map or CPU that did not take them
// (drivers/net/veth.c, veth_xdp_rcv_one: rx_drops, which no other driver counts apart from XDP_DROP).
func xdpRefused(d *facts.DeviceLoad) (n uint64) {
	if d.Kind != "veth" || d.XDP == "" || d.XDP == ownXDP {
		return 0
	}
	for name, packets := range d.Counters {
		if strings.HasPrefix(name, "rx_queue_") && strings.HasSuffix(name, "_drops") && !strings.Contains(name, "xdp") {
			n += packets
		}
	}
	return n
}

// xdpRedirected returns the packets that an XDP program on a device sent to another device, socket or CPU.
func xdpRedirected(d *facts.DeviceLoad) float64 { return xdpCounted(d, "redirect") }

// xdpDropped returns the packets that an XDP program dropped on a device. Some drivers count them by queue, some their
// sum, some both.
func xdpDropped(d *facts.DeviceLoad) float64 { return xdpCounted(d, "drop") }

// xdpCounted returns the packets of a device that an XDP program received, by what it did with them.
func xdpCounted(d *facts.DeviceLoad, did string) float64 {
	var sum, byQueue uint64
	for name, n := range d.Counters {
		name = strings.ToLower(name)
		switch {
		case !strings.Contains(name, "xdp") || !strings.Contains(name, did) || strings.Contains(name, "tx"):
		case strings.ContainsAny(name, "0123456789"):
			byQueue += n
		default:
			sum = max(sum, n)
		}
	}
	return float64(max(sum, byQueue))
}
