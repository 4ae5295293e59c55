package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// hostOf returns a host of 64 CPUs on 2 nodes, with SMT (siblings N and N+32), with CPUs set aside at boot and nothing
// running.
func hostOf(isolated string) *facts.Host {
	h := facts.Synthetic(facts.Size{CPUs: 64, NICs: 2, Queues: 8})
	if isolated != "" {
		set, err := setting.ParseCPUs(isolated)
		if err != nil {
			panic(err)
		}
		h.Topology.Isolated, h.Topology.NohzFull = set, set
		h.Kernel.CommandLine += " isolcpus=managed_irq,domain," + isolated + " nohz_full=" + isolated
	}
	return h
}

// run adds a running guest: its vCPUs pinned to one CPU each, or to none, the emulator and vhost threads to CPUs of
// the host, none being where they float.
func run(h *facts.Host, name string, vcpus int, pins []int, emulator, vhost setting.CPUSet) *facts.Guest {
	n := len(h.Guests)
	g := facts.Guest{Name: name, Managed: true, State: "running", PID: 100 + n, VCPUs: vcpus, Memory: 8 << 30,
		EmulatorPin: emulator}
	for v := range vcpus {
		pin := setting.CPUSet(nil)
		if pins != nil {
			pin = setting.CPUs(pins[v])
		}
		g.Pins = append(g.Pins, pin)
	}
	nic := facts.Interface{MAC: fmt.Sprintf("52:54:00:00:00:%02x", n), Type: "bridge", Source: "br0",
		Tap: fmt.Sprintf("vnet%d", n), Model: "virtio", Backend: "vhost", Queues: 2}
	g.Interfaces = []facts.Interface{nic}
	if len(vhost) == 0 {
		vhost = h.Topology.Online.Minus(h.Topology.Isolated)
	}
	for q := range 2 {
		g.Threads = append(g.Threads, facts.Thread{TID: 1000 + 10*n + q, Role: "vhost", NIC: nic.MAC, Queue: q,
			Sure: facts.ByOrder, Affinity: vhost})
	}
	h.Guests = append(h.Guests, g)
	h.Taps = append(h.Taps, facts.Tap{Name: nic.Tap, Master: "br0", Guest: name})
	return &h.Guests[n]
}

// nfv is the usual host of network functions: CPUs 4-63 isolated, six guests of 8 vCPUs one to one on them, siblings
// in pairs as schedulers of clouds do, their emulators on the host's CPUs and their vhost threads where they like.
func nfv() *facts.Host {
	h := hostOf("4-63")
	host := setting.CPUs(0, 1, 2, 3)
	for i := range 6 {
		first := 4 + 4*i
		var pins []int
		for v := range 4 {
			pins = append(pins, first+v, first+v+32)
		}
		run(h, fmt.Sprintf("vnf%d", i), 8, pins, host, nil)
	}
	return h
}

func goals() map[string]goal.Goal {
	return map[string]goal.Goal{"standard": {PPS: 300e3}, "aggressive": {PPS: 1.8e6}, "passthrough": {PPS: 4e6},
		"latency": {Latency: 20 * time.Microsecond}}
}

// TestIsolatedGuestsStay checks that guests on isolated CPUs are neither moved nor have threads moved, whatever the
// goal and however their CPUs were set aside.
func TestIsolatedGuestsStay(t *testing.T) {
	managed := nfv()
	managed.Topology.Isolated, managed.Topology.NohzFull = nil, nil
	managed.Kernel.CommandLine = "ro isolcpus=managed_irq,4-63"
	parted := nfv()
	parted.Kernel.CommandLine = "ro quiet"
	parted.Isolation = &facts.Isolation{Cgroups: []facts.Cgroup{{Path: "vms", Partition: "isolated",
		Effective: parted.Topology.Isolated}}}
	parted.Topology.Isolated, parted.Topology.NohzFull = nil, nil
	tickless := nfv()
	tickless.Topology.Isolated = nil
	for name, h := range map[string]*facts.Host{"isolcpus": nfv(), "managed_irq": managed, "partition": parted,
		"nohz_full": tickless} {
		for tier, g := range goals() {
			r := Place(From(h, g))
			for _, guest := range h.Guests {
				p := r.Guest(guest.Name)
				switch {
				case p == nil:
					t.Errorf("%s, %s: %s has no place: %+v %+v", name, tier, guest.Name, r.Refused, r.Left)
					continue
				case !p.Kept:
					t.Errorf("%s, %s: %s moves to %s", name, tier, guest.Name, p.VCPUSet())
				case !p.Emulator.Equal(guest.EmulatorPin):
					t.Errorf("%s, %s: the emulator of %s moves to %s", name, tier, guest.Name, p.Emulator)
				}
				for _, w := range p.Vhost {
					must.Hold(t, w.CPU <= 3, "%s, %s: vhost of %s on CPU %d", name, tier, guest.Name, w.CPU)
				}
			}
		}
	}
}

// TestSharedAndDedicated checks, on a host with isolated CPUs, that an unpinned guest is left as it is and that the
// isolated CPUs are the home of one that the user names.
func TestSharedAndDedicated(t *testing.T) {
	h := hostOf("4-31,36-63")
	for i := range 3 {
		run(h, fmt.Sprintf("vnf%d", i), 4, []int{4 + 4*i, 5 + 4*i, 6 + 4*i, 7 + 4*i},
			setting.CPUs(0, 1, 2, 3, 32, 33, 34, 35), nil)
	}
	run(h, "web", 6, nil, nil, nil)
	r := Place(From(h, goal.Goal{PPS: 1.8e6}))
	if l := r.LeftAlone("web"); l == nil || l.Rule != "" || len(l.CPUs.And(h.Topology.Isolated)) > 0 ||
		len(r.Refused) > 0 {
		t.Errorf("web: %+v, refused %+v, placed %+v, %s", l, r.Refused, r.Guest("web"), picture(r))
	}
	r = Place(From(h, goal.Goal{PPS: 1.8e6, Guest: "web"}))
	p := r.Guest("web")
	if p == nil || len(p.VCPUSet().Minus(h.Topology.Isolated)) > 0 || r.Cost.Sharing > 0 {
		t.Fatalf("web: %+v, refused %+v, left %+v", p, r.Refused, r.Left)
	}
	for _, w := range p.Vhost {
		must.Hold(t, !h.Topology.Isolated.Has(w.CPU), "vhost on isolated CPU %d", w.CPU)
	}
}

// TestRealtimeClaims checks that isolated CPUs go to a realtime guest first, and that others stay off them then.
func TestRealtimeClaims(t *testing.T) {
	h := hostOf("28-31,60-63")
	run(h, "rt", 4, nil, nil, nil)
	run(h, "web", 4, nil, nil, nil)
	r := Place(From(h, goal.Goal{Latency: 20 * time.Microsecond, Guest: "rt"}))
	if p := r.Guest("rt"); p == nil || p.VCPUSet().String() != "28-31" {
		t.Errorf("rt: %+v, %+v", p, r.Refused)
	}
	if p := r.Guest("web"); p == nil || len(p.VCPUSet().And(h.Topology.Isolated)) > 0 {
		t.Errorf("web: %+v, %+v", p, r.Left)
	}
}

// TestOneCount checks that what a refusal says is left is what the placement has left.
func TestOneCount(t *testing.T) {
	for seed := range uint64(40) {
		ask := random(seed)
		r := Place(ask)
		for _, f := range r.Refused {
			g := ask.guestNamed(f.Guest)
			if !g.Realtime && len(g.Allowed) == 0 && f.Room < g.VCPUs && r.Cost.Largest > f.Room {
				t.Errorf("seed %d: %s: %d left for it, and %d cores on one node: %s", seed, f.Guest, f.Room,
					r.Cost.Largest, f.Shortage)
			}
		}
	}
}

// TestPollers checks that CPUs of poll-mode threads and their siblings are nobody's.
func TestPollers(t *testing.T) {
	for seed := range uint64(30) {
		ask := random(seed)
		rnd := rand.New(rand.NewPCG(seed, 3))
		for _, c := range ask.CPUs {
			if core := rnd.IntN(len(ask.CPUs)); c.Core == core {
				ask.Taken = ask.Taken.Or(setting.CPUs(c.ID))
			}
		}
		ask.Taken = wholeCores(ask.CPUs, ask.Taken)
		r := Place(ask)
		must.Empty(t, r.Housekeeping.And(ask.Taken), "seed %d: the host keeps", seed)
		for _, n := range r.NICs {
			must.Empty(t, setting.CPUs(n.CPUs...).And(ask.Taken), "seed %d: interrupts", seed)
		}
		for _, p := range r.Guests {
			if on := p.VCPUSet().And(ask.Taken); len(on) > 0 && !p.Kept {
				t.Errorf("seed %d: vCPUs of %s on %s", seed, p.Name, on)
			}
			for _, w := range p.Vhost {
				if ask.Taken.Has(w.CPU) && !p.Kept {
					t.Errorf("seed %d: vhost of %s on %d", seed, p.Name, w.CPU)
				}
			}
		}
	}
}

// TestNoRuleBecomesWorse checks on random hosts that no rule becomes worse for any guest unless the placement says so,
// and that it does so only where the user asked for a place.
func TestNoRuleBecomesWorse(t *testing.T) {
	moved := 0
	for seed := range uint64(80) {
		ask := lived(seed)
		r := Place(ask)
		moved += len(r.Moved)
		tab := newTable(ask)
		found := tab.foundStandings()
		before, after := tab.judge(found), tab.judge(tab.standings(r, found))
		for _, g := range ask.Guests {
			for _, rule := range after[g.Name].worse(before[g.Name], allRules) {
				named := slices.ContainsFunc(r.GivesWay, func(w GivesWay) bool {
					return w.Rule == rule && w.Guest == g.Name && ask.guestNamed(w.For).asked(before[w.For])
				})
				if !named {
					t.Errorf("seed %d: %s of %s: %d, then %d; %+v\n%s", seed, rule, g.Name, before[g.Name][rule],
						after[g.Name][rule], r.GivesWay, picture(r))
				}
			}
		}
		for _, name := range r.Moved {
			if b := before[name]; len(b.worse(after[name], vcpuRules)) == 0 && !ask.guestNamed(name).asked(b) {
				t.Errorf("seed %d: %s moves, and no rule is mended", seed, name)
			}
		}
	}
	must.Hold(t, moved != 0, "no guest moves anywhere")
}

// lived is a random host on which guests run: pinned well, badly, or not at all, with threads here and there.
func lived(seed uint64) Ask {
	ask := random(seed)
	rnd := rand.New(rand.NewPCG(seed, 13))
	some := func(n int) (set setting.CPUSet) {
		for range n {
			set = set.Or(setting.CPUs(ask.CPUs[rnd.IntN(len(ask.CPUs))].ID))
		}
		return set
	}
	for i := range ask.Guests {
		g := &ask.Guests[i]
		if g.Pins == nil && rnd.IntN(2) == 0 {
			for range g.VCPUs {
				g.Pins = append(g.Pins, some(1)[0])
			}
		} else if g.Pins == nil {
			for range g.VCPUs {
				g.Masks = append(g.Masks, some(rnd.IntN(4)))
			}
		}
		if rnd.IntN(3) > 0 {
			g.Emulator = some(1 + rnd.IntN(4))
		}
		if rnd.IntN(3) == 0 {
			g.Home = setting.CPUs(ask.Nodes[rnd.IntN(len(ask.Nodes))].ID)
		}
		for _, n := range g.NICs {
			for q := range queuesOf(n) {
				g.Workers = append(g.Workers, Worker{NIC: n.MAC, Queue: q, CPUs: some(1 + rnd.IntN(2)*3)})
			}
		}
		g.Shared = g.Pins == nil && rnd.IntN(2) == 0 && !g.Realtime && len(g.Allowed) == 0
	}
	return ask
}

// TestFewForTheHost checks hosts whose CPUs are nearly all isolated, down to none that are not.
func TestFewForTheHost(t *testing.T) {
	for _, isolated := range []string{"1-63", "1-31,33-63", "2-63", "0-63", "32-63"} {
		h := hostOf(isolated)
		run(h, "vm", 4, nil, nil, nil)
		r := Place(From(h, goal.Goal{PPS: 1.8e6, Guest: "vm"}))
		p := r.Guest("vm")
		if p == nil {
			t.Errorf("%s: %+v %+v", isolated, r.Refused, r.Left)
			continue
		}
		host := h.Topology.Online.Minus(h.Topology.Isolated)
		for _, w := range p.Vhost {
			if len(host) > 0 && !host.Has(w.CPU) {
				t.Errorf("%s: vhost on CPU %d", isolated, w.CPU)
			}
		}
		if len(host) > 0 && len(p.VCPUSet().And(host)) > 0 {
			t.Errorf("%s: vCPUs on %s", isolated, p.VCPUSet())
		}
	}
}

// TestCpusetWithoutIsolated checks that a guest whose control group lacks the isolated CPUs is said to need another
// cpuset, not more isolated CPUs.
func TestCpusetWithoutIsolated(t *testing.T) {
	h := facts.Synthetic(facts.Size{CPUs: 32})
	h.Topology.Isolated = setting.CPUs(8, 9, 10, 11, 12, 13, 14, 15)
	rest := h.Topology.Online.Minus(h.Topology.Isolated)
	h.Isolation = &facts.Isolation{Cgroups: []facts.Cgroup{{Path: "machine.slice", CPUs: rest, Effective: rest}}}
	h.Guests = []facts.Guest{{Name: "vm", Managed: true, State: "running", VCPUs: 4, Memory: 1 << 28}}
	r := Place(From(h, goal.Goal{Latency: 20 * time.Microsecond}))
	f := r.Refusal("vm")
	if f == nil {
		t.Fatalf("it has a place: %+v", r.Guests)
	}
	must.Equal(t, f.Relax, "add the isolated CPUs 8-15 to the cpuset of its control group", "%s", f.Shortage)
}

// TestQueuesNameIsolated checks that where CPUs are isolated the reason for the number of queues says that these do not
// count.
func TestQueuesNameIsolated(t *testing.T) {
	for _, isolated := range []setting.CPUSet{nil, setting.CPUs(8, 9, 10, 11)} {
		h := facts.Synthetic(facts.Size{CPUs: 16})
		h.Guests, h.Topology.Isolated, h.Kernel.CommandLine = nil, isolated, "ro quiet"
		g := run(h, "vm", 2, []int{8, 9}, setting.CPUs(2), setting.CPUs(2))
		g.Memory, g.Interfaces[0].Queues, g.Threads = 1<<28, 0, nil
		named := false
		for _, p := range Place(From(h, goal.Goal{PPS: 1e6})).Guests {
			for _, q := range p.Queues {
				named = named || strings.Contains(q.Why, "without the isolated CPUs 8-11")
			}
		}
		must.Equal(t, named, len(isolated) > 0, "isolated %s", isolated)
	}
}

// TestBootCPUIsTheHosts checks that a latency goal gives no guest the CPU that cannot be isolated, although vhost
// threads have the host's part of the CPUs elsewhere.
func TestBootCPUIsTheHosts(t *testing.T) {
	h := facts.Synthetic(facts.Size{CPUs: 16})
	h.Guests, h.Topology.Isolated, h.Topology.NohzFull, h.Kernel.CommandLine = nil, nil, nil, "ro quiet"
	for i := range 2 {
		run(h, fmt.Sprintf("vm%d", i), 2, nil, setting.CPUs(2, 3), setting.CPUs(2)).Memory = 1 << 28
	}
	ask := From(h, goal.Goal{Latency: 20 * time.Microsecond})
	for g := range facts.Each(ask.Guests) {
		g.Declined = nil
	}
	r := Place(ask)
	must.Equal(t, len(r.Guests), 2, "guests with a place: %+v %+v", r.Refused, r.Left)
	for _, p := range r.Guests {
		must.Hold(t, !p.VCPUSet().Has(facts.BootCPU), "%s has the boot CPU: %s", p.Name, p.VCPUSet())
	}
}
