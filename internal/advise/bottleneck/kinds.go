package bottleneck

import "mpps/internal/model/facts"

// The kinds, in the order in which a packet from the wire meets them.
const (
	Generator Kind = "generator" // the sender is the limit: the path is not what is measured

	LineRate    Kind = "line-rate"    // the wire carries no more
	PCIeLink    Kind = "pcie-link"    // the NIC's bus carries no more
	PauseFrames Kind = "pause-frames" // the switch asks the NIC to wait
	LinkErrors  Kind = "link-errors"  // frames arrive damaged
	VFRate      Kind = "vf-rate"      // the rate limit of a virtual function
	RxRing      Kind = "rx-ring"      // receive descriptors run out while the CPU has time

	OneQueue       Kind = "one-queue"       // all packets take the only queue, so one CPU handles them
	QueueImbalance Kind = "queue-imbalance" // one of several queues has nearly all packets
	IRQOneCPU      Kind = "irq-one-cpu"     // several queues, one CPU serves them
	RPS            Kind = "rps"             // software steering puts the packets onto a CPU that cannot take them
	Backlog        Kind = "backlog"         // a CPU's queue of received packets is too short
	Budget         Kind = "budget"          // rounds of the softirq end too early
	Capture        Kind = "capture"         // a packet socket copies every packet
	BPFPrograms    Kind = "bpf-programs"    // XDP and tc programs take the CPU's time
	Softirq        Kind = "softirq"         // forwarding alone fills a CPU

	NetfilterRules Kind = "netfilter-rules" // packets run through too many rules
	EbtablesRules  Kind = "ebtables-rules"  // the same, of the bridge's own tables
	Conntrack      Kind = "conntrack"       // connections are tracked
	NetfilterHooks Kind = "netfilter-hooks" // packets pass hooks in which there are no rules
	ConntrackFull  Kind = "conntrack-full"  // the table of connections has no room
	NATPorts       Kind = "nat-ports"       // NAT has no free port for new connections
	DroppedByRule  Kind = "dropped-by-rule" // a rule drops them, on purpose or not

	ReversePath    Kind = "rp-filter"       // the reverse path filter refuses their source
	NoRoute        Kind = "no-route"        // no route leads to where they go
	RouteRefuses   Kind = "route-refuses"   // a route or policy rule says that they end here
	NotForwarded   Kind = "not-forwarded"   // the device that they came by does not forward
	NeighboursFull Kind = "neighbours-full" // the table of neighbours has no room
	NextHop        Kind = "next-hop"        // the next hop does not answer

	OVSUpcalls Kind = "ovs-upcalls" // packets without a flow do not reach ovs-vswitchd
	OVSMasks   Kind = "ovs-masks"   // the search for packets' flows takes the CPU's time
	OVSPolicer Kind = "ovs-policer" // a port's policer drops what its guest sends

	PMDFull       Kind = "pmd"             // a polling thread of Open vSwitch has no time left
	PMDShared     Kind = "pmd-shared"      // something else takes a polling thread's CPU
	PMDImbalance  Kind = "pmd-imbalance"   // one polling thread is full and another idle
	VhostUserRing Kind = "vhost-user-ring" // a guest does not empty the ring that it shares
	Mbufs         Kind = "mbufs"           // no packet buffer is free

	TunnelQueue  Kind = "tunnel-queue"   // a tunnel with one transmit queue, and a lock around it
	TunnelOneCPU Kind = "tunnel-one-cpu" // one CPU takes all packets out of a tunnel
	TunnelCost   Kind = "tunnel-cost"    // encapsulation takes the CPU's time
	QueueLock    Kind = "queue-lock"     // CPUs wait for each other's lock of a transmit queue or queue discipline
	RateLimit    Kind = "rate-limit"     // a queue discipline limits the rate
	Policer      Kind = "policer"        // a filter drops what is above a rate
	QdiscLimit   Kind = "qdisc-limit"    // a queue discipline's queue is too short

	Dropped     Kind = "dropped"      // the kernel drops them for a reason that it gives
	DeviceDrops Kind = "device-drops" // a device refuses them
	Unaccounted Kind = "unaccounted"  // they are gone, and nothing tells where

	TapQueue  Kind = "tap-queue"  // the tap's queue is too short for bursts
	TapReader Kind = "tap-reader" // the program behind a tap does not read fast enough

	VhostShared    Kind = "vhost-shared"     // vhost threads wait for each other on one CPU
	IRQBesideVhost Kind = "irq-beside-vhost" // interrupts of NICs take a vhost thread's CPU
	CPUHog         Kind = "cpu-hog"          // something else takes the CPU of a thread on the path
	WrongNode      Kind = "wrong-node"       // threads or memory are on another NUMA node
	NoVhost        Kind = "no-vhost"         // QEMU carries the packets itself
	Vhost          Kind = "vhost"            // a vhost thread has no time left

	GuestQuota   Kind = "guest-quota"   // the guest's cgroup is throttled
	GuestDown    Kind = "guest-down"    // the guest receives no packets at all
	VCPUShared   Kind = "vcpu-shared"   // vCPUs wait for each other, or for vhost threads
	GuestIRQ     Kind = "guest-irq"     // inside the guest one vCPU serves all queues
	GuestCPU     Kind = "guest-cpu"     // the guest's CPUs have no time left
	GuestSocket  Kind = "guest-socket"  // the application in the guest does not read fast enough
	CPUExhausted Kind = "cpu-exhausted" // no CPU of the host has time left
	Steal        Kind = "steal"         // the host is a guest itself, and its hypervisor takes its CPUs away

	Socket       Kind = "socket"        // the application does not read fast enough
	SocketBuffer Kind = "socket-buffer" // its buffer is too short for bursts
	Receiver     Kind = "receiver"      // the measurement's own receiver does not read fast enough
)

// level is the sort of cause. Of two suspects at the same place, the lower level explains the higher: a throttled guest
// has a busy vCPU, and a full tap queue before it.
type level int

const (
	byLimit  level = iota // a configured limit, or one of the hardware
	byOthers              // the CPU goes to others
	byCost                // each packet costs too much, or all take one queue or CPU
	byUse                 // the stage's own work
	byBuffer              // CPU time is left: the queue before the stage is too short
	byEnds                // the generator or receiver of the measurement, not the path
)

// Meaning describes a kind.
type Meaning struct {
	Kind   Kind
	Stage  string // where it acts, unless the bottleneck names another
	Title  string
	Seen   string // how it is recognised
	Advice string
	Knobs  []string // IDs of the catalogue, the likeliest to help first
	Ends   bool     // the generator or the receiver is the limit, not the path (exit code 5)

	level level
	// it takes a share of what comes, however much that is; the others let only so much pass
	steady bool
}

// About returns the meaning of a kind; the zero value for an unknown one.
func About(k Kind) Meaning {
	if m := facts.Find(meanings, func(m *Meaning) bool { return m.Kind == k }); m != nil {
		return *m
	}
	return Meaning{}
}

// StageNames returns the values of Stage.Name and Bottleneck.Stage in path order.
func StageNames() []string {
	return []string{"generator", "nic", "softirq", "netfilter", "routing", "bridge", "overlay", "qdisc", "tap",
		"vhost", "vcpu", "guest", "socket", "receiver"}
}

// meanings has all kinds in path order.
var meanings = []Meaning{
	{Kind: Generator, Stage: "generator", level: byEnds, Ends: true, Title: "the generator is the limit",
		Seen: "pktgen's or mpps's thread has a full CPU, waits for one, or its cgroup is held back, and nothing " +
			"after it loses packets",
		Advice: "send from more CPUs, with another generator, or take away what holds it back; the result says " +
			"nothing about the path"},

	{Kind: LineRate, Stage: "nic", level: byLimit, Title: "the wire is full",
		Seen:   "bytes with preamble and gap are at least 95 % of the speed that the NIC reports",
		Advice: "larger frames, a second port, or a faster NIC: no setting helps", Knobs: []string{"pci.link"}},
	{Kind: PCIeLink, Stage: "nic", level: byLimit, Title: "the NIC's PCIe link is full",
		Seen:   "bytes and descriptors are at least 85 % of what the link's speed and lanes carry",
		Advice: "put the NIC into a slot with more lanes or of a later generation",
		Knobs:  []string{"pci.link", "boot.aspm"}},
	{Kind: PauseFrames, Stage: "nic", level: byLimit, Title: "the switch asks the NIC to wait",
		Seen: "at least 100 pause frames a second were received",
		Advice: "look for the slow port behind the switch, or turn flow control off where loss is preferred to " +
			"waiting"},
	{Kind: LinkErrors, Stage: "nic", level: byLimit, steady: true, Title: "frames arrive damaged",
		Seen:   "rx_crc_errors and the like grow",
		Advice: "replace cable, transceiver or port: no setting helps"},
	{Kind: VFRate, Stage: "nic", level: byLimit, Title: "a virtual function's rate limit is reached",
		Seen:   "the function's interface, on the host or in its guest, sends at 85 to 110 % of its max_tx_rate",
		Advice: "raise or take away the limit of the function", Knobs: []string{"sriov.vf.rate"}},
	{Kind: RxRing, Stage: "nic", level: byBuffer, Title: "receive descriptors run out",
		Seen:   "rx_missed_errors and the like grow while the CPUs that serve the NIC have time",
		Advice: "a longer receive ring, and interrupts that come earlier",
		Knobs:  []string{"nic.ring.rx", "nic.coalesce", "nic.channels", "cpu.latency"}},

	{Kind: OneQueue, Stage: "nic", level: byCost, Title: "one queue for all packets",
		Seen: "one receive queue whose CPU is full while others idle; a guest of several vCPUs with one vhost " +
			"thread that is full",
		Advice: "more queues, and a CPU for each", Knobs: []string{"nic.channels", "domain.queues", "guest.channels",
			"nic.irq_affinity", "vhost.threads"}},
	{Kind: QueueImbalance, Stage: "nic", level: byCost, Title: "one of several queues has nearly all packets",
		Seen: "of several queues one has at least 95 % of the packets and its CPU is full; of several vhost " +
			"threads one is full and the others are below 15 %",
		Advice: "hash ports too, so that flows spread over the queues; a single flow always stays on one",
		Knobs:  []string{"nic.flow_hash.udp4", "nic.flow_hash.udp6", "nic.xps", "guest.xps", "nic.rps"}},
	{Kind: IRQOneCPU, Stage: "softirq", level: byCost, Title: "one CPU serves all queues",
		Seen:   "several queues have packets and all of them come to one CPU, which is full while others idle",
		Advice: "a CPU for each queue's interrupt", Knobs: []string{"nic.irq_affinity", "nic.irqbalance",
			"nic.channels"}},
	{Kind: RPS, Stage: "softirq", level: byCost, Title: "software steering overloads a CPU",
		Seen:   "most packets of a full CPU were steered there (received_rps)",
		Advice: "no RPS where the NIC has queues; else over more CPUs", Knobs: []string{"nic.rps", "nic.channels",
			"softirq.backlog"}},
	{Kind: Backlog, Stage: "softirq", level: byBuffer, Title: "the queue of received packets is too short",
		Seen:   "softnet's dropped grows, and netdev_max_backlog is short or the CPU has time",
		Advice: "a longer backlog", Knobs: []string{"softirq.backlog", "nic.rps"}},
	{Kind: Budget, Stage: "softirq", level: byCost, Title: "rounds of the softirq end too early",
		Seen: "netdev_budget is below 150, time_squeeze grows with at least half of the rounds, and packets are lost " +
			"meanwhile",
		Advice: "more packets and time for each round", Knobs: []string{"softirq.budget", "softirq.budget_usecs"}},
	{Kind: Capture, Stage: "softirq", level: byCost, Title: "somebody takes a copy of every packet",
		Seen:   "packet_rcv or tpacket_rcv take at least 12 % of a full CPU (profile)",
		Advice: "end the capture, or give it a filter and one interface that is not on the path"},
	{Kind: BPFPrograms, Stage: "softirq", level: byCost, Title: "BPF programs take the CPU's time",
		Seen: "programs at XDP, tc or elsewhere on the way of packets take at least 35 % of a full CPU's packet " +
			"time, and more than rules (profile)",
		Advice: "see what the program does for each packet, or take it from this path: bpftool net, bpftool prog " +
			"profile; run_time_ns of bpftool prog show while kernel.bpf_stats_enabled is 1"},
	{Kind: Softirq, Stage: "softirq", level: byUse, Title: "a CPU has no time left for forwarding",
		Seen:   "at most 7 % of a CPU is left, at least 40 % of it is softirq, and none of the other reasons is there",
		Advice: "more queues on more CPUs, and less work for each packet",
		Knobs: []string{"nic.channels", "nic.irq_affinity", "nic.xps", "nic.offload.gro", "boot.mitigations",
			"sriov.attach"}},

	{Kind: NetfilterRules, Stage: "netfilter", level: byCost, Title: "packets run through too many rules",
		Seen: "netfilter's functions take at least a quarter of a full CPU (profile); without one, from the number " +
			"of rules",
		Advice: "let bridged frames skip the rules, or put what they match into a set",
		Knobs:  []string{"netfilter.bridge", "netfilter.nflog_skip", "netfilter.bypass"}},
	{Kind: NetfilterHooks, Stage: "netfilter", level: byCost, Title: "packets pass hooks without rules",
		Seen:   "the same, and there are no rules: the cost is that of the hooks themselves",
		Advice: "let bridged frames skip the hooks, or remove chains and tables that have no rules",
		Knobs:  []string{"netfilter.bridge", "netfilter.bypass"}},
	{Kind: EbtablesRules, Stage: "netfilter", level: byCost, Title: "packets run through too many rules of the bridge",
		Seen:   "the same, in the bridge's own tables",
		Advice: "fewer rules, or one with a set in their place", Knobs: []string{"netfilter.bypass"}},
	{Kind: Conntrack, Stage: "netfilter", level: byCost, Title: "connections are tracked",
		Seen:   "connection tracking takes at least 12 % of a full CPU and more than the rules (profile)",
		Advice: "exempt the guests' packets from tracking", Knobs: []string{"netfilter.conntrack", "netfilter.bridge",
			"netfilter.bypass"}},
	{Kind: ConntrackFull, Stage: "netfilter", level: byLimit, Title: "the table of connections is full",
		Seen: "it turns packets away: drop or chainlength of /proc/net/stat/nf_conntrack grows; or it is full and " +
			"early_drop grows by at least 5 % of the packets",
		Advice: "a larger table (net.netfilter.nf_conntrack_max), shorter timeouts, or exempt the guests' packets " +
			"from tracking",
		Knobs: []string{"netfilter.conntrack_max", "netfilter.conntrack_buckets", "netfilter.conntrack"}},
	{Kind: NATPorts, Stage: "netfilter", level: byLimit, Title: "NAT has no free port",
		Seen: "new connections clash with others: insert_failed and drop of /proc/net/stat/nf_conntrack grow",
		Advice: "a wider range of ports or more addresses in the NAT rule (masquerade to, snat to), shorter timeouts " +
			"(net.netfilter.nf_conntrack_udp_timeout), or guests that are routed without NAT"},
	{Kind: DroppedByRule, Stage: "netfilter", level: byLimit, steady: true, Title: "a rule drops the packets",
		Seen:   "at least 1 % of the packets end in netfilter (tracepoint)",
		Advice: "if that is not meant: find the rule by its counter and change it"},

	{Kind: ReversePath, Stage: "routing", level: byLimit, steady: true,
		Title:  "the reverse path filter refuses the packets",
		Seen:   "IP_RPFILTER (tracepoint), or IPReversePathFilter of /proc/net/netstat grows",
		Advice: "a route to the source by the device that they come from, or rp_filter 2 there",
		Knobs:  []string{"route.rp_filter"}},
	{Kind: NoRoute, Stage: "routing", level: byLimit, steady: true, Title: "no route leads to where the packets go",
		Seen: "IP_INNOROUTES or IP_OUTNOROUTES (tracepoint), or InNoRoutes of /proc/net/netstat, OutNoRoutes of " +
			"/proc/net/snmp or Ip6InNoRoutes of /proc/net/snmp6 grows",
		Advice: "add the route: ip route get ADDRESS"},
	{Kind: RouteRefuses, Stage: "routing", level: byLimit, steady: true,
		Title: "a route says that the packets end here",
		Seen: "they are dropped in ip_error, dst_discard or ip6_pkt_prohibit (tracepoint): blackhole, unreachable or " +
			"prohibit, of a route or a policy rule",
		Advice: "if that is not meant: ip route get ADDRESS from SOURCE iif DEVICE, ip rule show"},
	{Kind: NotForwarded, Stage: "routing", level: byLimit, steady: true, Title: "the device does not forward",
		Seen: "IP_INADDRERRORS (tracepoint), InAddrErrors of /proc/net/snmp or Ip6InAddrErrors of " +
			"/proc/net/snmp6 grows",
		Advice: "set forwarding of the device that they come by, or correct their destination",
		Knobs:  []string{"route.forwarding"}},
	{Kind: NeighboursFull, Stage: "routing", level: byLimit, Title: "the table of neighbours is full",
		Seen:   "NEIGH_CREATEFAIL (tracepoint), or table_fulls of /proc/net/stat/arp_cache or ndisc_cache grows",
		Advice: "higher thresholds; the table is one for all network namespaces", Knobs: []string{"route.neighbours"}},
	{Kind: NextHop, Stage: "routing", level: byLimit, steady: true, Title: "the next hop does not answer",
		Seen: "NEIGH_FAILED or NEIGH_QUEUEFULL (tracepoint), or unresolved_discards of /proc/net/stat/arp_cache or " +
			"ndisc_cache grows",
		Advice: "see whether the next hop is up, in the same network, and its address right: ip neigh show"},

	{Kind: OVSUpcalls, Stage: "bridge", level: byLimit, Title: "upcalls of Open vSwitch are lost",
		Seen: "lost of the kernel's datapath grows (OVS_DP_ATTR_STATS)",
		Advice: "fewer packets without a flow: rules that match fewer fields, a longer max-idle; handler threads " +
			"with CPU time",
		Knobs: []string{"ovs.upcalls", "ovs.handlers", "ovs.max_idle", "ovs.flow_limit"}},
	{Kind: OVSMasks, Stage: "bridge", level: byCost, Title: "Open vSwitch tries many masks for each packet",
		Seen: "at least 10 masks tried for a packet (OVS_DP_ATTR_MEGAFLOW_STATS), and the datapath takes at least " +
			"35 % of a full CPU (profile); without one, from the packets and masks",
		Advice: "rules that match fewer combinations of fields; a larger cache of masks: ovs-appctl " +
			"dpctl/cache-set-size",
		Knobs: []string{"ovs.masks", "ovs.offload"}},
	{Kind: OVSPolicer, Stage: "bridge", level: byLimit, steady: true, Title: "a policer of Open vSwitch drops",
		Seen:   "a filter at ingress drops on a port with ingress_policing_rate",
		Advice: "a higher rate or a larger burst, if the site allows it", Knobs: []string{"ovs.policing"}},

	{Kind: PMDFull, Stage: "bridge", level: byUse, Title: "a polling thread of Open vSwitch has no time left",
		Seen: "at least 92 % of its cycles are spent on packets (pmd-stats-show)",
		Advice: "another CPU for polling, more receive queues for it (n_rxq), or fewer cycles a packet: caches and " +
			"flows that match fewer fields",
		Knobs: []string{"ovs.pmd_cpus", "ovs.pmd_balance"}},
	{Kind: PMDShared, Stage: "bridge", level: byOthers,
		Title: "something else takes the CPU of a polling thread of Open vSwitch",
		Seen:  "the thread is ready all the time and without its CPU for at least 10 % of it",
		Advice: "dedicated CPUs for polling threads: isolated, without vCPUs, their emulators and the host's own " +
			"work",
		Knobs: []string{"ovs.pmd_cpus", "domain.vcpupin", "domain.emulatorpin", "boot.isolcpus"}},
	{Kind: PMDImbalance, Stage: "bridge", level: byOthers,
		Title: "one polling thread of Open vSwitch is full, another has time left",
		Seen: "at least 92 % of the cycles of a thread with several busy queues are spent on packets, and less than " +
			"half of another one's on the same NUMA node",
		Advice: "let Open vSwitch move queues: pmd-auto-lb, or once by ovs-appctl dpif-netdev/pmd-rxq-rebalance",
		Knobs:  []string{"ovs.pmd_balance"}},
	{Kind: VhostUserRing, Stage: "vhost", level: byBuffer,
		Title: "a guest does not empty its vhost-user ring",
		Seen:  "TX dropped of the guest's port grows (dpctl/show -s)",
		Advice: "CPUs for the guest's driver that nothing else uses, a ring of 1024 descriptors, more queues, " +
			"or more retries (options:tx-retries-max)",
		Knobs: []string{"ovs.vhost_drops", "domain.rx_queue_size", "domain.vcpupin"}},
	{Kind: Mbufs, Stage: "bridge", level: byLimit, Title: "no packet buffer is free",
		Seen: "less than 2 % of a pool is free, and ports of DPDK drop what arrives (get-mempool-info, dpctl/show -s)",
		Advice: "memory of the ports' nodes for more buffers (dpdk-socket-mem), shorter rings of ports (n_rxq_desc), " +
			"and guests that give buffers back",
		Knobs: []string{"ovs.mbufs"}},

	{Kind: TunnelQueue, Stage: "overlay", level: byCost, Title: "a tunnel with one queue",
		Seen:   "waits for a lock, and most packets go through a tunnel with one transmit queue",
		Advice: "a tunnel device with as many queues as the NIC, or without a lock, and packets that keep their queue",
		Knobs:  []string{"overlay.queues", "overlay.queue_mapping"}},
	{Kind: TunnelOneCPU, Stage: "overlay", level: byCost, Title: "one CPU takes all packets out of a tunnel",
		Seen: "at least 90 % of the packets are received on one CPU, which is full, and at least half of them come " +
			"out of a tunnel",
		Advice: "outer packets from many source ports (the far end's range), hashed by ports, over more queues or by " +
			"RPS", Knobs: []string{"nic.flow_hash.udp4", "nic.flow_hash.udp6", "nic.rps", "nic.channels",
			"nic.irq_affinity"}},
	{Kind: TunnelCost, Stage: "overlay", level: byCost, Title: "encapsulation takes the CPU's time",
		Seen: "encapsulation takes at least 15 % of a full CPU (profile); without one, from the packets of the " +
			"tunnel",
		Advice: "let the NIC do it, spread it over more CPUs, or do without",
		Knobs:  []string{"nic.offload.tunnel", "overlay.queues", "overlay.queue_mapping", "nic.flow_hash.udp4"}},
	{Kind: QueueLock, Stage: "qdisc", level: byCost, Title: "CPUs wait for each other at one transmit queue",
		Seen:   "at least 12 % of a CPU waits for the lock of a transmit queue or queue discipline",
		Advice: "a transmit queue for each CPU that sends", Knobs: []string{"nic.xps", "overlay.queue_mapping",
			"nic.channels", "overlay.queues"}},
	{Kind: RateLimit, Stage: "qdisc", level: byLimit, Title: "a queue discipline limits the rate",
		Seen: "a queue discipline passes at least 85 % of the rate that it is set to and holds packets back; " +
			"without a rate, a shaper is over its limit and loses packets; a tbf loses packets that are longer than " +
			"its burst",
		Advice: "raise or take away the limit: tc qdisc show"},
	{Kind: Policer, Stage: "qdisc", level: byLimit, steady: true, Title: "a filter drops what is above a rate",
		Seen:   "a filter at ingress or egress drops",
		Advice: "raise or take away the policer: tc filter show"},
	{Kind: QdiscLimit, Stage: "qdisc", level: byBuffer, Title: "a queue discipline's queue is too short",
		Seen:   "a queue discipline that limits no rate drops",
		Advice: "a longer transmit queue", Knobs: []string{"nic.txqueuelen", "nic.xps"}},

	{Kind: Dropped, Stage: "softirq", level: byLimit, steady: true,
		Title: "the kernel drops the packets for a reason",
		Seen: "at least 0.5 % of the packets are freed for a reason of the kernel (tracepoint; without one, " +
			"FragFails and InHdrErrors of /proc/net/snmp), or by an XDP program (its driver's counter)",
		Advice: "by reason"},
	{Kind: DeviceDrops, Stage: "qdisc", level: byBuffer, Title: "a device refuses the packets",
		Seen:   "tx_dropped of a veth, tunnel or NIC grows, or rx_dropped of a veth, and the CPUs have time",
		Advice: "see whether its other end is up and has time for them"},
	{Kind: Unaccounted, Stage: "softirq", level: byBuffer, steady: true, Title: "packets are missing",
		Seen: "of what came into a network namespace at least 5 % neither went out nor reached a program, and no " +
			"counter or drop reason tells where they are",
		Advice: "see whether a macvlan, AF_XDP or packet socket takes them; else watch longer, as root, on a kernel " +
			"with BTF, and look at the driver's counters: ethtool -S"},

	{Kind: TapQueue, Stage: "tap", level: byBuffer, Title: "the tap's queue is too short",
		Seen:   "the tap's tx_dropped grows while the guest's vhost threads and vCPUs have time",
		Advice: "a longer tap queue and vring", Knobs: []string{"nic.txqueuelen", "domain.rx_queue_size",
			"domain.coalesce", "domain.queues"}},
	{Kind: TapReader, Stage: "tap", level: byUse, Title: "the program behind the tap does not read fast enough",
		Seen: "tx_dropped of a tap or rx_dropped of a macvtap grows, and the program that has it open has a full CPU " +
			"or sleeps, or all that is lost is what one of its queues had",
		Advice: "a faster program, more of its threads, or several queues (IFF_MULTI_QUEUE)"},

	{Kind: VhostShared, Stage: "vhost", level: byOthers, Title: "vhost threads share a CPU",
		Seen: "a vhost thread is ready all the time and without a CPU for at least 10 % of it, and another one " +
			"uses that CPU",
		Advice: "a CPU for each vhost thread", Knobs: []string{"vhost.threads", "vhost.budget", "domain.emulatorpin"}},
	{Kind: IRQBesideVhost, Stage: "vhost", level: byOthers, Title: "interrupts take the CPU of a vhost thread",
		Seen:   "a vhost thread's CPU is full, and at least 30 % of it are softirqs of a NIC that interrupts there",
		Advice: "interrupts of NICs on CPUs without vhost threads", Knobs: []string{"nic.irq_affinity", "vhost.threads",
			"nic.irqbalance"}},
	{Kind: CPUHog, Stage: "vhost", level: byOthers, Title: "something else takes the CPU",
		Seen: "a thread of the path is ready all the time and without a CPU for at least 10 % of it, and something " +
			"else uses that CPU",
		Advice: "another CPU for one of the two", Knobs: []string{"vhost.threads", "domain.vcpupin",
			"domain.emulatorpin", "placement.reserve", "boot.isolcpus"}},
	{Kind: WrongNode, Stage: "vhost", level: byCost, Title: "the other NUMA node",
		Seen: "a guest's vhost threads are full or its tap loses packets, and 80 % of their time is on another " +
			"node than its memory or NIC",
		Advice: "NIC, vhost threads, vCPUs and memory on one node", Knobs: []string{"vhost.threads", "domain.vcpupin",
			"domain.numatune", "nic.numa", "nic.irq_affinity"}},
	{Kind: NoVhost, Stage: "vhost", level: byCost, Title: "QEMU carries the packets itself",
		Seen: "the guest has a tap and no vhost thread, and QEMU's main thread is full, or its NIC is no virtio " +
			"(e1000, rtl8139 …) and the tap loses packets",
		Advice: "a virtio NIC with vhost", Knobs: []string{"domain.nic_model", "domain.backend"}},
	{Kind: Vhost, Stage: "vhost", level: byUse, Title: "a vhost thread has no time left",
		Seen:   "a vhost thread has used at least 90 % of its CPU, while vCPUs have time",
		Advice: "fewer vCPUs, more queues and vhost CPUs", Knobs: []string{"domain.queues", "vhost.threads",
			"vhost.budget", "domain.coalesce", "nic.offload.segmentation", "sriov.attach"}},

	{Kind: GuestQuota, Stage: "vcpu", level: byLimit, Title: "the guest's cgroup is held back",
		Seen:   "a thread of the guest was throttled for at least 5 % of the time (cpu.stat)",
		Advice: "raise or take away the quota (virsh schedinfo)", Knobs: []string{"placement.overcommit"}},
	{Kind: GuestDown, Stage: "guest", level: byLimit, Title: "the guest takes no packets",
		Seen:   "every packet to its tap is lost",
		Advice: "see whether the guest runs and its NIC is up inside"},
	{Kind: VCPUShared, Stage: "vcpu", level: byOthers, Title: "vCPUs share a CPU",
		Seen: "a vCPU is ready all the time and without a CPU for at least 10 % of it, and a vCPU or vhost thread " +
			"uses that CPU",
		Advice: "a CPU for each vCPU, none with a vhost thread",
		Knobs:  []string{"domain.vcpupin", "placement.overcommit", "vhost.threads", "placement.siblings"}},
	{Kind: GuestIRQ, Stage: "guest", level: byCost, Title: "inside the guest one vCPU serves all queues",
		Seen: "inside, one vCPU has 85 % of the interrupts and is full; from outside, packets come by several " +
			"queues and one vCPU is full",
		Advice: "irqbalance in the guest, or a vCPU for each queue's interrupt",
		Knobs:  []string{"guest.irqbalance", "guest.channels", "domain.queues", "guest.xps"}},
	{Kind: GuestCPU, Stage: "guest", level: byUse, Title: "the guest's CPUs have no time left",
		Seen:   "a vCPU is full, halt polling left out, and the tap loses packets or the guest sends",
		Advice: "more or faster vCPUs, or less work for each packet in the guest",
		Knobs: []string{"domain.queues", "guest.channels", "guest.irqbalance", "guest.mitigations", "guest.kernel",
			"kvm.halt_poll_ns", "domain.cpu_model", "domain.vcpupin"}},
	{Kind: GuestSocket, Stage: "socket", level: byUse, Title: "the application in the guest does not read fast enough",
		Seen:   "receive buffers inside overflow (agent)",
		Advice: "a faster application, more of its threads, or a longer receive buffer"},
	{Kind: CPUExhausted, Stage: "vcpu", level: byOthers, Title: "no CPU of the host has time left",
		Seen:   "every CPU is full, and threads of guests wait",
		Advice: "fewer guests or vCPUs on this host", Knobs: []string{"placement.overcommit", "placement.reserve",
			"vhost.budget"}},
	{Kind: Steal, Stage: "vcpu", level: byOthers, Title: "the host's own CPUs are taken away",
		Seen:   "at least 20 % of a full CPU is stolen, and nothing else is there",
		Advice: "this host is a guest: its hypervisor gives the CPUs to others"},

	{Kind: Socket, Stage: "socket", level: byUse, Title: "the application does not read fast enough",
		Seen: "UDP receive buffers overflow, and the reader has a full CPU, is held back, or leaves them full; or " +
			"windows of TCP close (TCPToZeroWindowAdv), and a receive queue is at least half full at the end; or " +
			"requests for connections are dropped (ListenDrops); or a raw socket loses what is for its protocol; or, " +
			"where nothing else passes, nothing was read from a full one",
		Advice: "a faster application, or more of its threads"},
	{Kind: SocketBuffer, Stage: "socket", level: byBuffer, Title: "the socket's buffer is too short",
		Seen: "they overflow, and are empty at the end; or one of TCP that a program asked for is as short as what " +
			"comes in a round trip",
		Advice: "a longer receive buffer (SO_RCVBUF, net.core.rmem_max)"},
	{Kind: Receiver, Stage: "receiver", level: byEnds, Ends: true,
		Title:  "the receiver of the measurement is the limit",
		Seen:   "the socket that overflows is mpps's own",
		Advice: "another kind of receiver, or more CPU time for it; the result says nothing about the path"},
}
