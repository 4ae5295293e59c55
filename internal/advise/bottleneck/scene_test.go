package bottleneck

import (
	"fmt"
	"math/rand/v2"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// scene is a host of 16 CPUs on two nodes with packets from the wire to a guest: NIC (4 queues on CPUs 0–3), bridge,
// tap, vhost threads (CPUs 4–7), vCPUs (CPUs 8–11; 12–15 are free). Every counter follows from the rate and a packet's
// cost at each stage, with noise.
type scene struct {
	*rand.Rand
	h *facts.Host
	l *facts.Load

	offered float64 // packets per second from the wire
	taken   float64 // packets per second that the guest receives
}

const (
	seconds     = 5.0
	softirqCost = 550e-9 // of a packet at the NIC's CPU, bridge and tap included
	vhostCost   = 1100e-9
	vcpuCost    = 900e-9
	queues      = 4
)

// newScene returns a healthy path with some load.
func newScene(seed uint64) *scene {
	s := &scene{Rand: rand.New(rand.NewPCG(seed, 7))}
	s.offered = 200e3 + 1.4e6*s.Float64()
	s.taken = s.offered
	s.host()
	s.l = &facts.Load{Seconds: seconds, Method: facts.ByTracepoints, Unseen: []facts.Unseen{}, CostMS: 40,
		Local: []facts.LocalLoad{{Received: uint64(s.IntN(500)), Sent: uint64(s.IntN(500))}}}
	for i := range 16 {
		s.l.CPUs = append(s.l.CPUs, facts.CPULoad{CPU: i, Idle: 1})
		s.l.Softnet = append(s.l.Softnet, facts.Softnet{CPU: i})
	}
	s.l.Devices = []facts.DeviceLoad{
		{Name: "eth0", Kind: "nic", SpeedMbps: 10000, Counters: map[string]uint64{"rx_dropped": uint64(s.IntN(20))},
			Qdisc: []facts.QdiscLoad{{Kind: "mq", Parent: "root"}}},
		{Name: "br0", Kind: "bridge", SpeedMbps: -1, Counters: map[string]uint64{}},
		{Name: "vnet0", Kind: "tap", Guest: "vm1", SpeedMbps: 10000, Counters: map[string]uint64{},
			Qdisc: []facts.QdiscLoad{{Kind: "fq_codel", Parent: "root"}}},
	}
	for i := range queues {
		s.l.Devices[0].Queues = append(s.l.Devices[0].Queues, facts.QueueLoad{Direction: "rx", Index: i,
			CPUs: setting.CPUs(i)}, facts.QueueLoad{Direction: "tx", Index: i})
		s.l.Threads = append(s.l.Threads, facts.ThreadLoad{PID: 2100, TID: 2113 + i, Comm: "vhost-2100", Role: "vhost",
			Guest: "vm1", NIC: "52:54:00:00:00:01", Queue: i, VCPU: -1, CPU: 4 + i, Affinity: setting.CPUs(4 + i),
			Policy: "other"})
	}
	for i := range queues {
		s.l.Threads = append(s.l.Threads, facts.ThreadLoad{PID: 2100, TID: 2105 + i, Comm: fmt.Sprintf("CPU %d/KVM", i),
			Role: "vcpu", Guest: "vm1", VCPU: i, Queue: -1, CPU: 8 + i, Affinity: setting.CPUs(8 + i), Policy: "other"})
	}
	s.l.Threads = append(s.l.Threads,
		facts.ThreadLoad{PID: 2100, TID: 2100, Comm: "qemu-system-x86", Role: "emulator", Guest: "vm1", VCPU: -1,
			Queue: -1, CPU: 12, Ran: 0.01},
		facts.ThreadLoad{PID: 900, TID: 900, Comm: "node_exporter", Role: "other", VCPU: -1, Queue: -1, CPU: 13,
			Ran: 0.02 + 0.05*s.Float64()},
		facts.ThreadLoad{PID: 1, TID: 4242, Comm: "mpps", Role: "mpps", VCPU: -1, Queue: -1, CPU: 14, Ran: 0.01},
	)
	s.flow()
	return s
}

func (s *scene) host() {
	nic := facts.NIC{
		Name: "eth0", Driver: "i40e", Bus: "pci", PCI: "0000:41:00.0", Up: true, Carrier: "up", Speed: 10000,
		Master: "br0", TxQueueLen: 1000, RxQueues: queues, TxQueues: queues,
		Channels: &facts.Channels{Combined: queues, MaxCombined: 16}, Rings: &facts.Rings{Rx: 512, Tx: 512, MaxRx: 4096,
			MaxTx: 4096},
		Link: &facts.PCILink{Speed: "8.0 GT/s PCIe", MaxSpeed: "8.0 GT/s PCIe", Width: 8, MaxWidth: 8},
	}
	for i := range queues {
		nic.IRQs = append(nic.IRQs, facts.IRQ{Number: 40 + i, Name: fmt.Sprintf("i40e-eth0-TxRx-%d", i),
			On: fmt.Sprintf("TxRx-%d", i), Effective: setting.CPUs(i), Affinity: setting.CPUs(i)})
	}
	s.h = &facts.Host{
		Name: "host1", AsRoot: true, Root: "/",
		NICs:    []facts.NIC{nic},
		Bridges: []facts.Bridge{{Name: "br0", Up: true, Ports: []string{"eth0", "vnet0"}}},
		Taps: []facts.Tap{{Name: "vnet0", Type: "tap", Master: "br0", MultiQueue: true, TxQueues: queues,
			RxQueues: queues, TxQueueLen: 1000, Up: true, Guest: "vm1"}},
		Guests: []facts.Guest{{Name: "vm1", State: "running", PID: 2100, VCPUs: queues,
			Interfaces: []facts.Interface{{MAC: "52:54:00:00:00:01", Tap: "vnet0", Type: "bridge", Source: "br0",
				Model: "virtio", Queues: queues}}}},
		Readings: facts.Readings{maxBacklog: setting.Value("1000"), netdevBudget: setting.Value("300")},
	}
	for i := range 16 {
		s.h.Topology.CPUs = append(s.h.Topology.CPUs, facts.CPU{ID: i, Online: true, Node: i / 8})
	}
	s.h.Topology.Nodes = []facts.Node{{ID: 0, CPUs: setting.CPUs(0, 1, 2, 3, 4, 5, 6, 7)},
		{ID: 1, CPUs: setting.CPUs(8, 9, 10, 11, 12, 13, 14, 15)}}
}

// noisy returns a share with an error of up to 5 %.
func (s *scene) noisy(share float64) float64 { return max(0, min(1, share*(0.95+0.1*s.Float64()))) }

func (s *scene) count(rate float64) uint64 { return uint64(rate * seconds * (0.98 + 0.04*s.Float64())) }

func (s *scene) dev(name string) *facts.DeviceLoad {
	for i := range s.l.Devices {
		if s.l.Devices[i].Name == name {
			return &s.l.Devices[i]
		}
	}
	return nil
}

func (s *scene) vhost(i int) *facts.ThreadLoad { return &s.l.Threads[i] }
func (s *scene) vcpu(i int) *facts.ThreadLoad  { return &s.l.Threads[queues+i] }

// flow sets every counter according to offered and taken, spread evenly.
func (s *scene) flow() {
	eth, tap := s.dev("eth0"), s.dev("vnet0")
	eth.RxPackets, tap.TxPackets = s.count(s.offered), s.count(s.taken)
	eth.RxBytes, tap.TxBytes = eth.RxPackets*60, tap.TxPackets*60
	tap.Qdisc[0].Packets = tap.TxPackets
	if lost := s.offered - s.taken; lost > 0 {
		tap.Counters["tx_dropped"] = s.count(lost)
		s.l.Drops = append(s.l.Drops, facts.DropSite{Reason: "FULL_RING", Symbol: "tun_net_xmit", Device: "vnet0",
			Packets: s.count(lost)})
	}
	for i := range queues {
		eth.Queues[2*i].Packets = eth.RxPackets / queues
		s.l.Softnet[i].Processed = eth.RxPackets / queues
		s.l.Softnet[i].Squeezed = uint64(s.IntN(3))
		s.cpu(i, facts.CPULoad{Softirq: s.noisy(s.offered / queues * softirqCost)})
		s.profileOf(i, map[string]float64{"driver": 0.45, "bridge": 0.25, "tun": 0.2, "other": 0.1})
		s.run(s.vhost(i), s.taken/queues*vhostCost)
		s.run(s.vcpu(i), s.taken/queues*vcpuCost)
	}
}

// cpu sets how a CPU spent the interval; the rest is idle.
func (s *scene) cpu(i int, c facts.CPULoad) {
	c.CPU = i
	c.Steal = 0.01 * s.Float64()
	c.Idle = max(0, 1-c.Busy()-c.Steal)
	s.l.CPUs[i] = c
}

// run sets how much a thread ran, and its CPU's use. A vCPU polls for a part of the rest.
func (s *scene) run(t *facts.ThreadLoad, share float64) {
	t.Ran = min(s.noisy(share), 0.995)
	t.Waited = 0.01 * s.Float64()
	t.Switches = uint64(2000 + s.IntN(50000))
	c := facts.CPULoad{System: t.Ran}
	if t.Role == "vcpu" {
		t.HaltPoll = (1 - t.Ran) * 0.4 * s.Float64()
		t.Ran += t.HaltPoll
		c = facts.CPULoad{Guest: t.Ran - t.HaltPoll, System: t.HaltPoll}
	}
	s.cpu(cpuOf(t), c)
	if t.Role == "vhost" {
		s.profileOf(cpuOf(t), map[string]float64{"vhost": 0.4, "copy": 0.3, "tun": 0.2, "other": 0.1})
	}
}

// profileOf sets the profile of a CPU, in shares of its busy time.
func (s *scene) profileOf(cpu int, parts map[string]float64) {
	symbols := map[string]string{
		"driver": "i40e_napi_poll", "bridge": "br_handle_frame", "tun": "tun_net_xmit", "vhost": "handle_rx",
		"copy": "_copy_to_iter", "netfilter": "nft_do_chain", "bpf": "bpf_prog_90f10768c04d6353_somebodys",
		"conntrack": "nf_conntrack_in", "overlay": "vxlan_xmit_one", "lock": "native_queued_spin_lock_slowpath",
		"socket": "tpacket_rcv", "stack": "ip_rcv_core", "other": "asm_sysvec_call_function",
	}
	kept := s.l.Profile[:0]
	for _, p := range s.l.Profile {
		if p.CPU != cpu {
			kept = append(kept, p)
		}
	}
	s.l.Profile = kept
	busy := s.l.CPUs[cpu].Busy()
	for _, stage := range []string{"driver", "bridge", "tun", "vhost", "copy", "netfilter", "conntrack", "overlay",
		"lock", "socket", "stack", "other", "bpf"} {
		if share := s.noisy(parts[stage]) * busy; share*seconds*1000 >= 1 {
			s.l.Profile = append(s.l.Profile, facts.ProfileEntry{CPU: cpu, Stage: stage, Symbol: symbols[stage],
				Share: share, Samples: int(share * seconds * 1000)})
		}
	}
}

// blind removes what only tracepoints and the profile show.
func (s *scene) blind() {
	s.l.Method = facts.ByCounters
	s.l.Profile, s.l.Drops, s.l.Delays, s.l.Locks = nil, nil, nil, nil
	s.l.Unseen = []facts.Unseen{{What: "profile, drop reasons, waits", Why: "the kernel has no BTF"}}
}

func (s *scene) hog(cpu int, share float64) *facts.ThreadLoad {
	s.l.Threads = append(s.l.Threads, facts.ThreadLoad{PID: 5000, TID: 5000, Comm: "stress-ng-cpu", Role: "other",
		VCPU: -1, Queue: -1, CPU: cpu, Affinity: setting.CPUs(cpu), Ran: share, Waited: 1 - share})
	return &s.l.Threads[len(s.l.Threads)-1]
}
