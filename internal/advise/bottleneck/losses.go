package bottleneck

import (
	"slices"
	"strings"

	"mpps/internal/model/facts"
)

// place is where a packet is lost.
type place string

const (
	atRing    place = "ring"    // no receive descriptor was free
	atDamage  place = "damage"  // the frame was broken
	atBacklog place = "backlog" // a CPU's queue of received packets was full
	atRule    place = "rule"    // netfilter dropped it
	atFilter  place = "filter"  // a tc filter or policer dropped it
	atQdisc   place = "qdisc"
	atTap     place = "tap"    // the tap's queue, on the way to its guest
	atDevice  place = "device" // a veth's or tunnel's own ring or transmit function
	atSocket  place = "socket" // a receive buffer was full
	atPacket  place = "packet" // the ring of an AF_PACKET socket
	inGuest   place = "guest"  // inside a guest, before its sockets
	atReader  place = "reader" // at a socket inside a guest
)

// loss is packets that were lost at one place.
type loss struct {
	at      place
	device  *facts.DeviceLoad // nil where no device counts
	cpu     int               // −1: not of one CPU
	guest   string
	packets float64
	share   float64 // of those that came to the place
	source  string
}

// ringCounters are what drivers call the want of receive descriptors. They count the same packets under several names,
// so the largest one counts (Documentation/networking/statistics.rst; ixgbe rx_no_dma_resources, igb
// rx_no_buffer_count, mlx5 rx_out_of_buffer, i40e port.rx_dropped).
var ringCounters = []string{
	"rx_missed_errors", "rx_fifo_errors", "rx_over_errors", "rx_no_buffer_count", "rx_no_dma_resources",
	"rx_out_of_buffer",
	"port.rx_dropped", "rx_discards_phy", "rx_buf_alloc_fail", "rx_alloc_failed",
}

// damageCounters are frames that arrived broken.
var damageCounters = []string{"rx_crc_errors", "rx_frame_errors", "rx_length_errors", "rx_symbol_err_phy",
	"rx_crc_errors_phy"}

// pauseCounters are requests of the other end to stop sending.
var pauseCounters = []string{
	"rx_flow_control_xoff", "rx_flow_control_xoff_packets", "port.rx_flow_control_xoff", "rx_pause_ctrl_phy", "rx_xoff",
	"rx_pause",
	"link_xoff_rx", "port.link_xoff_rx",
}

func largest(counters map[string]uint64, names []string) (n uint64, name string) {
	for _, c := range names {
		if v := counters[c]; v > n {
			n, name = v, c
		}
	}
	return n, name
}

func shareOf(lost, passed float64) float64 {
	if lost <= 0 {
		return 0
	}
	return lost / (lost + passed)
}

func (k *look) lose(s loss) {
	if s.packets >= lossCount {
		k.losses = append(k.losses, s)
	}
}

// findLosses gathers what was lost where, each packet once: a queue's own counter first, then the tracepoint's reason
// where no counter has as many.
func (k *look) findLosses() {
	for i := range k.l.Devices {
		k.deviceLosses(&k.l.Devices[i])
	}
	for _, s := range k.l.Softnet {
		k.lose(loss{at: atBacklog, cpu: s.CPU, packets: float64(s.Dropped),
			share: shareOf(float64(s.Dropped), float64(s.Processed)), source: "/proc/net/softnet_stat, dropped"})
	}
	k.socketLosses(&k.l.Sockets, "", atSocket)
	for i := range k.l.Guests {
		g := &k.l.Guests[i]
		for _, s := range g.Softnet {
			k.lose(loss{at: inGuest, cpu: s.CPU, guest: g.Name, packets: float64(s.Dropped),
				share: shareOf(float64(s.Dropped), float64(s.Processed)), source: "softnet_stat inside " + g.Name})
		}
		k.socketLosses(&g.Sockets, g.Name, atReader)
	}
	k.tracedLosses()
}

func (k *look) socketLosses(s *facts.SocketLoad, guest string, at place) {
	inside := ""
	if guest != "" {
		inside = " inside " + guest
	}
	k.lose(loss{at: at, cpu: -1, guest: guest, packets: float64(s.ReceiveBuffer),
		share: shareOf(float64(s.ReceiveBuffer), float64(s.UDPIn)), source: "/proc/net/snmp, Udp RcvbufErrors" +
			inside})
	if guest == "" {
		k.lose(loss{at: atPacket, cpu: -1, packets: float64(s.PacketDrops),
			share: shareOf(float64(s.PacketDrops), k.rxOfAll()), source: "AF_PACKET statistics"})
	}
}

// rxOfAll is what the busiest device received.
func (k *look) rxOfAll() (n float64) {
	for i := range k.l.Devices {
		n = max(n, float64(k.l.Devices[i].RxPackets))
	}
	return n
}

func (k *look) deviceLosses(d *facts.DeviceLoad) {
	if n, name := largest(d.Counters, ringCounters); (d.Kind == "nic" || d.Kind == "vf") && n > 0 {
		k.lose(loss{at: atRing, device: d, cpu: -1, packets: float64(n),
			share: shareOf(float64(n), float64(d.RxPackets)), source: called(d) + ": " + name})
	}
	if n, name := largest(d.Counters, damageCounters); n > 0 {
		k.lose(loss{at: atDamage, device: d, cpu: -1, packets: float64(n),
			share: shareOf(float64(n), float64(d.RxPackets)), source: called(d) + ": " + name})
	}
	if n := d.Counters["tx_dropped"]; n > 0 {
		at := atDevice
		if d.Kind == "tap" {
			at = atTap
		}
		k.lose(loss{at: at, device: d, cpu: -1, guest: d.Guest, packets: float64(n),
			share: shareOf(float64(n), float64(d.TxPackets)), source: called(d) + ": tx_dropped"})
	}
	if n := d.Counters["rx_dropped"]; n > 0 && d.Kind == "veth" { // of others also frames that nobody wanted
		k.lose(loss{at: atDevice, device: d, cpu: -1, packets: float64(n),
			share: shareOf(float64(n), float64(d.RxPackets)), source: called(d) + ": rx_dropped"})
	}
	var worst, filter *facts.QdiscLoad // a class's drops stand in its parents too
	for i := range d.Qdisc {
		q := &d.Qdisc[i]
		if q.Kind == "ingress" || q.Kind == "clsact" || q.Parent == "ingress" {
			if filter == nil || q.Drops > filter.Drops {
				filter = q
			}
			continue
		}
		if worst == nil || q.Drops > worst.Drops {
			worst = q
		}
	}
	if worst != nil {
		k.lose(loss{at: atQdisc, device: d, cpu: -1, guest: d.Guest, packets: float64(worst.Drops),
			share: shareOf(float64(worst.Drops), float64(worst.Packets)), source: "tc -s qdisc show dev " + d.Name +
				": " + worst.Kind})
	}
	if filter != nil {
		k.lose(loss{at: atFilter, device: d, cpu: -1, guest: d.Guest, packets: float64(filter.Drops),
			share: shareOf(float64(filter.Drops), float64(d.RxPackets)), source: "tc -s qdisc show dev " + d.Name +
				": " + filter.Kind})
	}
}

// reasons are the kernel's reasons for a drop (include/net/dropreason-core.h) that tell of a place.
var reasons = map[string]place{
	"NETFILTER_DROP": atRule, "TC_INGRESS": atFilter, "TC_EGRESS": atFilter, "FULL_RING": atTap,
	"CPU_BACKLOG": atBacklog,
	"QDISC_DROP":  atQdisc, "QDISC_OVERLIMIT": atQdisc, "SOCKET_RCVBUFF": atSocket, "SOCKET_BACKLOG": atSocket,
	"PACKET_SOCK_ERROR": atPacket,
}

// tracedLosses adds what only the tracepoint of freed packets tells.
func (k *look) tracedLosses() {
	for i := range k.l.Drops {
		site := &k.l.Drops[i]
		at, tells := reasons[strings.TrimPrefix(site.Reason, "SKB_DROP_REASON_")]
		if !tells {
			continue
		}
		d := k.dropDevice(site)
		if at == atTap && d != nil && d.Kind != "tap" {
			at = atDevice
		}
		counted := slices.ContainsFunc(k.losses, func(s loss) bool {
			return s.at == at && (d == nil || s.device == nil || s.device == d)
		})
		if counted {
			continue
		}
		passed := k.rxOfAll()
		s := loss{at: at, device: d, cpu: -1, packets: float64(site.Packets), source: "kfree_skb: " + site.Reason +
			" in " + site.Symbol}
		if d != nil {
			s.guest = d.Guest
			passed = float64(max(d.RxPackets, d.TxPackets))
		}
		s.share = shareOf(s.packets, max(passed-s.packets, 0)) // these were received before they were dropped
		if at == atTap || at == atDevice {
			s.share = shareOf(s.packets, passed)
		}
		k.lose(s)
	}
}

// dropDevice is the device of a drop. Of namespaces several may have one of that name.
func (k *look) dropDevice(site *facts.DropSite) *facts.DeviceLoad {
	if at := slices.IndexFunc(k.l.Devices, func(d facts.DeviceLoad) bool {
		return d.Name == site.Device &&
			d.Netns == site.Netns
	}); at >= 0 && site.Device != "" {
		return &k.l.Devices[at]
	}
	return k.device(site.Device)
}

// device is the device of a name: that of our own namespace where several have one.
func (k *look) device(name string) *facts.DeviceLoad {
	if name == "" {
		return nil
	}
	var found *facts.DeviceLoad
	for i := range k.l.Devices {
		if d := &k.l.Devices[i]; d.Name == name && (found == nil || found.Netns != "" && d.Netns == "") {
			found = d
		}
	}
	return found
}

// matters reports whether a loss is more than noise: of those that came there, and of the whole path.
func (k *look) matters(s loss) bool {
	return s.packets >= lossCount && s.share >= lossLeast && s.packets >= lossLeast*k.packets
}

// lost are the losses at a place that matter.
func (k *look) lost(at place) []loss {
	var found []loss
	for _, s := range k.losses {
		if s.at == at && k.matters(s) {
			found = append(found, s)
		}
	}
	return found
}

// lostTo is what was lost on the way into a guest's taps.
func (k *look) lostTo(g *guest) (packets, share float64) {
	for _, s := range k.lost(atTap) {
		if s.guest == g.name {
			packets += s.packets
		}
	}
	return packets, shareOf(packets, g.in)
}
