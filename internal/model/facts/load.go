package facts

import "mpps/internal/model/setting"

// Load is what every stage of the packet path did while mpps watched: how busy it was, how full, and what was lost
// there. Two looks at counters give most of it; what only the kernel's tracepoints and a profile of its CPU time can
// tell stands beside (Profile, Drops, Delays) and is empty, with the reason in Unseen, where the kernel does not give
// it. All counts are increases within the interval.
type Load struct {
	Seconds float64      `json:"seconds"`
	CPUs    []CPULoad    `json:"cpus"`    // every online CPU
	Devices []DeviceLoad `json:"devices"` // NICs, bridges, tunnels, taps and veths of the watched network namespaces
	Softnet []Softnet    `json:"softnet"` // increases by CPU; BacklogLen is the value at the end
	// vhost, vCPUs, emulator, ksoftirqd, threaded NAPI, and whoever else used more than a hundredth of a CPU
	Threads []ThreadLoad `json:"threads"`
	Sockets SocketLoad   `json:"sockets"`
	// tables of connections that are tracked, of the watched network namespaces that have any
	Tracked []TrackLoad    `json:"tracked"`
	Profile []ProfileEntry `json:"profile"` // where CPU time went in the kernel; empty: not sampled
	Drops   []DropSite     `json:"drops"`   // packets that the kernel freed as dropped, by reason
	Delays  []WakeDelay    `json:"delays"`  // waits for a CPU of the threads on the path
	Locks   []LockWait     `json:"locks"`   // waits for locks of the path
	// seen from inside by the guest's agent; empty: nobody was asked, or answered
	Guests []GuestLoad `json:"guests"`
	Method LoadMethod  `json:"method"`
	// CPU time that watching took within the interval; to prepare for it is not in it
	CostMS float64  `json:"cost_ms"`
	Unseen []Unseen `json:"unseen"`
}

// LoadMethod is what a Load rests on.
type LoadMethod string

// The methods.
const (
	ByTracepoints LoadMethod = "tracepoints" // eBPF programs and a profile beside the counters
	ByCounters    LoadMethod = "counters"    // counters alone: an old kernel, or no privilege
)

// CPULoad is how one CPU spent the interval, in shares of it that add up to 1.
type CPULoad struct {
	CPU     int     `json:"cpu"`
	User    float64 `json:"user"` // with nice
	System  float64 `json:"system"`
	Softirq float64 `json:"softirq"`
	IRQ     float64 `json:"irq"`
	Guest   float64 `json:"guest"`
	Steal   float64 `json:"steal"`
	Idle    float64 `json:"idle"` // with iowait
}

// Busy is the share that is neither idle nor stolen.
func (c CPULoad) Busy() float64 { return c.User + c.System + c.Softirq + c.IRQ + c.Guest }

// DeviceLoad is the traffic of one network device and what it lost.
type DeviceLoad struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`            // nic, vf, bridge, tunnel, tap, veth, other
	Netns string `json:"netns,omitempty"` // empty: the one that mpps runs in
	Guest string `json:"guest,omitempty"` // whose tap it is

	RxPackets uint64 `json:"rx_packets"`
	TxPackets uint64 `json:"tx_packets"`
	RxBytes   uint64 `json:"rx_bytes"`
	TxBytes   uint64 `json:"tx_bytes"`
	// Counters are the increases of all others that moved: rx_dropped, tx_dropped, rx_missed_errors, rx_fifo_errors and
	// the driver's own (ethtool -S), by the kernel's or driver's name.
	Counters map[string]uint64 `json:"counters"`

	SpeedMbps int         `json:"speed_mbps"` // −1: not told
	Queues    []QueueLoad `json:"queues"`     // as far as the driver or a tracepoint counts them
	Qdisc     []QdiscLoad `json:"qdisc"`
}

// QueueLoad is one receive or transmit queue.
type QueueLoad struct {
	Direction string `json:"direction"` // rx or tx
	Index     int    `json:"index"`
	Packets   uint64 `json:"packets"`
	Drops     uint64 `json:"drops"`
	// how often the stack found a transmit queue stopped or its ring full; 0 where it is not counted
	Stopped uint64         `json:"stopped"`
	CPUs    setting.CPUSet `json:"cpus"` // where its interrupt came or its packets were seen
}

// QdiscLoad is one queue discipline.
type QdiscLoad struct {
	Kind       string  `json:"kind"`   // fq_codel, tbf, htb, pfifo_fast …
	Parent     string  `json:"parent"` // root, ingress, or the class: "1:10"
	Packets    uint64  `json:"packets"`
	Bytes      uint64  `json:"bytes"`
	Drops      uint64  `json:"drops"`
	Overlimits uint64  `json:"overlimits"`
	Requeues   uint64  `json:"requeues"`
	Backlog    uint64  `json:"backlog"`  // packets that waited at the end
	RateBps    float64 `json:"rate_bps"` // the rate that it limits to, bits per second; 0: none, or not told
	FlowBps    float64 `json:"flow_bps"` // the rate that it limits each flow to, bits per second; 0: none, or not told
}

// ThreadLoad is one thread on the path, or beside it.
type ThreadLoad struct {
	PID   int    `json:"pid"`
	TID   int    `json:"tid"`
	Comm  string `json:"comm"`
	Role  string `json:"role"` // vhost, vcpu, emulator, ksoftirqd, napi, pktgen, mpps, other
	Guest string `json:"guest,omitempty"`
	// the guest's interface (MAC) that a vhost thread serves; empty: not known
	NIC      string         `json:"nic,omitempty"`
	Queue    int            `json:"queue"` // its queue; −1: not known
	VCPU     int            `json:"vcpu"`  // −1: no vCPU
	CPU      int            `json:"cpu"`   // where it ran last
	Affinity setting.CPUSet `json:"affinity"`
	Node     int            `json:"numa_node"` // of the CPU where it ran last; −1: not known
	// share of the interval on a CPU, softirqs in its context included
	Ran float64 `json:"ran"`
	// share in which it was ready and had no CPU (schedstat's run_delay)
	Waited   float64 `json:"waited"`
	Quota    float64 `json:"quota"`     // CPUs that its cgroup may use (cpu.max); 0: no limit
	Throttle float64 `json:"throttled"` // share of the interval in which its cgroup was held back
	// of a vCPU: share of the interval in which it polled for wake-ups (KVM's halt_poll_*_ns); part of Ran
	HaltPoll float64        `json:"halt_poll"`
	Switches uint64         `json:"switches"`         // how often it came onto a CPU
	Policy   string         `json:"policy"`           // other, batch, idle, fifo, rr, deadline
	Memory   map[int]uint64 `json:"memory,omitempty"` // bytes of its process by NUMA node, for guests
	// of all vCPUs of a guest together, with its emulator, where KVM counts
	Exits   uint64   `json:"exits"`
	Devices []string `json:"devices,omitempty"` // that it serves: a tap, a NIC's queue
}

// SocketLoad is what the sockets of the watched namespaces lost.
type SocketLoad struct {
	UDPIn         uint64 `json:"udp_in"`
	UDPOut        uint64 `json:"udp_out"`
	ReceiveBuffer uint64 `json:"receive_buffer_errors"` // the application did not read fast enough
	SendBuffer    uint64 `json:"send_buffer_errors"`
	NoPort        uint64 `json:"no_port"`
	TCPListen     uint64 `json:"tcp_listen_drops"`
	PacketDrops   uint64 `json:"packet_socket_drops"` // of AF_PACKET sockets
	// Queued is the fullest receive queue at the end as a share of its buffer.
	Queued float64 `json:"queued"`
}

// TrackLoad is the table of tracked connections of one network namespace.
type TrackLoad struct {
	Netns   string `json:"netns,omitempty"` // empty: the one that mpps runs in
	Entries uint64 `json:"entries"`         // at the end
	Max     uint64 `json:"max"`             // nf_conntrack_max; 0: not told
	Dropped uint64 `json:"dropped"`         // packets for whose connection there was no room
	Evicted uint64 `json:"evicted"`         // connections that were forgotten early, to make room
}

// ProfileEntry is the share of all CPU time of one CPU that was spent in functions of one stage.
type ProfileEntry struct {
	CPU int `json:"cpu"`
	// bridge, netfilter, conntrack, overlay, qdisc, driver, tun, vhost, virtio, kvm, socket, lock, copy, other
	Stage   string  `json:"stage"`
	Symbol  string  `json:"function"` // the one with the most samples of the stage
	Share   float64 `json:"share"`    // of the CPU's time in the interval, 0–1
	Samples int     `json:"samples"`
}

// DropSite is where the kernel dropped packets.
type DropSite struct {
	// skb drop reason without its prefix: NETFILTER_DROP, FULL_RING, QDISC_DROP, CPU_BACKLOG, SOCKET_RCVBUFF …
	Reason  string `json:"reason"`
	Symbol  string `json:"function"` // that freed it
	Device  string `json:"device,omitempty"`
	Netns   string `json:"netns,omitempty"` // of the device or the socket; empty: that of this process
	Packets uint64 `json:"packets"`
}

// WakeDelay is how long a thread waited for a CPU from when it was woken until it ran, in microseconds.
type WakeDelay struct {
	TID   int     `json:"tid"`
	Waits uint64  `json:"waits"`
	P50   float64 `json:"p50_us"`
	P99   float64 `json:"p99_us"`
	Max   float64 `json:"max_us"`
	Over  string  `json:"behind,omitempty"` // which thread ran in its place longest
}

// LockWait is waiting for one kind of lock of the path, as a profile shows it: the slow paths of locks, by who called
// them.
type LockWait struct {
	Device string  `json:"device,omitempty"` // of a transmit queue or queue discipline; empty: a profile does not tell
	Lock   string  `json:"lock"`             // the function that wants it: sch_direct_xmit, __dev_queue_xmit …
	Waits  uint64  `json:"waits"`            // samples that waited
	Share  float64 `json:"share"`            // of one CPU's time
}

// GuestLoad is a guest seen from inside.
type GuestLoad struct {
	Name string `json:"name"`
	// between the two looks at it, by its own clock: a little more than the host's interval
	Seconds float64           `json:"seconds"`
	CPUs    []CPULoad         `json:"cpus"`
	Softnet []Softnet         `json:"softnet"`
	Devices []DeviceLoad      `json:"devices"`
	IRQs    []map[int]uint64  `json:"irqs"` // each interrupt of a network device: how often, by the guest's CPU
	Sockets SocketLoad        `json:"sockets"`
	Service map[string]bool   `json:"services"` // irqbalance …: runs
	Notes   map[string]string `json:"notes,omitempty"`
}
