package bottleneck

import (
	"slices"
	"strings"

	"mpps/internal/model/facts"
)

// stackReasons are counters of the network layer (facts.StackLoad) and the drop reasons that they count. Tables of
// neighbours are counted in the first namespace for all of them.
var stackReasons = []struct{ counter, reason, file string }{
	{"TcpExt.IPReversePathFilter", "IP_RPFILTER", "/proc/net/netstat"},
	{"IpExt.InNoRoutes", "IP_INNOROUTES", "/proc/net/netstat"},
	{"Ip.InAddrErrors", "IP_INADDRERRORS", "/proc/net/snmp"},
	{"Ip.OutNoRoutes", "IP_OUTNOROUTES", "/proc/net/snmp"},
	{"Ip.FragFails", "PKT_TOO_BIG", "/proc/net/snmp"},
	{"Ip.InHdrErrors", "IP_INHDR", "/proc/net/snmp"},
	{"Ip6InNoRoutes", "IP_INNOROUTES", "/proc/net/snmp6"},
	{"Ip6OutNoRoutes", "IP_OUTNOROUTES", "/proc/net/snmp6"},
	{"Ip6InAddrErrors", "IP_INADDRERRORS", "/proc/net/snmp6"},
	{"Ip6InTooBigErrors", "PKT_TOO_BIG", "/proc/net/snmp6"},
	{"Ip6InHdrErrors", "IP_INHDR", "/proc/net/snmp6"},
	{"arp_cache.table_fulls", "NEIGH_CREATEFAIL", "/proc/net/stat/arp_cache"},
	{"ndisc_cache.table_fulls", "NEIGH_CREATEFAIL", "/proc/net/stat/ndisc_cache"},
	{"arp_cache.unresolved_discards", "NEIGH_QUEUEFULL", "/proc/net/stat/arp_cache"},
	{"ndisc_cache.unresolved_discards", "NEIGH_QUEUEFULL", "/proc/net/stat/ndisc_cache"},
}

// addStackLosses adds what the network layers count, where the tracepoint has not shown packets of the same kind.
func (p *path) addStackLosses() {
	for l := range facts.Each(p.l.Stack) {
		for _, c := range stackReasons {
			lost, means := float64(l.Counters[c.counter]), meaningOf(c.reason, "")
			if lost == 0 || p.traced(means.kind) || means.kind == NoRoute && p.prohibited(l.Netns) {
				continue
			}
			p.withoutReason(l.Netns, means.kind, lost)
			p.addLoss(loss{at: atKernel, cpu: -1, reason: c.reason, means: means, counted: true, netns: l.Netns,
				source: c.file + ", " + c.counter}, lost, max(p.receivedIn(l.Netns)-lost, 0))
		}
	}
}

// prohibited reports whether the tracepoint has shown packets that a route of IPv6 refuses: they are counted as having
// none (net/ipv6/route.c, ip6_pkt_prohibit).
func (p *path) prohibited(netns string) bool {
	s := p.refused(netns)
	return s != nil && strings.HasPrefix(s.function, "ip6_")
}

// withoutReason takes packets that the network layer counts as another kind from those that a route seems to refuse:
// kernels before 5.17 give no reasons, and drop all of them in one function.
func (p *path) withoutReason(netns string, kind Kind, lost float64) {
	if s := p.refused(netns); s != nil && (kind == NoRoute || kind == NotForwarded) {
		p.merge(s, -min(lost, s.packets))
	}
}

// refused returns the loss at a route of a namespace that refuses packets; nil if there is none.
func (p *path) refused(netns string) *loss {
	return facts.Find(p.losses, func(s *loss) bool {
		return s.means.kind == RouteRefuses && s.device != nil && s.device.Netns == netns
	})
}

// traced reports whether the tracepoint has shown packets of a kind. Of a reason that makes no kind of its own it has
// shown all that there are, if need be under another name: older kernels give none.
func (p *path) traced(kind Kind) bool {
	if kind == "" {
		return p.l.Method == facts.ByTracepoints
	}
	return slices.ContainsFunc(p.losses, func(s loss) bool { return s.means.kind == kind }) ||
		slices.ContainsFunc(p.l.Drops, func(d facts.DropSite) bool { // of copies
			return meaningOf(d.Reason, d.Symbol).kind == kind
		})
}

// receivedIn returns the packets that the device of a namespace with the most of them received.
func (p *path) receivedIn(netns string) (n float64) {
	for _, d := range p.l.Devices {
		if d.Netns == netns {
			n = max(n, float64(d.RxPackets))
		}
	}
	return n
}
