package bottleneck

import (
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// endPlants are faults at the ends of the path: the hypervisor below, applications, and what measures.
var endPlants = []plant{
	{"the hypervisor below", Steal, func(s *scene) {
		s.costly(map[string]float64{"driver": 1}, 0)
		for i := range queues {
			s.l.CPUs[i] = facts.CPULoad{CPU: i, Softirq: 0.3, Steal: 0.66, Idle: 0.04}
		}
		s.l.Profile = nil
	}, true},
	{"a slow application", Socket, func(s *scene) {
		s.receive(0.6e6, 0.25e6, 0.99)
		s.l.Threads = append(s.l.Threads, facts.ThreadLoad{PID: 800, TID: 800, Comm: "dns-server", Role: "other",
			VCPU: -1, Queue: -1, CPU: 13, Ran: 0.985})
		s.cpu(13, facts.CPULoad{User: 0.6, System: 0.385})
	}, true},
	{"an application that sleeps", Socket, func(s *scene) {
		s.receive(0.2e6, 0.01e6, 0.99)
		s.l.Threads = append(s.l.Threads, facts.ThreadLoad{PID: 800, TID: 800, Comm: "logger", Role: "other", VCPU: -1,
			Queue: -1, CPU: 13, Ran: 0.12})
	}, true},
	{"a buffer that is too short for bursts", SocketBuffer, func(s *scene) {
		s.receive(0.2e6, 0.19e6, 0.01)
		s.l.Threads = append(s.l.Threads, facts.ThreadLoad{PID: 800, TID: 800, Comm: "collector", Role: "other",
			VCPU: -1, Queue: -1, CPU: 13, Ran: 0.3})
	}, true},
	{"the measurement's receiver", Receiver, func(s *scene) {
		s.receive(0.8e6, 0.4e6, 0.99)
		s.l.Threads = append(s.l.Threads, facts.ThreadLoad{PID: 801, TID: 801, Comm: "mpps", Role: "mpps", VCPU: -1,
			Queue: -1, CPU: 13, Ran: 0.98})
	}, true},
	{"the measurement's receiver, a packet socket", Receiver, func(s *scene) {
		s.l.Sockets.PacketDrops = s.count(s.offered / 3)
		s.l.Threads = append(s.l.Threads, facts.ThreadLoad{PID: 801, TID: 801, Comm: "mpps", Role: "mpps", VCPU: -1,
			Queue: -1, CPU: 13, Ran: 0.7, Throttle: 0.25})
	}, true},
	{"pktgen at its end", Generator, func(s *scene) {
		s.l.Threads = append(s.l.Threads, facts.ThreadLoad{PID: 60, TID: 60, Comm: "kpktgend_15", Role: "pktgen",
			VCPU: -1, Queue: -1, CPU: 15, Affinity: setting.CPUs(15), Ran: 0.99})
		s.cpu(15, facts.CPULoad{System: 0.97, Softirq: 0.02})
	}, true},
	{"a generator held back", Generator, func(s *scene) {
		s.l.Threads = append(s.l.Threads, facts.ThreadLoad{PID: 61, TID: 61, Comm: "mpps", Role: "mpps", VCPU: -1,
			Queue: -1, CPU: 15, Ran: 0.3, Quota: 0.3, Throttle: 0.6})
	}, true},
	{"a program that reads its tap too slowly", TapReader, func(s *scene) {
		s.tapHeldBy(0.98, 0.01)
	}, true},
	{"a program with a tap, and a quota", TapReader, func(s *scene) {
		s.tapHeldBy(0.1, 0.85)
		t := facts.Find(s.l.Threads, func(t *facts.ThreadLoad) bool { return t.PID == 6000 })
		t.Quota, t.Throttle = 0.1, 0.8
		s.hog(13, 0.3)
	}, true},
	{"an application that hardly reads a TCP connection", Socket, func(s *scene) {
		s.receive(3e3, 3e3, 0)
		s.l.Drops = nil
		s.l.Sockets = facts.SocketLoad{WindowsClosed: s.count(8), Full: []facts.LosingSocket{{Port: 5001, Queued: 0.97,
			PID: 800, Comm: "backup"}}}
	}, true},
	{"a tap of several queues, of which its program does not read one", TapReader, func(s *scene) {
		s.tapHeldBy(0.3, 0.01)
		tap := s.dev("vnet0")
		tap.Held = nil // there was no time to look
		lost := tap.Counters["tx_dropped"]
		tap.Qdisc = []facts.QdiscLoad{{Kind: "mq", Parent: "root", Packets: tap.TxPackets + lost},
			{Kind: "pfifo_fast", Parent: "0:1", Packets: tap.TxPackets / 2},
			{Kind: "pfifo_fast", Parent: "0:2", Packets: lost},
			{Kind: "pfifo_fast", Parent: "0:3", Packets: tap.TxPackets / 2}}
	}, true},
	{"a realtime program beside the one that reads the tap", CPUHog, func(s *scene) {
		s.tapHeldBy(0.05, 0.94)
		s.hog(13, 0.95).Policy = "fifo"
		s.cpu(13, facts.CPULoad{User: 0.95, System: 0.05})
	}, true},
	{"a realtime program beside an application", CPUHog, func(s *scene) {
		s.receive(0.2e6, 0.01e6, 0.99)
		s.l.Threads = append(s.l.Threads, facts.ThreadLoad{PID: 800, TID: 800, Comm: "dns-server", Role: "other",
			VCPU: -1, Queue: -1, CPU: 13, Affinity: setting.CPUs(13), Ran: s.noisy(0.05), Waited: s.noisy(0.94)})
		s.l.Sockets.Losing = []facts.LosingSocket{{Port: 53, Drops: s.l.Sockets.ReceiveBuffer, Queued: 0.99, PID: 800,
			Comm: "dns-server"}}
		s.hog(13, 0.95).Policy = "fifo"
		s.cpu(13, facts.CPULoad{User: 0.95, System: 0.05})
	}, true},
}
