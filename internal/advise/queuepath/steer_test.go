package queuepath

import (
	"fmt"
	"strings"
	"testing"

	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// steerHost is a host with guests whose vhost threads have a CPU each, behind one bridge with a NIC of so many queues.
func steerHost(guests, queues, nicQueues int) *facts.Host {
	cpus := max(nicQueues, guests*queues+2)
	h := &facts.Host{Kernel: facts.Kernel{Release: "6.12.48"}, Readings: facts.Readings{}}
	for c := range cpus {
		h.Topology.CPUs = append(h.Topology.CPUs, facts.CPU{ID: c, Online: true, Node: c * 2 / cpus})
		h.Topology.Online = append(h.Topology.Online, c)
	}
	bridge := facts.Bridge{Name: "br0", Up: true, Ports: []string{"eth0"}}
	h.NICs = []facts.NIC{{Name: "eth0", TxQueues: nicQueues, RxQueues: nicQueues, Node: -1, Up: true, Master: "br0",
		XPS: make([]setting.CPUSet, nicQueues)}}
	for q := range nicQueues {
		h.Readings[setting.XPS("eth0", q)] = setting.Value("")
	}
	h.Readings[setting.Of(setting.QueueLanes, "eth0")] = setting.Missing("none")
	cpu := 0
	for i := range guests {
		g := facts.Guest{Name: fmt.Sprintf("vm%d", i), Managed: true, State: "running", VCPUs: queues}
		nic := facts.Interface{MAC: fmt.Sprintf("52:54:00:00:00:%02x", i), Type: "bridge", Source: "br0",
			Tap: fmt.Sprintf("vnet%d", i), Queues: queues}
		for q := range queues {
			g.Threads = append(g.Threads, facts.Thread{Role: "vhost", NIC: nic.MAC, Queue: q, Sure: facts.ByOrder,
				Affinity: setting.CPUs(cpu)})
			cpu++
		}
		g.Interfaces = []facts.Interface{nic}
		h.Guests = append(h.Guests, g)
		h.Taps = append(h.Taps, facts.Tap{Name: nic.Tap, Type: "tap", Master: "br0", MultiQueue: queues > 1,
			RxQueues: queues, TxQueues: queues, Up: true, Guest: g.Name})
		bridge.Ports = append(bridge.Ports, nic.Tap)
	}
	h.Bridges = []facts.Bridge{bridge}
	return h
}

// through puts a VXLAN device between the bridge and the NIC.
func through(h *facts.Host, queues int, lockless bool) {
	h.Bridges[0].Ports[0], h.NICs[0].Master = "vx0", ""
	h.Tunnels = []facts.Tunnel{{Name: "vx0", Type: "vxlan", Lower: "eth0", Master: "br0", TxQueues: queues,
		Lockless: lockless, LocklessBy: "driver", Up: true}}
}

// float lets all vhost threads of a guest run anywhere.
func float(h *facts.Host, guest int) {
	for i := range h.Guests[guest].Threads {
		h.Guests[guest].Threads[i].Affinity = setting.CPUs(h.Topology.Online...)
	}
}

// after is the host once changes are made.
func after(h *facts.Host, changes []plan.Change) *facts.Host {
	for _, c := range changes {
		h.Readings[c.Address] = c.To
	}
	return h
}

func mustSteer(t *testing.T, h *facts.Host, o *Observation, options SteerOptions) *Steering {
	t.Helper()
	for _, a := range SteerAddresses(h, o, options) {
		if _, read := h.Readings[a]; !read {
			h.Readings[a] = setting.Value("")
			switch a.Kind {
			case setting.QueueLanes:
				h.Readings[a] = setting.Missing("none")
			case setting.RootQdisc:
				h.Readings[a] = setting.Value(setting.NoQueue)
			}
		}
	}
	s, err := Steer(h, o, options)
	must.Do(t, err)
	for _, c := range s.Changes {
		if _, err := c.Want.Canonical(c.Address); err != nil || c.From.State == setting.Unknown {
			t.Errorf("%s from %v to %v: %v", c.Address, c.From, c.To, err)
		}
	}
	// What stands once it is carried out is left as it is.
	copied := *h
	copied.Readings = facts.Readings{}
	for a, r := range h.Readings {
		copied.Readings[a] = r
	}
	if again, err := Steer(after(&copied, s.Changes), o, options); err != nil {
		t.Error(err)
	} else {
		for _, c := range again.Changes {
			must.Hold(t, c.Want.Met(copied.Readings.At(c.Address)),
				"planned again: %s from %s to %s", c.Address, c.From, c.To)
		}
	}
	return s
}

// queueOfCPU is the queue that XPS gives to a CPU once changes are made; −1 where it gives none.
func queueOfCPU(t *testing.T, changes []plan.Change, nic string, cpu int) int {
	t.Helper()
	found := -1
	for _, c := range changes {
		if c.Address.Kind != setting.SysfsCPUs || !strings.HasPrefix(c.Address.Path, "class/net/"+nic+"/") {
			continue
		}
		cpus := must.Get(setting.ParseCPUs(c.To.Value))(t)
		if cpus.Has(cpu) {
			must.Need(t, found < 0, "CPU %d is in the sets of two queues", cpu)
			must.Get(fmt.Sscanf(c.Address.Path, "class/net/"+nic+"/queues/tx-%d/xps_cpus", &found))(t)
		}
	}
	return found
}

// TestSteerByXPS: vhost threads with a CPU each need no program, also behind a tunnel with one queue.
func TestSteerByXPS(t *testing.T) {
	for _, tunnel := range []bool{false, true} {
		h := steerHost(3, 4, 16)
		if tunnel {
			through(h, 1, true)
		}
		s := mustSteer(t, h, nil, SteerOptions{})
		must.Need(t, s.Groups[0].Means == ByXPS, "tunnel %v: %+v", tunnel, s.Groups)
		used := map[int]int{}
		for cpu := range 12 { // of the vhost threads
			used[queueOfCPU(t, s.Changes, "eth0", cpu)]++
		}
		must.Hold(t, len(used) == 12 && used[-1] <= 0, "tunnel %v: 12 vhost threads on queues %v", tunnel, used)
		for _, cpu := range h.Topology.Online {
			q := queueOfCPU(t, s.Changes, "eth0", cpu)
			must.Hold(t, q >= 0, "CPU %d has no queue", cpu)
			if cpu >= 12 && used[q] > 0 {
				t.Errorf("CPU %d shares queue %d with a vhost thread while others have none", cpu, q)
			}
		}
		must.Empty(t, s.Advice, "tunnel %v: advice", tunnel)
	}
}

// TestSteerByProgram: where vhost threads float the queue's number is carried, and XPS makes way.
func TestSteerByProgram(t *testing.T) {
	h := steerHost(2, 4, 8)
	float(h, 1)
	h.Readings[setting.XPS("eth0", 3)] = setting.Value("3")
	s := mustSteer(t, h, nil, SteerOptions{})
	must.Need(t, s.Groups[0].Means == ByProgram && strings.Contains(s.Groups[0].Why, "vhost threads of vm1 float"),
		"%+v", s.Groups)
	last := s.Changes[len(s.Changes)-1]
	must.Hold(t, last.Address == setting.Of(setting.QueueLanes, "eth0") &&
		last.To.Value == "52:54:00:00:00:00=0+4 52:54:00:00:00:01=4+4" && last.Risk == goal.None, "%+v", last)
	cleared := false
	for _, c := range s.Changes[:len(s.Changes)-1] {
		cleared = cleared || c.Address == setting.XPS("eth0", 3) && c.From.Value == "3"
		must.Hold(t, c.To.Value == "", "XPS stands: %+v", c)
	}
	must.Hold(t, cleared, "XPS is not cleared")
	// A guest comes: those that were there stay.
	after(h, s.Changes)
	more := steerHost(3, 1, 8)
	h.Guests, h.Taps = append(h.Guests, more.Guests[2]), append(h.Taps, more.Taps[2])
	h.Bridges[0].Ports = append(h.Bridges[0].Ports, "vnet2")
	h.Guests[0].Interfaces[0].Queues, h.Guests[1].Interfaces[0].Queues = 3, 3
	s = mustSteer(t, h, nil, SteerOptions{})
	if value := s.Changes[len(s.Changes)-1].To.Value; !strings.HasPrefix(value,
		"52:54:00:00:00:00=0+3 52:54:00:00:00:01=4+3 52:54:00:00:00:02=") {
		t.Errorf("a guest comes: %s", value)
	}
}

// TestSteerKernels: what an old kernel cannot do is said.
func TestSteerKernels(t *testing.T) {
	h := steerHost(2, 2, 8)
	float(h, 0)
	h.Kernel.Release = "6.1.0-18-amd64"
	s := mustSteer(t, h, nil, SteerOptions{})
	last := s.Changes[len(s.Changes)-1]
	must.Hold(t, last.Risk == goal.Blip && strings.Contains(last.Warning, "clsact"), "6.1: %+v", last)
	h.Kernel.Release = "4.18.0-553.el8"
	refusedWith(t, h, SteerOptions{}, "nothing keeps lanes apart here: vhost threads of vm0 float over",
		"Linux 5.1 or later, found 4.18.0")
	refusedWith(t, h, SteerOptions{By: ByProgram}, "Linux 5.1 or later")
	h = steerHost(2, 2, 8)
	h.Kernel.Release = "4.18.0-553.el8"
	if s := mustSteer(t, h, nil, SteerOptions{}); s.Groups[0].Means != ByXPS {
		t.Errorf("pinned, on 4.18: %+v", s.Groups)
	}
}

// TestSteerRefuses: with the reason and what to do instead.
func TestSteerRefuses(t *testing.T) {
	h := steerHost(2, 2, 8)
	refusedWith(t, h, SteerOptions{NIC: "eth9"}, "there is no NIC eth9")
	h.NICs[0].TxQueues = 1
	h.NICs[0].Channels = &facts.Channels{Combined: 1, MaxCombined: 8}
	refusedWith(t, h, SteerOptions{}, "eth0 has 1 transmit queue")
	h = steerHost(2, 2, 8)
	h.Taps[0].Up, h.Taps[1].Up = false, false
	refusedWith(t, h, SteerOptions{}, "no guest sends through a tap")
	refusedWith(t, h, SteerOptions{NIC: "eth0"}, "by eth0")
	for what, spoil := range map[string]func(h *facts.Host){
		"float over":         func(h *facts.Host) { float(h, 1) },
		"is not known":       func(h *facts.Host) { h.Guests[1].Threads = nil },
		"share CPU 0":        func(h *facts.Host) { h.Guests[1].Threads[0].Affinity = setting.CPUs(0) },
		"RPS of vnet1":       func(h *facts.Host) { h.Taps[1].RPS = []setting.CPUSet{setting.CPUs(3)} },
		"eth0 has no XPS":    func(h *facts.Host) { h.Readings[setting.XPS("eth0", 0)] = setting.Missing("") },
		"vhost threads send": func(h *facts.Host) { h.Guests[1].Threads[0].Sure = facts.NotByOrder },
	} {
		h := steerHost(2, 2, 8)
		spoil(h)
		refusedWith(t, h, SteerOptions{By: ByXPS}, what)
		if s := mustSteer(t, h, nil, SteerOptions{}); s.Groups[0].Means != ByProgram ||
			!strings.Contains(s.Groups[0].Why, what) {
			t.Errorf("%s: %+v", what, s.Groups[0])
		}
	}
}

// TestSteerNothing: what is apart is left alone: one guest whose queues nothing erases, and what was seen to be so.
func TestSteerNothing(t *testing.T) {
	h := steerHost(1, 4, 8)
	float(h, 0)
	if s := mustSteer(t, h, nil, SteerOptions{}); s.Groups[0].Means != AsItIs || len(s.Changes) != 0 {
		t.Errorf("one guest: %+v", s)
	}
	for what, spoil := range map[string]func(h *facts.Host){
		"a tunnel":       func(h *facts.Host) { through(h, 1, true) },
		"a VLAN":         func(h *facts.Host) { through(h, 8, true); h.Tunnels[0].Type = "vlan" },
		"XPS":            func(h *facts.Host) { h.Readings[setting.XPS("eth0", 1)] = setting.Value("0-7") },
		"too few queues": func(h *facts.Host) { h.NICs[0].TxQueues = 2 },
	} {
		h := steerHost(1, 4, 8)
		float(h, 0)
		spoil(h)
		if s := mustSteer(t, h, nil, SteerOptions{}); s.Groups[0].Means != ByProgram {
			t.Errorf("one guest and %s: %+v", what, s.Groups)
		}
	}
	h = steerHost(2, 2, 8)
	float(h, 0)
	for packets, means := range map[uint64]Means{100_000: AsItIs, 40: ByProgram} { // 40 packets tell nothing
		o := &Observation{Seconds: 1, Watched: 1, Devices: []Device{
			{Name: "eth0", Kind: "nic", TxQueues: 8, RxQueues: 8, Node: -1}, {Name: "vnet0", Kind: "tap", Guest: "vm0",
				TxQueues: 2, RxQueues: 2, Node: -1},
			{Name: "vnet1", Kind: "tap", Guest: "vm1", TxQueues: 2, RxQueues: 2, Node: -1},
		}}
		for i := range 4 {
			from, to := Queue{fmt.Sprintf("vnet%d", i/2), Rx, i % 2}, Queue{"eth0", Tx, i}
			o.Rows = append(o.Rows, Row{Origin: from, From: from, To: from, FromCPU: -1, CPU: i, Frames: packets,
				Packets: packets},
				Row{Origin: from, From: from, To: to, FromCPU: i, CPU: i, Frames: packets, Packets: packets})
		}
		if s := mustSteer(t, h, o, SteerOptions{}); s.Groups[0].Means != means {
			t.Errorf("%d packets on each lane, all apart: %+v", packets, s.Groups)
		}
		if s := mustSteer(t, h, o, SteerOptions{By: ByProgram}); s.Groups[0].Means != ByProgram {
			t.Errorf("asked for by name: %+v", s.Groups)
		}
		for i := range o.Rows {
			o.Rows[i].To.Queue *= map[Direction]int{Rx: 1, Tx: 0}[o.Rows[i].To.Direction]
		}
		if s := mustSteer(t, h, o, SteerOptions{}); s.Groups[0].Means != ByProgram {
			t.Errorf("all on one queue: %+v", s.Groups)
		}
	}
}
