package bottleneck

import (
	"mpps/internal/model/facts"
)

// place is where a packet is lost.
type place string

const (
	atRing    place = "ring"    // no receive descriptor was free
	atDamage  place = "damage"  // the frame was broken
	atBacklog place = "backlog" // a CPU's backlog of received packets was full
	atRule    place = "rule"    // netfilter dropped it
	atFilter  place = "filter"  // a tc filter or policer dropped it
	atQdisc   place = "qdisc"
	atTap     place = "tap"    // the tap's queue towards its guest
	atDevice  place = "device" // a veth's or tunnel's own ring or transmit function
	atSocket  place = "socket" // a receive buffer was full
	atPacket  place = "packet" // the ring of an AF_PACKET socket
	inGuest   place = "guest"  // inside a guest, before its sockets
	atReader  place = "reader" // at a socket inside a guest
	atUpcall  place = "upcall" // Open vSwitch has no flow for it, and ovs-vswitchd was not reached
	atKernel  place = "kernel" // anywhere else, for a reason that the kernel gives
)

// loss is the packets lost at one place.
type loss struct {
	at      place
	device  *facts.DeviceLoad // nil: not counted by a device
	cpu     int               // −1: not counted by CPU
	guest   string
	packets float64
	share   float64 // of the packets that reached the place
	source  string

	// of atKernel: the kernel's reason, the function that dropped them, and what that means; of a device, the direction
	reason, function string
	means            dropMeaning
	goesRound        bool              // a routing loop: devices counted each of their passes
	peer             *facts.DeviceLoad // of a veth: its other end, whose receive queue is full
	wayKnown         bool              // of atRule: means.sends is what the packets said, not a guess
	// counted by the network layer of a namespace, which does not tell the device; empty: mpps's own
	counted bool
	netns   string
}

// ringCounters are the drivers' counters of packets that the NIC could not hand over: for want of descriptors, of
// memory for them, or because its own buffer was full.
var ringCounters = append([]string{"rx_over_errors", "rx_discards_phy", "rx_buf_alloc_fail", "rx_alloc_failed"},
	facts.RingFullCounters...)

// damageCounters count frames that arrived broken.
var damageCounters = []string{"rx_crc_errors", "rx_frame_errors", "rx_length_errors", "rx_symbol_err_phy",
	"rx_crc_errors_phy"}

// pauseCounters count requests of the link partner to stop sending.
var pauseCounters = []string{"rx_flow_control_xoff", "rx_flow_control_xoff_packets", "port.rx_flow_control_xoff",
	"rx_pause_ctrl_phy", "rx_xoff", "rx_pause", "link_xoff_rx", "port.link_xoff_rx"}

func largestCounter(counters map[string]uint64, names []string) (n uint64, name string) {
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

// space returns the network namespace of a loss; empty: mpps's own, or not known.
func (s *loss) space() string {
	if s.device != nil {
		return s.device.Netns
	}
	return s.netns
}

// addLoss records a loss of so many packets while others passed the same place.
func (p *path) addLoss(s loss, lost, passed float64) {
	s.packets, s.share = lost, shareOf(lost, passed)
	if s.packets >= facts.MinLostPackets {
		p.losses = append(p.losses, s)
	}
}

// findLosses collects which packets were lost where, each packet once: a queue's own counter first, then the
// tracepoint's reasons where no counter covers the place.
func (p *path) findLosses() {
	for d := range facts.Each(p.l.Devices) {
		p.addDeviceLosses(d)
	}
	ours := p.shareOfBacklogDrops()
	for _, s := range p.l.Softnet {
		p.addLoss(loss{at: atBacklog, cpu: s.CPU, source: "/proc/net/softnet_stat, dropped"},
			float64(s.Dropped)*ours, float64(s.Processed))
	}
	udp := func(s *facts.SocketLoad, at place, guest, inside string) {
		p.addLoss(loss{at: at, cpu: -1, guest: guest, source: "/proc/net/snmp, Udp RcvbufErrors" + inside},
			float64(s.ReceiveBuffer), float64(s.UDPIn))
	}
	udp(&p.l.Sockets, atSocket, "", "")
	p.addLoss(loss{at: atPacket, cpu: -1, source: "AF_PACKET statistics"}, float64(p.l.Sockets.PacketDrops),
		p.maxReceived())
	for g := range facts.Each(p.l.Guests) {
		for _, s := range g.Softnet {
			p.addLoss(loss{at: inGuest, cpu: s.CPU, guest: g.Name, source: "softnet_stat inside " + g.Name},
				float64(s.Dropped), float64(s.Processed))
		}
		udp(&g.Sockets, atReader, g.Name, " inside "+g.Name)
	}
	p.addUpcallLosses()
	p.addTracedLosses()
	p.addStackLosses()
	p.addBenignLosses()
}

// maxReceived returns the most packets that a device received.
func (p *path) maxReceived() (n float64) {
	for _, d := range p.l.Devices {
		n = max(n, float64(d.RxPackets))
	}
	return n
}

func (p *path) addDeviceLosses(d *facts.DeviceLoad) {
	add := func(at place, guest string, lost, passed uint64, source string) {
		p.addLoss(loss{at: at, device: d, cpu: -1, guest: guest, source: source}, float64(lost), float64(passed))
	}
	if n, name := largestCounter(d.Counters, ringCounters); d.Kind == "nic" || d.Kind == "vf" {
		add(atRing, "", n, d.RxPackets, deviceName(d)+": "+name)
	}
	n, name := largestCounter(d.Counters, damageCounters)
	add(atDamage, "", n, d.RxPackets, deviceName(d)+": "+name)
	at, passed, lost, counter := atDevice, d.TxPackets, d.Counters["tx_dropped"], "tx_dropped"
	if d.Kind == "tap" {
		at = atTap
		passed, lost = d.ToProgram()
	}
	if d.Macvtap {
		counter = "rx_dropped"
	}
	p.addLoss(loss{at: at, device: d, cpu: -1, guest: d.Guest, source: deviceName(d) + ": " + counter,
		means: dropMeaning{sends: !d.Macvtap}}, float64(lost), float64(passed))
	if d.Kind == "veth" { // other devices also count frames here that no protocol wanted
		add(atDevice, "", d.Counters["rx_dropped"]-min(d.Counters["rx_dropped"], xdpRefused(d)), d.RxPackets,
			deviceName(d)+": rx_dropped")
	}
	var qdisc facts.QdiscLoad // a class's drops are counted in its parents too: only the largest count is used
	for _, q := range d.Qdisc {
		if !q.Filters() && q.Drops > qdisc.Drops {
			qdisc = q
		}
	}
	add(atQdisc, d.Guest, qdisc.Drops, qdisc.Packets, "tc -s qdisc show dev "+d.Name+": "+qdisc.Kind)
	p.addFilterLosses(d)
	p.addXDPLosses(d)
}

// dropDevice returns the device of a drop. Several namespaces may have a device of that name.
func (p *path) dropDevice(site *facts.DropSite) *facts.DeviceLoad {
	if site.Device == "" {
		return nil
	}
	if d := facts.Find(p.l.Devices, func(d *facts.DeviceLoad) bool {
		return d.Name == site.Device && d.Netns == site.Netns
	}); d != nil {
		return d
	}
	return p.device(site.Device)
}

// device returns the device of that name, preferably of our own network namespace; nil if there is none.
func (p *path) device(name string) *facts.DeviceLoad {
	var found *facts.DeviceLoad
	for d := range facts.Each(p.l.Devices) {
		if d.Name == name && name != "" && (found == nil || found.Netns != "" && d.Netns == "") {
			found = d
		}
	}
	return found
}

// minOwnLoss is the loss in packets per second from which on a port that loses a large share of its packets counts,
// however few these are on the whole path.
const minOwnLoss = 20

// matters reports whether a loss is more than noise: at its place, and for the whole path or for a port that loses a
// large share of its packets.
func (p *path) matters(s loss) bool {
	return s.packets >= facts.MinLostPackets && s.share >= facts.MinLossShare &&
		(s.packets >= facts.MinLossShare*p.packets || s.share >= largeLossShare && p.rate(s.packets) >= minOwnLoss)
}

// lossesAt returns the losses at a place that matter.
func (p *path) lossesAt(at place) []loss {
	return facts.Where(p.losses, func(s loss) bool { return s.at == at && p.matters(s) })
}

// lossTo returns the packets lost on the way into a guest's taps, and their share of those sent to the guest.
func (p *path) lossTo(g *guest) (packets, share float64) {
	for _, s := range p.lossesAt(atTap) {
		if s.guest == g.name {
			packets += s.packets
		}
	}
	return packets, shareOf(packets, g.toGuest)
}
