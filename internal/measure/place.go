package measure

import (
	"slices"
	"strings"
)

// Place is the kind of place on the packets' path at which a counter sits.
type Place string

// The places, from the wire to the application.
const (
	AtNIC     Place = "nic"     // hardware, or its driver
	AtSoftnet Place = "softnet" // the backlog of a CPU (net.core.netdev_max_backlog)
	AtQdisc   Place = "qdisc"   // a qdisc, or a filter or policer at ingress
	// the ring of a tap was full: the guest, or whatever serves its vring, did not take packets in time
	AtTap     Place = "tap"
	AtVring   Place = "vring"  // the guest's driver found no valid packet in the vring
	AtSocket  Place = "socket" // a socket's buffer was full, or a datagram malformed
	Elsewhere Place = "other"  // virtual interfaces, programs
)

// dropNames are the counters of dropped packets, named as in rtnl_link_stats64 and softnet
// (Documentation/networking/statistics.rst) or, for the others, as in package counters. rx_dropped excludes
// rx_missed_errors and similar counters. rx_fifo_errors and rx_over_errors, which some drivers derive from
// rx_missed_errors, are shown but never added.
var dropNames = []string{"rx_dropped", "tx_dropped", "rx_missed_errors", "rx_nohandler", "tx_aborted_errors",
	"softnet.dropped", "qdisc.drops", "qdisc.ingress_drops", "driver.rx_queue_drops", "driver.rx_no_dma_resources",
	"vring.rx_drops", "udp.rcvbuf_errors", "udp.mem_errors", "udp.csum_errors", "udp6.rcvbuf_errors",
	"udp6.mem_errors", "udp6.csum_errors"}

// IsDrop reports whether the counter of that name counts dropped packets.
func IsDrop(name string) bool {
	return slices.Contains(dropNames, name) || strings.HasPrefix(name, "xdp.drop.")
}

// Place returns where a counter sits, "" if unknown. A tap counts what it refuses to send in tx_dropped, because its
// ring was full (tun_net_xmit in drivers/net/tun.c).
func (c Counter) Place() Place {
	group, _, _ := strings.Cut(c.Name, ".")
	switch group {
	case "softnet":
		return AtSoftnet
	case "qdisc":
		return AtQdisc
	case "vring":
		return AtVring
	case "driver":
		return AtNIC
	case "udp", "udp6", "sink":
		return AtSocket
	}
	switch c.Kind {
	case "": // from a run file older than the field
		if c.Interface != "" {
			return ""
		}
	case "tuntap":
		if c.Name == "tx_dropped" {
			return AtTap
		}
	case "device":
		if c.Interface != "lo" {
			return AtNIC
		}
	}
	return Elsewhere
}

// LocateLoss returns the drop counters that moved, largest first, and how many of the lost packets they leave
// unexplained. Counters see all traffic, so they may exceed the loss; nothing is unexplained then. Without a loss it
// returns nothing.
func LocateLoss(deltas []Delta, lost uint64) (losses []Loss, unexplained uint64) {
	losses = []Loss{}
	if lost == 0 {
		return losses, 0
	}
	for _, d := range deltas {
		if IsDrop(d.Name) {
			losses = append(losses, Loss{Counter: d.Counter, Place: d.Place(), Packets: d.Delta})
		}
	}
	losses = withoutDoubles(losses)
	var seen uint64
	for _, l := range losses {
		seen += l.Packets
	}
	sortLosses(losses)
	return losses, minus(lost, seen)
}

// withoutDoubles counts each lost packet only at the counter that locates it best. A qdisc's drops are in no counter of
// its interface, and the drops at a tap's full ring in no counter of its qdisc. The kernel counts two kinds twice:
//
//   - virtio_net's drops at the vring are also in rx_dropped of the interface (virtnet_stats in
//     drivers/net/virtio_net.c);
//   - drops at a full backlog are also in rx_dropped of the receiving interface (enqueue_to_backlog in net/core/dev.c)
//     and, if that is a veth, in tx_dropped of its peer (veth_xmit in drivers/net/veth.c). The kernel does not say
//     which interfaces; the ones with the most drops are assumed.
func withoutDoubles(losses []Loss) []Loss {
	sortLosses(losses)
	for _, l := range slices.Clone(losses) {
		switch l.Name {
		case "vring.rx_drops":
			subtract(losses, l.Packets, func(c Counter) bool {
				return c.Where == l.Where && c.Interface == l.Interface && c.Name == "rx_dropped"
			})
		case "softnet.dropped":
			subtract(losses, l.Packets, func(c Counter) bool {
				return sameMachine(c, l.Counter) && c.Name == "rx_dropped"
			})
			subtract(losses, l.Packets, func(c Counter) bool {
				return sameMachine(c, l.Counter) && c.Name == "tx_dropped" && c.Kind == "veth"
			})
		}
	}
	return slices.DeleteFunc(losses, func(l Loss) bool { return l.Packets == 0 })
}

// subtract subtracts n packets in total from the losses at matching counters, in order.
func subtract(losses []Loss, n uint64, at func(Counter) bool) {
	for i := range losses {
		if l := &losses[i]; at(l.Counter) {
			out := min(n, l.Packets)
			l.Packets, n = l.Packets-out, n-out
		}
	}
}

// sameMachine reports whether two counters belong to one machine: the near one with its network namespaces, or one
// agent's.
func sameMachine(a, b Counter) bool {
	near := func(c Counter) bool { return c.Where == "host" || strings.HasPrefix(c.Where, "netns:") }
	return a.Where == b.Where || near(a) && near(b)
}
