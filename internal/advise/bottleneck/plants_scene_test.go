package bottleneck

import (
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

func repeated(line string, n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = line
	}
	return lines
}

// oneVhost puts all packets onto one queue's vhost thread; with alone it is the only one.
func (s *scene) oneVhost(which int, alone bool) {
	for i := range queues {
		s.run(s.vhost(i), 0.01)
		s.run(s.vcpu(i), 0.05)
	}
	s.run(s.vhost(which), 0.99)
	s.run(s.vcpu(which), 0.75)
	if alone {
		s.l.Threads = append(s.l.Threads[:0:0], append([]facts.ThreadLoad{s.l.Threads[which]},
			s.l.Threads[queues:]...)...)
	}
}

func (s *scene) inside() *facts.GuestLoad {
	g := facts.GuestLoad{Name: "vm1", Service: map[string]bool{"irqbalance": true}}
	for i := range queues {
		g.CPUs = append(g.CPUs, facts.CPULoad{CPU: i, Softirq: 0.08, System: 0.04, Idle: 0.88})
		g.Softnet = append(g.Softnet, facts.Softnet{CPU: i, Processed: s.count(s.taken / queues)})
		g.IRQs = append(g.IRQs, map[int]uint64{i: 30000})
	}
	s.l.Guests = []facts.GuestLoad{g}
	return &s.l.Guests[0]
}

// ring loses a share of the packets because descriptors run out.
func (s *scene) ring(share float64) {
	eth := s.dev("eth0")
	n := s.count(s.offered * share)
	eth.Counters["rx_missed_errors"], eth.Counters["port.rx_dropped"] = n, n
}

// costly fills the NIC's CPUs, so the ring loses packets.
func (s *scene) costly(profile map[string]float64, lost float64) {
	for i := range queues {
		s.cpu(i, facts.CPULoad{Softirq: 0.96 + 0.03*s.Float64()})
		s.profileOf(i, profile)
		s.l.Softnet[i].Squeezed = uint64(s.IntN(300))
	}
	if lost > 0 {
		s.ring(lost * (0.8 + 0.4*s.Float64()))
	}
}

func (s *scene) tunnel(txQueues int) {
	eth := s.dev("eth0")
	d := facts.DeviceLoad{Name: "vxlan7", Kind: "tunnel", SpeedMbps: -1, Counters: map[string]uint64{},
		RxPackets: eth.RxPackets, TxPackets: eth.RxPackets}
	for i := range txQueues {
		d.Queues = append(d.Queues, facts.QueueLoad{Direction: "tx", Index: i})
	}
	s.l.Devices = append(s.l.Devices, d)
	s.h.Tunnels = []facts.Tunnel{{Name: "vxlan7", Type: "vxlan", Lower: "eth0", Master: "br0", TxQueues: txQueues}}
}

// onCPU0 receives all packets on CPU 0, which can handle only so many.
func (s *scene) onCPU0(most float64) {
	s.offered = most * (1.2 + 0.5*s.Float64())
	s.taken = most
	s.flow()
	tap, eth := s.dev("vnet0"), s.dev("eth0")
	delete(tap.Counters, "tx_dropped")
	s.l.Drops = nil
	eth.RxPackets = s.count(most)
	eth.Counters["rx_missed_errors"] = s.count(s.offered - most)
	for i := range queues {
		s.cpu(i, facts.CPULoad{})
		s.l.Softnet[i] = facts.Softnet{CPU: i}
	}
	s.cpu(0, facts.CPULoad{Softirq: 0.985})
	s.profileOf(0, map[string]float64{"driver": 0.45, "bridge": 0.3, "tun": 0.25})
	s.l.Softnet[0].Processed = eth.RxPackets
}

// receive sends traffic to the host's own sockets.
func (s *scene) receive(offered, read, queued float64) {
	s.offered, s.taken = offered, 0
	s.l.Drops = nil
	s.flow()
	delete(s.dev("vnet0").Counters, "tx_dropped")
	s.dev("vnet0").TxPackets = 0
	for i := range queues {
		s.run(s.vhost(i), 0)
		s.run(s.vcpu(i), 0.02)
	}
	lost := s.count(offered - read)
	s.l.Local[0].Received = s.dev("eth0").RxPackets
	s.l.Sockets = facts.SocketLoad{UDPIn: s.count(read), ReceiveBuffer: lost, Queued: queued}
	s.l.Drops = []facts.DropSite{{Reason: "SOCKET_RCVBUFF", Symbol: "__udp_enqueue_schedule_skb", Device: "eth0",
		Packets: lost}}
}

// crowd fills every CPU with guests' threads.
func (s *scene) crowd() {
	for i := range 16 {
		s.cpu(i, facts.CPULoad{Guest: 0.7, System: 0.29})
	}
	for i := range queues {
		for _, t := range []*facts.ThreadLoad{s.vhost(i), s.vcpu(i)} {
			t.Ran, t.Waited, t.HaltPoll, t.Affinity = s.noisy(0.5), s.noisy(0.45), 0, nil
		}
	}
	for n := range 24 {
		s.l.Threads = append(s.l.Threads, facts.ThreadLoad{PID: 3000 + n/4, TID: 3100 + n, Comm: "CPU 0/KVM",
			Role: "vcpu", Guest: "other" + string(rune('a'+n/4)), VCPU: n % 4, Queue: -1, CPU: n % 16,
			Ran: s.noisy(0.5), Waited: s.noisy(0.45)})
	}
}

// dropFor drops a share of the packets for one of the kernel's reasons, between the NIC and the tap; without a reason
// they are gone without a trace.
func (s *scene) dropFor(reason, function, device string, share float64) {
	s.taken = s.offered * (1 - share)
	s.flow()
	delete(s.dev("vnet0").Counters, "tx_dropped")
	s.l.Drops = nil
	if reason != "" {
		s.l.Drops = []facts.DropSite{{Reason: reason, Symbol: function, Device: device,
			Packets: s.count(s.offered * share)}}
	}
}

// countedAs has the network layer count what is gone between the NIC and the tap.
func (s *scene) countedAs(counter string) {
	s.l.Stack = []facts.StackLoad{{Counters: map[string]uint64{
		counter: s.dev("eth0").RxPackets - s.dev("vnet0").TxPackets, "Ip.ForwDatagrams": s.dev("vnet0").TxPackets}}}
}

// tapHeldBy makes the tap one of a program that is no guest, bound to CPU 13.
func (s *scene) tapHeldBy(ran, waited float64) {
	s.taken = s.offered * 0.3
	s.flow()
	s.l.Threads = s.l.Threads[2*queues:]
	s.h.Guests = nil
	tap := s.dev("vnet0")
	tap.Guest, tap.Held = "", []int{6000}
	s.h.Taps[0].Guest = ""
	s.l.Threads = append(s.l.Threads, facts.ThreadLoad{PID: 6000, TID: 6000, Comm: "openvpn", Role: "other", VCPU: -1,
		Queue: -1, CPU: 13, Affinity: setting.CPUs(13), Ran: s.noisy(ran), Waited: s.noisy(waited)})
	s.cpu(13, facts.CPULoad{User: 0.6, System: 0.4})
}

// untracked has the conntrack table turn most of the packets away, and set say how it counts them.
func (s *scene) untracked(set func(t *facts.TrackLoad, lost uint64)) {
	s.dropFor("NETFILTER_DROP", "nf_hook_slow", "eth0", 0.6)
	s.l.Tracked = make([]facts.TrackLoad, 1)
	set(&s.l.Tracked[0], s.l.Drops[0].Packets)
}
