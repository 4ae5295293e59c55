package measure

import (
	"slices"
	"strings"
)

// Place is what kind of place on the way of the packets a counter stands at.
type Place string

// The places, from the wire to the application.
const (
	AtNIC     Place = "nic"     // hardware, or its driver
	AtSoftnet Place = "softnet" // a CPU's backlog (net.core.netdev_max_backlog)
	AtQdisc   Place = "qdisc"   // a queueing discipline, or a filter or policer of ingress
	// a tap's ring was full: the guest, or what serves its vring, did not take packets in time
	AtTap     Place = "tap"
	AtVring   Place = "vring"  // the guest's driver could make no packet of what it found in the vring
	AtSocket  Place = "socket" // a socket's buffer was full, or a datagram wrong
	Elsewhere Place = "other"  // virtual interfaces, programs
)

// dropNames are counters of packets that went no further, as the kernel's rtnl_link_stats64 and softnet name them
// (Documentation/networking/statistics.rst), and as package counters names the others. rx_missed_errors and the like
// are not in rx_dropped, rx_fifo_errors and rx_over_errors may repeat rx_missed_errors in some drivers and are shown
// without being added.
var dropNames = []string{"rx_dropped", "tx_dropped", "rx_missed_errors", "rx_nohandler", "tx_aborted_errors",
	"softnet.dropped",
	"qdisc.drops", "qdisc.ingress_drops", "driver.rx_queue_drops", "driver.rx_no_dma_resources", "vring.rx_drops",
	"udp.rcvbuf_errors", "udp.mem_errors", "udp.csum_errors", "udp6.rcvbuf_errors", "udp6.mem_errors",
	"udp6.csum_errors"}

// IsDrop reports whether a counter counts packets that were dropped there.
func IsDrop(name string) bool {
	return slices.Contains(dropNames, name) || strings.HasPrefix(name, "xdp.drop.")
}

// Place is where a counter stands, empty where that cannot be told. What a tap refuses to send it counts in tx_dropped:
// its ring was full (tun_net_xmit in drivers/net/tun.c).
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
	case "": // counted before kinds were told
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

// LocateLoss finds the drop counters that moved, largest first, and how many of the lost packets none of them explains.
// Counters see all traffic, so they can explain more than was lost; the rest is 0 then. Where nothing was lost there is
// nothing to find.
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
	losses = once(losses)
	var seen uint64
	for _, l := range losses {
		seen += l.Packets
	}
	sortLosses(losses)
	return losses, minus(lost, seen)
}

// once counts each lost packet only at the counter that says most precisely where it was lost. Drops of a queueing
// discipline are in no counter of its interface, and drops at a tap's full ring are in no counter of its queueing
// discipline. Two kinds are counted twice by the kernel:
//
//   - virtio_net's drops at the vring are also in rx_dropped of the interface (virtnet_stats in
//     drivers/net/virtio_net.c);
//   - drops at a full backlog are also in rx_dropped of the receiving interface (enqueue_to_backlog in net/core/dev.c)
//     and, if that is a veth, in tx_dropped of its peer (veth_xmit in drivers/net/veth.c). The kernel does not say
//     which interfaces these were; the ones with the most drops are assumed.
func once(losses []Loss) []Loss {
	sortLosses(losses)
	for _, l := range slices.Clone(losses) {
		switch l.Name {
		case "vring.rx_drops":
			takeOut(losses, l.Packets, func(c Counter) bool {
				return c.Where == l.Where && c.Interface == l.Interface && c.Name == "rx_dropped"
			})
		case "softnet.dropped":
			takeOut(losses, l.Packets, func(c Counter) bool {
				return sameMachine(c, l.Counter) &&
					c.Name == "rx_dropped"
			})
			takeOut(losses, l.Packets, func(c Counter) bool {
				return sameMachine(c, l.Counter) && c.Name == "tx_dropped" && c.Kind == "veth"
			})
		}
	}
	return slices.DeleteFunc(losses, func(l Loss) bool { return l.Packets == 0 })
}

// takeOut takes n packets out of the losses at some counters, one after the other.
func takeOut(losses []Loss, n uint64, at func(Counter) bool) {
	for i := range losses {
		if l := &losses[i]; at(l.Counter) {
			out := min(n, l.Packets)
			l.Packets, n = l.Packets-out, n-out
		}
	}
}

// sameMachine reports whether two counters are of one machine: this one and its network namespaces, or one agent's.
func sameMachine(a, b Counter) bool {
	near := func(c Counter) bool { return c.Where == "host" || strings.HasPrefix(c.Where, "netns:") }
	return a.Where == b.Where || near(a) && near(b)
}
