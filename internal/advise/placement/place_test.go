package placement

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// sized returns a host with CPUs numbered as Linux does: first threads of all cores first.
func sized(nodes, cores, threads int) Ask {
	var ask Ask
	for t := range threads {
		for c := range nodes * cores {
			ask.CPUs = append(ask.CPUs, CPU{ID: t*nodes*cores + c, Core: c, Node: c / cores})
		}
	}
	for n := range nodes {
		distances := map[int]int{}
		for other := range nodes {
			if distances[other] = 21; other == n {
				distances[other] = 10
			}
		}
		ask.Nodes = append(ask.Nodes, Node{ID: n, Memory: 64 << 30, Distances: distances})
	}
	return ask
}

func (a Ask) nic(node int) Ask {
	a.NICs = append(a.NICs, NIC{Name: fmt.Sprintf("eth%d", len(a.NICs)), Node: node})
	return a
}

func (a Ask) guest(name string, vcpus, queues int) Ask {
	a.Guests = append(a.Guests, Guest{Name: name, VCPUs: vcpus, Memory: 16 << 30,
		NICs: []Interface{{MAC: "52:54:00:00:00:01", NIC: "eth0", Queues: queues}}})
	return a
}

// picture returns a result in one line: "vm: 1-9 | vhost 11-19 | emulator 11-19; irq eth0 0,20; kept 0,10; relaxed 1;
// refused 0".
func picture(r *Result) string {
	var parts []string
	for _, g := range r.Guests {
		var vhost []int
		for _, w := range g.Vhost {
			vhost = append(vhost, w.CPU)
		}
		parts = append(parts, fmt.Sprintf("%s: %s | vhost %s | emulator %s", g.Name, g.VCPUSet(),
			setting.CPUs(vhost...), g.Emulator))
	}
	for _, n := range r.NICs {
		parts = append(parts, fmt.Sprintf("irq %s %s", n.Name, setting.CPUs(n.CPUs...)))
	}
	return fmt.Sprintf("%s; kept %s; relaxed %d; refused %d", strings.Join(parts, "; "), r.Housekeeping, len(r.Relaxed),
		len(r.Refused))
}

func TestExamples(t *testing.T) {
	hyper := sized(2, 16, 1).nic(0).guest("big", 14, 4).guest("small", 10, 4)
	hyper.Daemons = []Daemon{{Name: "osd", Node: 0, CPUs: 4}}
	small := sized(2, 2, 1).nic(1).guest("vm1", 2, 2)
	small.Nodes[0].Memory, small.Nodes[1].Memory, small.Guests[0].Memory = 3<<30, 3<<30, 512<<20
	pinned := sized(2, 10, 2).nic(0).guest("vm1", 4, 4)
	pinned.Guests[0].Pins = []int{12, 13, 14, 15}

	named := sized(2, 10, 2).nic(0).guest("vm1", 4, 2).guest("vm2", 2, 2)
	named.Guests[0].Allowed = setting.CPUs(0, 1, 2, 3, 4)
	fixed := sized(2, 4, 1).nic(0).guest("vm1", 2, 1).guest("vm2", 2, 1)
	fixed.Guests[0].Pins, fixed.Guests[0].Fixed = []int{1, 5}, true
	full := sized(2, 4, 1).nic(0).guest("a", 2, 1)
	full.Nodes[0].Memory = 8 << 30

	storage := sized(1, 8, 2).nic(0).guest("a", 3, 3).guest("b", 3, 3)
	storage.Daemons = []Daemon{{Name: "osd", Node: 0, CPUs: 3}}

	for _, c := range []struct {
		name string
		ask  Ask
		want string
	}{
		{"daemons leave one CPU for six vhost threads: they get some of the daemons' too", storage,
			"a: 2-4 | vhost 0-1,8 | emulator 0-1,8-9; b: 5-7 | vhost 0-1,9 | emulator 0-1,8-9; irq eth0 0-1,8-9; kept " +
				"0-1,8-9; relaxed 1; refused 0"},
		{"CPUs that the user gives", named,
			"vm1: 1-4 | vhost 7-8 | emulator 7-8; vm2: 5-6 | vhost 9,29 | emulator 9,29; irq eth0 0,7-9,20,29; kept " +
				"0,10,20,30; relaxed 0; refused 0"},
		{"a guest that must not be moved, on two nodes", fixed,
			"vm1: 1,5 | vhost 6 | emulator 6; vm2: 2-3 | vhost 7 | emulator 7; irq eth0 0; kept 0,4; relaxed 0; " +
				"refused 0"},
		{"memory is on the other node", full,
			"a: 5-6 | vhost 7 | emulator 7; irq eth0 0-3; kept 0,4; relaxed 0; refused 0"},
		{"the founding host: 2 sockets of 10 cores with SMT, one guest of 9 vCPUs",
			sized(2, 10, 2).nic(0).guest("vm", 9, 9),
			"vm: 1-9 | vhost 11-19 | emulator 11-19; irq eth0 0,20-29; kept 0,10,20,30; relaxed 0; refused 0"},
		{"2 sockets of 16 cores, one guest of 14 vCPUs for the highest rate",
			sized(2, 16, 1).nic(0).guest("vm", 14, 14),
			"vm: 2-15 | vhost 18-31 | emulator 18-31; irq eth0 0-1; kept 0-1,16-17; relaxed 0; refused 0"},
		{"2 sockets of 16 cores, two guests of 14 vCPUs", sized(2, 16, 1).nic(0).guest("a", 14, 2).guest("b", 14, 2),
			"a: 2-15 | vhost 0-1 | emulator 0-1; b: 18-31 | vhost 16-17 | emulator 16-17; irq eth0 0-1; kept " +
				"0-1,16-17; relaxed 0; refused 0"},
		{"hyperconverged: 10 and 14", hyper,
			"big: 18-31 | vhost 16-17 | emulator 16-17; small: 6-15 | vhost 0-1 | emulator 0-1; irq eth0 0-5; kept " +
				"0-5,16-17; relaxed 2; refused 0"},
		{"the lab: 4 CPUs on 2 nodes", small,
			"vm1: 2-3 | vhost 1 | emulator 1; irq eth0 0-1; kept 0; relaxed 3; refused 0"},
		{"a guest that is pinned well stays", pinned,
			"vm1: 12-15 | vhost 11,16-18 | emulator 11,16-18; irq eth0 1-9; kept 0,10,20,30; relaxed 0; refused 0"},
		{"one CPU", sized(1, 1, 1).nic(-1).guest("vm", 1, 1),
			"irq eth0 0; kept 0; relaxed 0; refused 1"},
		{"too large", sized(2, 4, 1).nic(0).guest("vm", 9, 1),
			"irq eth0 0-3; kept 0,4; relaxed 0; refused 1"},
		{"too large for a node", sized(2, 4, 1).nic(0).guest("vm", 6, 1),
			"vm: 1-3,5-7 | vhost 0 | emulator 0,4; irq eth0 0; kept 0,4; relaxed 1; refused 0"},
		{"threads must serve as CPUs", sized(1, 4, 2).nic(0).guest("vm", 6, 1),
			"vm: 1-3,5-7 | vhost 0 | emulator 0,4; irq eth0 0,4; kept 0,4; relaxed 1; refused 0"},
		{"nobody", sized(2, 4, 1), "; kept 0,4; relaxed 0; refused 0"},
	} {
		r := Place(c.ask)
		if got := picture(r); got != c.want {
			t.Errorf("%s:\n found    %s\n expected %s\n%+v", c.name, got, c.want, r)
		}
		if again := Place(c.ask); !reflect.DeepEqual(r, again) {
			t.Errorf("%s: placed otherwise the second time", c.name)
		}
	}
}

func TestRefusal(t *testing.T) {
	r := Place(sized(2, 4, 1).nic(0).guest("vm", 9, 1))
	refused := r.Refusal("vm")
	must.Hold(t, refused != nil && strings.Contains(refused.Shortage, "needs 9 dedicated CPUs, and 7 are left") &&
		refused.Relax == "give it 7 vCPUs", "refusal %+v", refused)
}

func TestSpread(t *testing.T) {
	r := Place(sized(2, 10, 2).nic(0).guest("vm", 9, 9))
	var all []int
	for cpu := range 40 {
		all = append(all, cpu)
	}
	for _, queues := range []int{1, 4, 9, 16, 40, 64} {
		spread := r.Spread(setting.CPUs(all...), queues)
		seen := map[int]int{}
		for q, set := range spread {
			workers := 0
			for _, cpu := range set {
				seen[cpu]++
				if cpu >= 11 && cpu <= 19 {
					workers++
				}
			}
			must.Hold(t, workers <= (9+queues-1)/queues,
				"%d queues: queue %d has %d of 9 vhost threads", queues, q, workers)
		}
		for cpu := range 40 {
			must.Hold(t, seen[cpu] == 1, "%d queues: CPU %d is in %d of them", queues, cpu, seen[cpu])
		}
	}
	must.Hold(t, r.Spread(setting.CPUs(all...), 0) == nil, "no queues, but CPUs in them")
}

func TestQueues(t *testing.T) {
	big := sized(2, 10, 2).nic(0).guest("vm", 9, 0)
	var crowd = sized(2, 10, 2).nic(0)
	for i := range 60 {
		crowd = crowd.guest(fmt.Sprintf("vm%d", i), 2, 0)
	}
	for _, c := range []struct {
		ask                Ask
		vcpus              int
		rate               float64
		least, most, write int
	}{
		{big, 9, 0, 4, 9, 9}, {big, 2, 0, 2, 2, 2}, {big, 1, 0, 1, 1, 1}, {big, 64, 0, 4, 64, 20},
		{big, 1000, 0, 4, 256, 20}, {crowd, 8, 0, 1, 8, 1},
		{big, 9, 100e3, 1, 9, 9}, {big, 9, 500e3, 3, 9, 9}, {big, 9, 1.8e6, 4, 9, 9}, {big, 2, 1.8e6, 2, 2, 2},
	} {
		least, most, write := Queues(c.ask, c.vcpus, c.rate)
		must.Hold(t, least == c.least && most == c.most && write == c.write,
			"%.0f packets per second, %d vCPUs among %d guests: %d to %d, %d; expected %d to %d, %d", c.rate, c.vcpus,
			len(c.ask.Guests), least, most, write, c.least, c.most, c.write)
	}
}

// TestDataNICs checks that a guest's management NIC takes no part of the queues: the guest of the bridge guide had nine
// on each of two data NICs, and one for management.
func TestDataNICs(t *testing.T) {
	for _, c := range []struct {
		threads int
		edit    func(h *facts.Host, g *goal.Goal)
		want    string
	}{
		{2, func(*facts.Host, *goal.Goal) {}, "1 9 9"},
		{1, func(*facts.Host, *goal.Goal) {}, "1 9 9"},
		{1, func(_ *facts.Host, g *goal.Goal) { g.DataNICs = []string{"BR1"} }, "1 9 1"},
		{1, func(h *facts.Host, _ *goal.Goal) { h.NICs[0].Management = "" }, "5 5 5"},
		{1, func(h *facts.Host, _ *goal.Goal) {
			h.Interval = &facts.Interval{Seconds: 1, Devices: map[string]map[string]uint64{
				"tap0": {"rx_packets": 3}, "tap1": {"rx_packets": 50e3}, "tap2": {"tx_packets": 50e3}}}
			h.NICs[0].Management = ""
		}, "1 9 9"},
	} {
		h := &facts.Host{}
		for cpu := range 20 * c.threads {
			h.Topology.CPUs = append(h.Topology.CPUs,
				facts.CPU{ID: cpu, Core: cpu % 20, Node: cpu % 20 / 10, Online: true})
		}
		guest := facts.Guest{Name: "router", State: "running", VCPUs: 9, Memory: 16 << 30}
		for i := range 3 {
			eth, br, tap := fmt.Sprintf("eth%d", i), fmt.Sprintf("br%d", i), fmt.Sprintf("tap%d", i)
			h.NICs = append(h.NICs, facts.NIC{Name: eth, Up: true, Master: br})
			h.Bridges = append(h.Bridges, facts.Bridge{Name: br, Up: true, Ports: []string{eth, tap}})
			h.Taps = append(h.Taps, facts.Tap{Name: tap, Master: br})
			guest.Interfaces = append(guest.Interfaces, facts.Interface{MAC: fmt.Sprintf("52:54:00:00:00:0%d", i),
				Type: "bridge", Source: br, Tap: tap, Model: "virtio", Queues: 1})
		}
		h.NICs[0].Management = "default route"
		h.Guests = []facts.Guest{guest}
		g := goal.Unlimited()
		c.edit(h, &g)
		var found []string
		r := Place(From(h, g))
		for _, q := range r.Guest("router").Queues {
			found = append(found, fmt.Sprint(q.Queues))
		}
		if got := strings.Join(found, " "); got != c.want {
			t.Errorf("%d threads: queues %s, expected %s: %+v", c.threads, got, c.want, r.Guest("router").Queues)
		}
	}
}

// TestCrowdedHost: where the CPUs kept for the host would have a dozen vhost threads or more each, these go to their
// guests' own CPUs, except those of realtime guests.
func TestCrowdedHost(t *testing.T) {
	for name, c := range map[string]struct {
		guests   int
		realtime bool
		most     int // vhost threads on a CPU
	}{
		"a core for each":   {15, false, 1},
		"too many":          {30, false, 1},
		"too many realtime": {30, true, 15},
	} {
		ask := sized(1, 32, 1).nic(0)
		for i := range c.guests {
			ask = ask.guest(fmt.Sprintf("vm%d", i), 1, 1)
			ask.Guests[i].Memory, ask.Guests[i].Realtime = 1<<30, c.realtime
		}
		r := Place(ask)
		on, most := map[int]int{}, 0
		for _, g := range r.Guests {
			for _, w := range g.Vhost {
				on[w.CPU]++
				most = max(most, on[w.CPU])
			}
		}
		if len(r.Guests) != c.guests || most != c.most {
			t.Errorf("%s: %d threads on one CPU, expected %d: %s", name, most, c.most, picture(r))
		}
	}
}

// TestAlike checks that cores of a hybrid processor are distinguished, and that a guest gets cores of one kind.
func TestAlike(t *testing.T) {
	h := &facts.Host{}
	for id, siblings := range []setting.CPUSet{{0, 1}, {0, 1}, {2}} {
		h.Topology.Online = append(h.Topology.Online, id)
		h.Topology.CPUs = append(h.Topology.CPUs, facts.CPU{ID: id, Core: siblings[0], Online: true,
			Siblings: siblings})
	}
	if ask := From(h, goal.Goal{}); ask.CPUs[0].Alike != ask.CPUs[1].Alike || ask.CPUs[0].Alike == ask.CPUs[2].Alike {
		t.Errorf("CPUs %+v: expected two of one kind and one of another", ask.CPUs)
	}
	h.Topology.CPUs[2].Siblings, h.Topology.CPUs[2].Kind = setting.CPUSet{0, 1, 2}, "1024"
	h.Topology.CPUs[0].Kind, h.Topology.CPUs[1].Kind = "512", "512"
	if ask := From(h, goal.Goal{}); ask.CPUs[2].Slow != 0 || ask.CPUs[0].Slow != 1 ||
		ask.CPUs[0].Alike == ask.CPUs[2].Alike {
		t.Errorf("CPUs %+v: expected the last to be of a faster kind", ask.CPUs)
	}
	fast := cell{free: []core{{id: 0, seats: []int{0}, slow: 1}, {id: 1, seats: []int{1}, alike: 1},
		{id: 2, seats: []int{2}, alike: 1}}}
	if taken := fast.take(1, nil); taken[0].id != 1 {
		t.Errorf("core %d was taken, expected a fast one", taken[0].id)
	}
	c := cell{}
	for id, kind := range []int{1, 1, 2, 2, 2, 2} {
		c.free = append(c.free, core{id: id, seats: []int{id}, alike: kind})
	}
	for _, core := range c.take(3, nil) {
		must.Hold(t, core.alike == 2, "core %d is of kind %d, expected 2", core.id, core.alike)
	}
}
