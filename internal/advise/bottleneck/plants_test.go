package bottleneck

import (
	"slices"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// plant puts a bottleneck into a healthy scene, with its symptoms up and down the path.
type plant struct {
	name  string
	kind  Kind
	make  func(*scene)
	blind bool // visible by counters alone too
}

var plants = slices.Concat(ovsPlants, pmdPlants, endPlants, []plant{
	{"vhost threads have nothing left", Vhost, func(s *scene) {
		s.offered = 4.2e6 + 1e6*s.Float64()
		s.taken = 3.55e6
		s.flow()
	}, true},
	{"one vhost thread of several, the founding example", Vhost, func(s *scene) {
		s.offered, s.taken = 2.1e6, 1.9e6
		s.flow()
		s.run(s.vhost(3), 0.99)
	}, true},
	{"vhost threads on one CPU", VhostShared, func(s *scene) {
		s.offered, s.taken = 1.6e6, 0.85e6
		s.flow()
		for i := range queues {
			t := s.vhost(i)
			t.CPU, t.Affinity = 4, setting.CPUs(4)
			t.Ran, t.Waited = s.noisy(0.245), s.noisy(0.72)
			s.cpu(4+i, facts.CPULoad{})
		}
		s.cpu(4, facts.CPULoad{System: 0.99})
	}, true},
	{"a hog beside a vhost thread", CPUHog, func(s *scene) {
		s.offered = 2.4e6
		s.taken = s.offered * 0.92
		s.flow()
		t := s.vhost(1)
		t.Ran, t.Waited = s.noisy(0.5), s.noisy(0.45)
		s.hog(5, 0.48)
		s.cpu(5, facts.CPULoad{System: 0.5, User: 0.48})
		s.l.Delays = append(s.l.Delays, facts.WakeDelay{TID: t.TID, Waits: 4000, P50: 900, P99: 3900, Max: 8000,
			Over: "stress-ng-cpu"})
	}, true},
	{"a hog beside a vCPU", CPUHog, func(s *scene) {
		s.offered = 2.4e6
		s.taken = s.offered * 0.9
		s.flow()
		t := s.vcpu(2)
		t.HaltPoll, t.Ran, t.Waited = 0, s.noisy(0.5), s.noisy(0.45)
		s.hog(10, 0.48)
		s.cpu(10, facts.CPULoad{Guest: 0.5, User: 0.48})
	}, true},
	{"interrupts on the vhost threads' CPUs", IRQBesideVhost, func(s *scene) {
		s.offered, s.taken = 3.4e6, 2.2e6
		s.flow()
		eth := s.dev("eth0")
		for i := range queues {
			eth.Queues[2*i].CPUs = setting.CPUs(4 + i)
			s.cpu(i, facts.CPULoad{})
			t := s.vhost(i)
			t.Ran = 0.985
			s.cpu(4+i, facts.CPULoad{System: 0.55, Softirq: s.noisy(0.43)})
			s.l.Softnet[i], s.l.Softnet[4+i] = facts.Softnet{CPU: i},
				facts.Softnet{CPU: 4 + i, Processed: eth.RxPackets / queues}
		}
		s.l.Profile = nil
	}, true},
	{"a guest with one queue", OneQueue, func(s *scene) {
		s.offered, s.taken = 1.2e6+0.6e6*s.Float64(), 0.88e6
		s.flow()
		s.oneVhost(0, true)
		s.h.Guests[0].Interfaces[0].Queues = 1
	}, true},
	{"one of the guest's queues has it all", QueueImbalance, func(s *scene) {
		s.offered, s.taken = 1.3e6, 0.88e6
		s.flow()
		s.oneVhost(2, false)
	}, true},
	{"a slow guest by quota", GuestQuota, func(s *scene) {
		s.offered = 0.6e6 + 1e6*s.Float64()
		s.taken = s.offered * (0.2 + 0.5*s.Float64())
		s.flow()
		for i := range queues {
			t := s.vcpu(i)
			t.Quota, t.Throttle = 1.5, 0.2+0.5*s.Float64()
			t.Waited = 0.05
		}
	}, true},
	{"a slow guest", GuestCPU, func(s *scene) {
		s.offered, s.taken = 2.6e6, 1.5e6
		s.flow()
		for i := range queues {
			s.run(s.vcpu(i), 0.99)
			s.vcpu(i).HaltPoll = 0
		}
	}, true},
	{"a guest without irqbalance, from outside", GuestIRQ, func(s *scene) {
		s.offered, s.taken = 1.6e6, 1.05e6
		s.flow()
		for i := range queues {
			s.run(s.vcpu(i), 0.08)
		}
		s.run(s.vcpu(0), 0.99)
		s.vcpu(0).HaltPoll = 0
	}, true},
	{"a guest without irqbalance, from inside", GuestIRQ, func(s *scene) {
		s.offered, s.taken = 1.6e6, 1.05e6
		s.flow()
		for i := range queues {
			s.run(s.vcpu(i), 0.08)
		}
		s.run(s.vcpu(0), 0.99)
		s.vcpu(0).HaltPoll = 0
		g := s.inside()
		g.CPUs[0] = facts.CPULoad{CPU: 0, Softirq: 0.93, System: 0.05, Idle: 0.02}
		g.IRQs = []map[int]uint64{{0: 40000}, {0: 41000}, {0: 39000, 1: 20}, {0: 40100}}
		g.Service = map[string]bool{"irqbalance": false}
	}, true},
	{"a slow application in the guest", GuestSocket, func(s *scene) {
		s.offered, s.taken = 0.9e6, 0.9e6
		s.flow()
		g := s.inside()
		g.CPUs[2] = facts.CPULoad{CPU: 2, User: 0.6, System: 0.38, Idle: 0.02}
		g.Sockets = facts.SocketLoad{UDPIn: s.count(0.3e6), ReceiveBuffer: s.count(0.6e6), Queued: 0.98}
	}, true},
	{"a guest whose NIC is down", GuestDown, func(s *scene) {
		s.taken = 0
		s.flow()
		s.dev("vnet0").TxPackets = 0
	}, true},
	{"two guests' vCPUs on the same CPUs", VCPUShared, func(s *scene) {
		s.offered, s.taken = 2.6e6, 1.7e6
		s.flow()
		for i := range queues {
			t := s.vcpu(i)
			t.HaltPoll, t.Ran, t.Waited = 0, s.noisy(0.5), s.noisy(0.46)
			s.l.Threads = append(s.l.Threads, facts.ThreadLoad{PID: 2200, TID: 2205 + i, Comm: "CPU 0/KVM",
				Role: "vcpu", Guest: "vm2", VCPU: i, Queue: -1, CPU: 8 + i, Affinity: setting.CPUs(8 + i),
				Ran: s.noisy(0.48), Waited: 0.48})
			s.cpu(8+i, facts.CPULoad{Guest: 0.98})
		}
	}, true},
	{"nothing left on the whole host", CPUExhausted, func(s *scene) {
		s.offered, s.taken = 2.2e6, 1.2e6
		s.flow()
		s.crowd()
	}, true},
	{"the vhost threads are on the other node", WrongNode, func(s *scene) {
		s.offered, s.taken = 3.6e6, 2.9e6
		s.flow()
		for i := range queues {
			s.cpu(4+i, facts.CPULoad{})
			t := s.vhost(i)
			t.CPU, t.Affinity, t.Node = 12+i, setting.CPUs(12+i), 1
			s.run(t, 0.985)
			s.vcpu(i).Node = 1
			s.vcpu(i).Memory = map[int]uint64{0: 8 << 30, 1: 100 << 20}
		}
	}, true},
	{"QEMU carries the packets", NoVhost, func(s *scene) {
		s.offered, s.taken = 0.3e6, 0.06e6
		s.flow()
		s.l.Threads = s.l.Threads[queues:]
		for i := range s.l.Threads {
			if t := &s.l.Threads[i]; t.Role == "emulator" {
				t.Ran = s.noisy(0.98)
				s.cpu(t.CPU, facts.CPULoad{User: 0.6, System: 0.38})
			}
		}
	}, true},
	{"the tap's queue is tiny", TapQueue, func(s *scene) {
		s.taken = s.offered * (0.7 + 0.28*s.Float64())
		s.flow()
		s.h.Taps[0].TxQueueLen = 10
	}, true},
	{"the ring is tiny", RxRing, func(s *scene) {
		s.ring(0.02 + 0.2*s.Float64())
		s.h.NICs[0].Rings.Rx = 64
	}, true},
	{"the backlog is tiny", Backlog, func(s *scene) {
		s.h.Readings[maxBacklog] = setting.Value("8")
		for i := range queues {
			s.l.Softnet[i].Dropped = s.l.Softnet[i].Processed / 12
		}
		s.l.Drops = append(s.l.Drops, facts.DropSite{Reason: "CPU_BACKLOG", Symbol: "enqueue_to_backlog",
			Packets: s.count(s.offered / 12)})
	}, true},
	{"the budget is tiny", Budget, func(s *scene) {
		s.h.Readings[netdevBudget] = setting.Value("4")
		s.ring(0.1)
		for i := range queues {
			s.l.Softnet[i].Squeezed = s.l.Softnet[i].Processed / 5
			s.cpu(i, facts.CPULoad{Softirq: 0.99})
		}
		s.l.Profile = nil
	}, true},
	{"1000 rules of netfilter", NetfilterRules, func(s *scene) {
		s.h.Netfilter = facts.Netfilter{BridgeModule: true,
			Rules: []facts.RuleSet{{Tool: "nft", Rules: 1000,
				Lines: repeated("ip filter FORWARD ip saddr 10.0.0.1 drop", 1000)}}}
		s.h.Bridges[0].CallIPTables = true
		s.costly(map[string]float64{"netfilter": 0.82, "driver": 0.1, "bridge": 0.08}, 0.6)
	}, true},
	{"100 rules of ebtables", EbtablesRules, func(s *scene) {
		s.h.Netfilter = facts.Netfilter{Rules: []facts.RuleSet{{Tool: "nft", Rules: 100,
			Lines: repeated("bridge filter FORWARD ether saddr 02:00:00:00:00:01 drop", 100)}}}
		s.costly(map[string]float64{"netfilter": 0.8, "driver": 0.1, "bridge": 0.1}, 0.6)
	}, true},
	{"conntrack", Conntrack, func(s *scene) {
		s.h.Netfilter = facts.Netfilter{BridgeModule: true, Conntrack: true,
			Rules: []facts.RuleSet{{Tool: "nft", Rules: 2,
				Lines: []string{"ip filter FORWARD ct state established accept", "ip filter FORWARD accept"}}}}
		s.h.Bridges[0].CallIPTables = true
		s.costly(map[string]float64{"conntrack": 0.3, "netfilter": 0.15, "driver": 0.3, "bridge": 0.25}, 0.2)
	}, false},
	{"a tunnel with one queue", TunnelQueue, func(s *scene) {
		s.tunnel(1)
		s.costly(map[string]float64{"lock": 0.35, "overlay": 0.25, "driver": 0.2, "bridge": 0.2}, 0.3)
		s.l.Locks = []facts.LockWait{{Device: "vxlan7", Lock: "transmit queue 0", Waits: 400000,
			Share: 0.3 + 0.3*s.Float64()}}
	}, false},
	{"one CPU takes all packets out of a tunnel", TunnelOneCPU, func(s *scene) {
		s.onCPU0(1.1e6)
		s.tunnel(queues)
		s.dev("vxlan7").TxPackets = s.count(100)
		for i := range queues { // the outer packets are one flow
			s.dev("eth0").Queues[2*i].Packets = 3
		}
		s.dev("eth0").Queues[0].Packets = s.dev("eth0").RxPackets
		s.profileOf(0, map[string]float64{"driver": 0.35, "stack": 0.3, "overlay": 0.05 + 0.2*s.Float64(),
			"bridge": 0.2, "tun": 0.1})
	}, true},
	{"encapsulation", TunnelCost, func(s *scene) {
		s.tunnel(queues)
		s.offered, s.taken = 2.9e6, 2.9e6
		s.flow()
		s.costly(map[string]float64{"overlay": 0.45, "driver": 0.25, "bridge": 0.2, "tun": 0.1}, 0.3)
	}, true},
	{"all CPUs send to one queue", QueueLock, func(s *scene) {
		s.costly(map[string]float64{"lock": 0.45, "driver": 0.3, "bridge": 0.25}, 0.3)
		s.l.Locks = []facts.LockWait{{Device: "eth0", Lock: "transmit queue 0", Waits: 500000,
			Share: 0.35 + 0.3*s.Float64()}}
	}, false},
	{"a rate limit by tbf", RateLimit, func(s *scene) {
		s.taken = s.offered * (0.1 + 0.6*s.Float64())
		s.flow()
		tap := s.dev("vnet0")
		delete(tap.Counters, "tx_dropped")
		bytes := tap.TxPackets * 60
		tap.Qdisc = []facts.QdiscLoad{{Kind: "tbf", Parent: "root", Packets: tap.TxPackets, Bytes: bytes,
			Drops: s.count(s.offered - s.taken), Overlimits: s.count(s.offered), Backlog: 130,
			RateBps: float64(bytes) * 8 / seconds * 1.01}}
		s.l.Drops = []facts.DropSite{{Reason: "QDISC_DROP", Symbol: "tbf_enqueue", Device: "vnet0",
			Packets: tap.Qdisc[0].Drops}}
	}, true},
	{"fq with a rate for each flow", RateLimit, func(s *scene) {
		s.taken = s.offered * (0.1 + 0.6*s.Float64())
		s.flow()
		tap := s.dev("vnet0")
		delete(tap.Counters, "tx_dropped")
		tap.Qdisc = []facts.QdiscLoad{{Kind: "fq", Parent: "root", Packets: tap.TxPackets, Bytes: tap.TxBytes,
			Drops: s.count(s.offered - s.taken), Backlog: 180, FlowBps: 1e6}}
		s.l.Drops = []facts.DropSite{{Reason: "QDISC_DROP", Symbol: "__dev_queue_xmit", Device: "vnet0",
			Packets: tap.Qdisc[0].Drops}}
	}, true},
	{"a rate limit by htb whose rate is not told", RateLimit, func(s *scene) {
		s.taken = s.offered * 0.4
		s.flow()
		tap := s.dev("vnet0")
		delete(tap.Counters, "tx_dropped")
		s.l.Drops = nil
		lost := s.count(s.offered - s.taken)
		tap.Qdisc = []facts.QdiscLoad{
			{Kind: "htb", Parent: "root", Packets: tap.TxPackets, Bytes: tap.TxPackets * 60, Drops: lost,
				Overlimits: s.count(s.offered)},
			{Kind: "pfifo", Parent: "1:10", Packets: tap.TxPackets, Drops: lost, Backlog: 900},
		}
	}, true},
	{"a policer", Policer, func(s *scene) {
		s.taken = s.offered * 0.5
		s.flow()
		delete(s.dev("vnet0").Counters, "tx_dropped")
		s.l.Drops = nil
		eth := s.dev("eth0")
		eth.Qdisc = append(eth.Qdisc, facts.QdiscLoad{Kind: "ingress", Parent: "ingress", Packets: eth.RxPackets,
			Drops: s.count(s.offered / 2)})
	}, true},
	{"a queue discipline's queue is tiny", QdiscLimit, func(s *scene) {
		eth := s.dev("eth0")
		eth.TxPackets = s.count(400e3)
		eth.Qdisc = []facts.QdiscLoad{{Kind: "pfifo_fast", Parent: "root", Packets: eth.TxPackets,
			Drops: eth.TxPackets / 9}}
		s.h.NICs[0].TxQueueLen = 5
	}, true},
	{"a virtual function's rate", VFRate, func(s *scene) {
		s.taken = 0.1e6
		s.offered = 0.1e6
		s.flow()
		s.h.VFs = []facts.VF{{PF: "eth0", Index: 3, Guest: "vm2", MaxTxRate: 500}}
		n := s.count(0.72e6)
		s.l.Guests = []facts.GuestLoad{{Name: "vm2", CPUs: []facts.CPULoad{{CPU: 0, Softirq: 0.3, Idle: 0.7}},
			Devices: []facts.DeviceLoad{{Name: "ens4", Kind: "nic", TxPackets: n, TxBytes: n * 60}}}}
	}, true},
	{"the wire is full", LineRate, func(s *scene) {
		eth := s.dev("eth0")
		eth.SpeedMbps = 1000
		eth.RxPackets = uint64(0.995 * 1e9 * s.l.Seconds / 8 / (1514 + frameOverhead))
		eth.RxBytes = eth.RxPackets * 1514
		s.offered = float64(eth.RxPackets) / seconds
		s.taken = s.offered
		packets, bytes := eth.RxPackets, eth.RxBytes
		s.flow()
		eth.RxPackets, eth.RxBytes = packets, bytes
	}, true},
	{"the bus is full", PCIeLink, func(s *scene) {
		eth := s.dev("eth0")
		s.h.NICs[0].Link = &facts.PCILink{Speed: "2.5 GT/s PCIe", MaxSpeed: "8.0 GT/s PCIe", Width: 1, MaxWidth: 8}
		s.offered, s.taken = 155e3, 155e3
		s.flow()
		eth.RxBytes = eth.RxPackets * 1514
		eth.Counters["rx_missed_errors"] = eth.RxPackets / 5
	}, true},
	{"the switch sends pause frames", PauseFrames, func(s *scene) {
		eth := s.dev("eth0")
		eth.TxPackets = s.count(300e3)
		eth.Qdisc = []facts.QdiscLoad{{Kind: "fq_codel", Parent: "root", Packets: eth.TxPackets,
			Drops: eth.TxPackets / 20, Requeues: 3000}}
		eth.Counters["port.link_xoff_rx"] = s.count(4000)
	}, true},
	{"a bad cable", LinkErrors, func(s *scene) {
		s.dev("eth0").Counters["rx_crc_errors"] = s.count(s.offered / 20)
	}, true},
	{"the NIC has one queue", OneQueue, func(s *scene) {
		s.onCPU0(1.75e6)
		s.h.NICs[0].Channels.Combined, s.h.NICs[0].RxQueues = 1, 1
		s.dev("eth0").Queues = []facts.QueueLoad{{Direction: "rx", Index: 0, Packets: s.dev("eth0").RxPackets,
			CPUs: setting.CPUs(0)}}
	}, true},
	{"one of the NIC's queues has it all", QueueImbalance, func(s *scene) {
		s.onCPU0(1.75e6)
		for i := range queues {
			s.dev("eth0").Queues[2*i].Packets = 3
		}
		s.dev("eth0").Queues[0].Packets = s.dev("eth0").RxPackets
	}, true},
	{"interrupts on one CPU", IRQOneCPU, func(s *scene) {
		s.onCPU0(1.75e6)
		for i := range queues {
			s.dev("eth0").Queues[2*i].CPUs = setting.CPUs(0)
			s.h.NICs[0].IRQs[i].Effective = setting.CPUs(0)
		}
	}, true},
	{"software steering onto one CPU", RPS, func(s *scene) {
		s.onCPU0(1.5e6)
		s.l.Softnet[0].RPS = s.l.Softnet[0].Processed
		s.l.Softnet[0].Dropped = s.l.Softnet[0].Processed / 4
		s.l.Drops = []facts.DropSite{{Reason: "CPU_BACKLOG", Symbol: "enqueue_to_backlog", Device: "eth0",
			Packets: s.l.Softnet[0].Dropped}}
		s.dev("eth0").Queues[0].CPUs = setting.CPUs(1)
	}, true},
	{"forwarding alone", Softirq, func(s *scene) {
		s.costly(map[string]float64{"driver": 0.45, "bridge": 0.3, "tun": 0.25}, 0.3)
		s.l.Softnet[0].Squeezed = 400
	}, true},
	{"a BPF program that takes long", BPFPrograms, func(s *scene) {
		s.costly(map[string]float64{"bpf": 0.6, "driver": 0.2, "bridge": 0.2}, 0.3)
	}, false},
	{"somebody looks on", Capture, func(s *scene) {
		s.costly(map[string]float64{"socket": 0.35, "driver": 0.35, "bridge": 0.3}, 0.3)
		s.l.Threads = append(s.l.Threads, facts.ThreadLoad{PID: 777, TID: 777, Comm: "tcpdump", Role: "other", VCPU: -1,
			Queue: -1, CPU: 14, Ran: 0.6})
		s.l.Sockets.PacketDrops = s.count(200e3)
	}, false},
	{"a rule drops", DroppedByRule, func(s *scene) {
		s.taken = s.offered * 0.4
		s.flow()
		delete(s.dev("vnet0").Counters, "tx_dropped")
		s.l.Drops = []facts.DropSite{{Reason: "NETFILTER_DROP", Symbol: "nf_hook_slow", Device: "eth0",
			Packets: s.count(s.offered * 0.6)}}
	}, false},
	{"a reverse path filter", ReversePath, func(s *scene) {
		s.dropFor("IP_RPFILTER", "ip_rcv_finish_core", "eth0", 0.6)
	}, false},
	{"a reverse path filter, by counters", ReversePath, func(s *scene) {
		s.dropFor("", "", "", 0.3+0.6*s.Float64())
		s.countedAs("TcpExt.IPReversePathFilter")
	}, true},
	{"no route", NoRoute, func(s *scene) {
		s.dropFor("IP_INNOROUTES", "ip_error", "eth0", 0.3+0.6*s.Float64())
	}, false},
	{"no route, by counters", NoRoute, func(s *scene) {
		s.dropFor("", "", "", 0.3+0.6*s.Float64())
		s.countedAs("IpExt.InNoRoutes")
	}, true},
	{"a device that does not forward", NotForwarded, func(s *scene) {
		s.dropFor("IP_INADDRERRORS", "ip_error", "eth0", 0.9)
	}, false},
	{"a device that does not forward, by counters", NotForwarded, func(s *scene) {
		s.dropFor("", "", "", 0.9)
		s.countedAs("Ip.InAddrErrors")
	}, true},
	{"a full table of neighbours", NeighboursFull, func(s *scene) {
		s.dropFor("NEIGH_CREATEFAIL", "neigh_alloc", "vnet0", 0.3+0.6*s.Float64())
	}, false},
	{"a full table of neighbours, by counters", NeighboursFull, func(s *scene) {
		s.dropFor("", "", "", 0.3+0.6*s.Float64())
		s.countedAs("arp_cache.table_fulls")
	}, true},
	{"a next hop that does not answer", NextHop, func(s *scene) {
		s.dropFor("NEIGH_FAILED", "arp_error_report", "vnet0", 0.9)
	}, false},
	{"a next hop that does not answer, by counters", NextHop, func(s *scene) {
		s.dropFor("", "", "", 0.3+0.6*s.Float64())
		s.countedAs("arp_cache.unresolved_discards")
	}, true},
	{"no route for what the host sends, by counters", NoRoute, func(s *scene) {
		s.dropFor("", "", "", 0.3+0.6*s.Float64())
		s.countedAs("Ip.OutNoRoutes")
	}, true},
	{"a time to live that ends", Dropped, func(s *scene) {
		s.dropFor("NOT_SPECIFIED", "ip_forward", "eth0", 0.99)
	}, false},
	{"a time to live that ends, counted too", Dropped, func(s *scene) {
		s.dropFor("IP_INHDR", "ip_forward", "eth0", 0.3+0.6*s.Float64())
		s.countedAs("Ip.InHdrErrors")
	}, true},
	{"an MTU behind the router", Dropped, func(s *scene) {
		s.dropFor("PKT_TOO_BIG", "ip_forward", "eth0", 0.3+0.6*s.Float64())
		s.countedAs("Ip.FragFails")
	}, true},
	{"an MTU inside the bridge", Dropped, func(s *scene) {
		s.dropFor("NOT_SPECIFIED", "br_dev_queue_push_xmit", "vnet0", 0.3+0.6*s.Float64())
	}, false},
	{"a reason that came later than this program", Dropped, func(s *scene) {
		s.dropFor("MADE_UP_YESTERDAY", "some_function", "eth0", 0.1+0.8*s.Float64())
	}, false},
	{"an XDP program", Dropped, func(s *scene) {
		s.dropFor("", "", "", 0.5)
		s.dev("eth0").Counters["rx_xdp_drop"] = s.count(s.offered * 0.5)
		s.dev("eth0").XDP = "fw"
	}, true},
	{"a veth whose other end is down", DeviceDrops, func(s *scene) {
		s.l.Devices = append(s.l.Devices, facts.DeviceLoad{Name: "veth7", Kind: "veth", SpeedMbps: -1,
			TxPackets: s.count(1000), Counters: map[string]uint64{"tx_dropped": s.count(90e3)}})
	}, true},
	{"packets that are gone", Unaccounted, func(s *scene) {
		s.dropFor("", "", "", 0.2+0.7*s.Float64())
	}, true},
	{"an emulated NIC, and QEMU with time left", NoVhost, func(s *scene) {
		s.offered, s.taken = 40e3, 14e3
		s.flow()
		s.l.Threads = s.l.Threads[queues:]
		s.h.Guests[0].Interfaces[0].Model = []string{"e1000", "rtl8139"}[s.IntN(2)]
		for i := range s.l.Threads {
			if t := &s.l.Threads[i]; t.Role == "emulator" {
				t.Ran, t.Exits = s.noisy(0.55), s.count(60e3)
				s.cpu(t.CPU, facts.CPULoad{User: 0.4, System: 0.15})
			}
		}
	}, true},
	{"hooks without rules", NetfilterHooks, func(s *scene) {
		s.h.Netfilter = facts.Netfilter{BridgeModule: true}
		s.h.Bridges[0].CallIPTables = true
		s.costly(map[string]float64{"netfilter": 0.5, "driver": 0.3, "bridge": 0.2}, 0.3)
	}, false},
}, trackPlants, refusedPlants)
