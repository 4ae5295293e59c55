package facts

import "mpps/internal/model/setting"

// Load is the activity of each stage of the packet path while mpps watched: utilisation, fill levels and losses. Most
// of it comes from two readings of counters. Tracepoints and a CPU profile provide Profile, Drops and Delays, which are
// empty, with the reason in Unseen, if the kernel does not support them. All counts are increases within the interval.
type Load struct {
	Seconds float64      `json:"seconds"`
	CPUs    []CPULoad    `json:"cpus"`    // every online CPU
	Devices []DeviceLoad `json:"devices"` // NICs, bridges, tunnels, taps and veths of the watched network namespaces
	Softnet []Softnet    `json:"softnet"` // increases by CPU; BacklogLen is the value at the end
	// vhost, vCPUs, emulator, ksoftirqd, threaded NAPI, and every other thread that used more than 1 % of a CPU
	Threads []ThreadLoad `json:"threads"`
	Sockets SocketLoad   `json:"sockets"`
	// conntrack tables of the watched network namespaces that have one
	Tracked []TrackLoad `json:"tracked"`
	// packets for and from programs of the watched network namespaces; empty: not counted (older versions)
	Local []LocalLoad `json:"local,omitempty"`
	// counters of the watched network namespaces' network layers; empty: not counted (older versions)
	Stack []StackLoad `json:"stack,omitempty"`
	// what the polling threads of Open vSwitch counted; nil: there are none, or ovs-vswitchd does not tell
	Polled  *PolledSwitch  `json:"polled,omitempty"`
	Profile []ProfileEntry `json:"profile"` // kernel CPU time by stage; empty: not sampled
	Drops   []DropSite     `json:"drops"`   // packets that the kernel dropped, by reason
	Delays  []WakeDelay    `json:"delays"`  // scheduling delays of the threads on the path
	Locks   []LockWait     `json:"locks"`   // waits for locks on the path
	// reported by the guest's agent; empty: nobody was asked, or answered
	Guests []GuestLoad `json:"guests"`
	Method LoadMethod  `json:"method"`
	// CPU time spent on watching within the interval, without preparation
	CostMS float64  `json:"cost_ms"`
	Unseen []Unseen `json:"unseen"`
}

// LoadMethod is the source of a Load.
type LoadMethod string

// The methods.
const (
	ByTracepoints LoadMethod = "tracepoints" // eBPF programs and a profile in addition to counters
	ByCounters    LoadMethod = "counters"    // counters only: old kernel, or no privilege
)

// CPULoad splits a CPU's time in the interval into shares that add up to 1.
type CPULoad struct {
	CPU     int     `json:"cpu"`
	User    float64 `json:"user"` // including nice
	System  float64 `json:"system"`
	Softirq float64 `json:"softirq"`
	IRQ     float64 `json:"irq"`
	Guest   float64 `json:"guest"`
	Steal   float64 `json:"steal"`
	Idle    float64 `json:"idle"` // including iowait
}

// Busy is the share that is neither idle nor stolen.
func (c CPULoad) Busy() float64 { return c.User + c.System + c.Softirq + c.IRQ + c.Guest }

// DeviceLoad is the traffic and the losses of one network device.
type DeviceLoad struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`            // nic, vf, bridge, tunnel, tap, veth, other
	Netns string `json:"netns,omitempty"` // empty: mpps's own
	Guest string `json:"guest,omitempty"` // guest, for a tap

	RxPackets uint64 `json:"rx_packets"`
	TxPackets uint64 `json:"tx_packets"`
	RxBytes   uint64 `json:"rx_bytes"`
	TxBytes   uint64 `json:"tx_bytes"`
	// Counters are the increases of all other counters that changed: rx_dropped, tx_dropped, rx_missed_errors,
	// rx_fifo_errors and the driver's own (ethtool -S), by their kernel or driver name.
	Counters map[string]uint64 `json:"counters"`

	XDP string `json:"xdp,omitempty"` // name of the XDP program on it; empty: none or unknown
	// processes that have a tap open, if it lost packets and is no guest's; of mpps those with a packet socket there
	Held []int `json:"held_by,omitempty"`
	// kernel function in which the only thread of the last of them sleeps; empty: it has several, runs or reads
	HeldWaits string `json:"held_by_sleeps_in,omitempty"`
	// it takes frames for further MAC addresses, as those of macvlans, which may be in namespaces that nobody watches
	Shared  bool `json:"shared,omitempty"`
	Macvtap bool `json:"macvtap,omitempty"` // a tap that is one, whose packets its NIC counts too

	SpeedMbps int         `json:"speed_mbps"` // −1: unknown
	Queues    []QueueLoad `json:"queues"`     // as far as the driver or a tracepoint counts
	Qdisc     []QdiscLoad `json:"qdisc"`
}

// ToProgram returns the packets that the guest or program behind a tap received, and those lost for want of room in its
// queue. A macvtap hands up what its NIC receives, and counts the lost ones as received too (drivers/net/tap.c,
// tap_handle_frame; drivers/net/macvlan.c, macvlan_dev_get_stats64).
func (d *DeviceLoad) ToProgram() (received, lost uint64) {
	if !d.Macvtap {
		return d.TxPackets, d.Counters["tx_dropped"]
	}
	lost = min(d.Counters["rx_dropped"], d.RxPackets)
	return d.RxPackets - lost, lost
}

// FromProgram returns the packets that the guest or program behind a tap sent.
func (d *DeviceLoad) FromProgram() uint64 {
	if d.Macvtap {
		return d.TxPackets
	}
	return d.RxPackets
}

// QueueLoad is the load of a receive or transmit queue.
type QueueLoad struct {
	Direction string `json:"direction"` // rx or tx
	Index     int    `json:"index"`
	Packets   uint64 `json:"packets"`
	Drops     uint64 `json:"drops"`
	// number of times the stack found a transmit queue stopped or its ring full; 0 if not counted
	Stopped uint64         `json:"stopped"`
	CPUs    setting.CPUSet `json:"cpus"` // CPUs that handled its interrupt or packets
}

// QdiscLoad is the load of a queue discipline.
type QdiscLoad struct {
	Kind       string  `json:"kind"`   // fq_codel, tbf, htb, pfifo_fast …
	Parent     string  `json:"parent"` // root, ingress, or the class: "1:10"
	Packets    uint64  `json:"packets"`
	Bytes      uint64  `json:"bytes"`
	Drops      uint64  `json:"drops"`
	Overlimits uint64  `json:"overlimits"`
	Requeues   uint64  `json:"requeues"`
	Backlog    uint64  `json:"backlog"`  // packets queued at the end
	RateBps    float64 `json:"rate_bps"` // rate limit in bits per second; 0: none or unknown
	FlowBps    float64 `json:"flow_bps"` // rate limit per flow in bits per second; 0: none or unknown
}

// ThreadLoad is the load of a thread on the path, or of another busy thread.
type ThreadLoad struct {
	PID   int    `json:"pid"`
	TID   int    `json:"tid"`
	Comm  string `json:"comm"`
	Role  string `json:"role"` // vhost, vcpu, emulator, ksoftirqd, napi, pktgen, mpps, other
	Guest string `json:"guest,omitempty"`
	// MAC of the guest's interface that a vhost thread serves; empty: unknown
	NIC      string         `json:"nic,omitempty"`
	Queue    int            `json:"queue"` // its queue; −1: unknown
	VCPU     int            `json:"vcpu"`  // −1: not a vCPU
	CPU      int            `json:"cpu"`   // CPU it last ran on
	Affinity setting.CPUSet `json:"affinity"`
	Node     int            `json:"numa_node"` // of that CPU; −1: unknown
	// share of the interval on a CPU, including softirqs in its context
	Ran float64 `json:"ran"`
	// share of the interval in which it was runnable without a CPU (schedstat's run_delay)
	Waited   float64 `json:"waited"`
	Quota    float64 `json:"quota"`     // CPUs that its cgroup may use (cpu.max); 0: unlimited
	Throttle float64 `json:"throttled"` // share of the interval in which its cgroup was throttled
	// vCPU: share of the interval spent in halt polling (KVM's halt_poll_*_ns); part of Ran
	HaltPoll float64        `json:"halt_poll"`
	Switches uint64         `json:"switches"`         // number of times it was scheduled
	Policy   string         `json:"policy"`           // other, batch, idle, fifo, rr, deadline
	Memory   map[int]uint64 `json:"memory,omitempty"` // memory of its process in bytes by NUMA node, for guests
	// exits of all vCPUs of a guest, on its emulator thread, if KVM counts them
	Exits   uint64   `json:"exits"`
	Devices []string `json:"devices,omitempty"` // devices it serves: a tap, a NIC queue
}

// SocketLoad is the traffic and the losses of the sockets in the watched namespaces.
type SocketLoad struct {
	UDPIn         uint64 `json:"udp_in"`
	UDPOut        uint64 `json:"udp_out"`
	ReceiveBuffer uint64 `json:"receive_buffer_errors"` // the application did not read fast enough
	SendBuffer    uint64 `json:"send_buffer_errors"`
	NoPort        uint64 `json:"no_port"`
	TCPListen     uint64 `json:"tcp_listen_drops"`
	PacketDrops   uint64 `json:"packet_socket_drops"` // of AF_PACKET sockets
	// Queued is the fill level of the fullest receive queue at the end, as a share of its buffer.
	Queued float64 `json:"queued"`
	// UDP sockets that lost packets, the one with the highest loss first
	Losing []LosingSocket `json:"losing,omitempty"`
	// number of times a TCP connection's window was closed, because its application did not read (TCPToZeroWindowAdv)
	WindowsClosed uint64 `json:"windows_closed,omitempty"`
	// where windows were closed, TCP sockets whose receive queue is at least half full, at most 8, the fullest first
	Full []LosingSocket `json:"full,omitempty"`
	// TCP sockets whose receive buffer is shorter than any that grows by itself, and about as long as what came in a
	// round trip, at most 8, the one that received most first
	Narrow []LosingSocket `json:"narrow,omitempty"`
	// AF_PACKET sockets that take all that arrives in a namespace without an address: what its network layer gets there
	// are copies
	Taking []LosingSocket `json:"taking,omitempty"`
	// raw sockets that lost packets, the one with the highest loss first; their port is the protocol of IP
	Raw []LosingSocket `json:"raw,omitempty"`
}

// LosingSocket is a socket whose receive buffer overflowed (UDP, AF_PACKET) or stays full (TCP, which loses nothing by
// it).
type LosingSocket struct {
	Port   int     `json:"port"`
	Netns  string  `json:"netns,omitempty"` // of one that takes all; empty: mpps's own
	Drops  uint64  `json:"drops"`
	Queued float64 `json:"queued"`         // fill level of its receive queue at the end, 0 to 1
	PID    int     `json:"pid,omitempty"`  // process that has it open; 0: not found
	Comm   string  `json:"comm,omitempty"` // of that process
	// function of the kernel in which its only thread sleeps at the end; empty: it has several, or none that sleeps,
	// or waits for packets
	Waits string `json:"waits,omitempty"`
	// of a TCP socket: as many bytes waited at the start, and none was read since
	Unread bool `json:"unread,omitempty"`
	// of a narrow one
	Buffer   uint64  `json:"buffer,omitempty"` // bytes
	Received uint64  `json:"received,omitempty"`
	RTT      float64 `json:"rtt_s,omitempty"`
}

// LocalLoad is the packets that a network namespace received for its own programs, and those that they sent. They are
// counted by IP: tunnels' outer packets are among them, and what is no IP is not.
type LocalLoad struct {
	Netns    string `json:"netns,omitempty"` // empty: mpps's own
	Received uint64 `json:"received"`
	Sent     uint64 `json:"sent"`
	// seconds that reading the namespace's counters took, both times together: so long they may be apart
	Apart float64 `json:"apart_s,omitempty"`
}

// TrackLoad is the conntrack table of one network namespace.
type TrackLoad struct {
	Netns   string `json:"netns,omitempty"` // empty: mpps's own
	Entries uint64 `json:"entries"`         // at the end
	Max     uint64 `json:"max"`             // nf_conntrack_max; 0: unknown
	Dropped uint64 `json:"dropped"`         // packets dropped because the table was full
	Evicted uint64 `json:"evicted"`         // connections evicted early to make room
	Clashes uint64 `json:"clashes"`         // packets dropped because another connection had their addresses and ports
	Chained uint64 `json:"chained"`         // packets dropped because a chain of the table was too long
}

// ConntrackClashes returns how many of the packets that conntrack counts in drop were of new connections with the
// addresses and ports of another one, which is what a connection gets that NAT finds no free port for. They are counted
// in insert_failed too, and so are chains that are too long (chainlength), which drop does not have
// (net/netfilter/nf_conntrack_core.c, nf_ct_resolve_clash and __nf_conntrack_confirm). Kernels before 5.15, which have
// no chainlength, count clashes in insert_failed that lose no packet: there a full table explains what is dropped.
func ConntrackClashes(drop, insertFailed, chainlength uint64, hasChains, full bool) uint64 {
	if !hasChains && full {
		return 0
	}
	return min(drop, Increase(chainlength, insertFailed))
}

// ConntrackFull reports whether so many connections fill a table of a length; false where that is 0, unknown.
func ConntrackFull(entries, length uint64) bool {
	return length > 0 && float64(entries) >= 0.9*float64(length)
}

// StackLoad is what the network layer of one network namespace counted, by the names of Host.Stack.
type StackLoad struct {
	Netns    string            `json:"netns,omitempty"` // empty: mpps's own
	Counters map[string]uint64 `json:"counters"`        // increases; of a table's entries, those at the end
}

// ProfileEntry is the share of one CPU's time spent in functions of one stage.
type ProfileEntry struct {
	CPU int `json:"cpu"`
	// bridge, netfilter, conntrack, overlay, qdisc, driver, tun, vhost, virtio, kvm, socket, lock, copy, other
	Stage   string  `json:"stage"`
	Symbol  string  `json:"function"` // the stage's function with the most samples
	Share   float64 `json:"share"`    // of the CPU's time in the interval, 0–1
	Samples int     `json:"samples"`
}

// XDPRedirect is the function of a DropSite whose packets an XDP program redirected in vain.
const XDPRedirect = "xdp_do_redirect"

// DropSite is a place where the kernel dropped packets.
type DropSite struct {
	// skb drop reason without its prefix: NETFILTER_DROP, FULL_RING, QDISC_DROP, CPU_BACKLOG, SOCKET_RCVBUFF …
	Reason string `json:"reason"`
	Symbol string `json:"function"` // function that freed the packets
	Device string `json:"device,omitempty"`
	Netns  string `json:"netns,omitempty"` // of the device or socket; empty: this process's
	// of rules of netfilter: in, the packets had come by the device; out, they were to leave by it; empty: not known
	Way     string `json:"way,omitempty"`
	Packets uint64 `json:"packets"`
}

// WakeDelay is the time a thread waited for a CPU between wake-up and running, in microseconds.
type WakeDelay struct {
	TID   int     `json:"tid"`
	Waits uint64  `json:"waits"`
	P50   float64 `json:"p50_us"`
	P99   float64 `json:"p99_us"`
	Max   float64 `json:"max_us"`
	Over  string  `json:"behind,omitempty"` // the thread that ran instead for the longest time
}

// LockWait is the time spent waiting for one kind of lock on the path, from a profile of the locks' slow paths, by
// caller.
type LockWait struct {
	Device string  `json:"device,omitempty"` // of a transmit queue or qdisc; empty: the profile does not show it
	Lock   string  `json:"lock"`             // function that takes it: sch_direct_xmit, __dev_queue_xmit …
	Waits  uint64  `json:"waits"`            // samples
	Share  float64 `json:"share"`            // of one CPU's time
}

// GuestLoad is a guest's load as seen inside it.
type GuestLoad struct {
	Name string `json:"name"`
	// between its two readings, by its own clock: a little longer than the host's interval
	Seconds float64           `json:"seconds"`
	CPUs    []CPULoad         `json:"cpus"`
	Softnet []Softnet         `json:"softnet"`
	Devices []DeviceLoad      `json:"devices"`
	IRQs    []map[int]uint64  `json:"irqs"` // one entry per interrupt of a network device: count by guest CPU
	Sockets SocketLoad        `json:"sockets"`
	Service map[string]bool   `json:"services"` // irqbalance and others: running
	Notes   map[string]string `json:"notes,omitempty"`
}

// Filters reports whether filters at ingress or egress hang there, and nothing is queued.
func (q *QdiscLoad) Filters() bool {
	return q.Kind == "ingress" || q.Kind == "clsact" || q.Parent == "ingress"
}
