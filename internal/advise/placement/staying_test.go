package placement

import (
	"slices"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestStaysWithEmulator: for a wake-up latency nothing moves vhost threads but the pin of their emulator, so those of a
// guest whose emulator is pinned stay, and other guests' vCPUs keep off these CPUs. For a packet rate they are placed.
func TestStaysWithEmulator(t *testing.T) {
	h := facts.Synthetic(facts.Size{CPUs: 16, NICs: 1, Queues: 2, Guests: 1})
	g := &h.Guests[0]
	g.Name, g.State, g.VCPUs, g.EmulatorPin = "rt", "running", 2, setting.CPUs(0, 1)
	g.Pins = []setting.CPUSet{setting.CPUs(2), setting.CPUs(3)}
	g.Threads = slices.DeleteFunc(g.Threads, func(t facts.Thread) bool { return t.Role == "vcpu" })
	for t := range facts.Each(g.Threads) {
		t.Affinity = setting.CPUs(0, 1)
	}
	h.Guests = append(h.Guests, facts.Guest{Name: "web", State: "running", VCPUs: 2})
	for _, c := range []struct {
		goal  goal.Goal
		stays bool
	}{{goal.Goal{Latency: 20e3}, true}, {goal.Goal{PPS: 1.8e6}, false}} {
		ask := From(h, c.goal)
		if g := ask.guestNamed("rt"); g.threadsStay != c.stays {
			t.Errorf("%+v: threads stay: %v, expected %v", c.goal, g.threadsStay, c.stays)
		}
		if !c.stays {
			continue
		}
		r := Place(ask)
		if web := r.Guest("web"); web == nil || len(web.VCPUSet().And(setting.CPUs(0, 1))) > 0 {
			t.Errorf("%+v: %s", c.goal, picture(r))
		}
		for _, w := range r.Guest("rt").Vhost {
			must.Hold(t, w.Stays.Equal(setting.CPUs(0, 1)), "%+v: %+v", c.goal, w)
		}
	}
}

// TestOffIsolated: vhost and emulator threads of a guest on isolated CPUs stay where they may run if the host has no
// CPU without a vCPU left but isolated ones: pinned there, nothing would move them out of a vCPU's way.
func TestOffIsolated(t *testing.T) {
	ask := sized(1, 4, 1).guest("vm", 2, 1).guest("house", 2, 0)
	for i := range ask.CPUs {
		ask.CPUs[i].Isolated = i >= 2
	}
	ask.Guests[0].Pins, ask.Guests[1].Pins = []int{2, 3}, []int{0, 1}
	ask.Guests[0].Workers = []Worker{{NIC: ask.Guests[0].NICs[0].MAC, CPUs: setting.CPUs(0, 1)}}
	r := Place(ask)
	p := r.Guest("vm")
	if p == nil || slices.ContainsFunc(p.Vhost, func(v Vhost) bool { return v.CPU >= 2 }) ||
		len(p.Emulator.And(setting.CPUs(2, 3))) > 0 {
		t.Errorf("%s: %+v", picture(r), p)
	}
}

// TestEmulatorLeavesIsolatedCores: the emulator threads of a realtime guest leave the other threads of its vCPUs' cores
// for CPUs that other guests share, their pin takes the vhost threads along, and what gets worse is said.
func TestEmulatorLeavesIsolatedCores(t *testing.T) {
	ask := sized(1, 8, 2).guest("rt", 2, 1).guest("web", 2, 0)
	for i := range ask.CPUs {
		ask.CPUs[i].Isolated = ask.CPUs[i].Core >= 4
	}
	rt, web := &ask.Guests[0], &ask.Guests[1]
	rt.Pins, rt.Emulator, rt.Realtime = []int{4, 5}, setting.CPUs(12, 13), true
	rt.Workers = []Worker{{NIC: rt.NICs[0].MAC, CPUs: rt.Emulator}}
	rt.vhostFollow, rt.threadsStay, web.Shared = true, true, true
	web.Masks = []setting.CPUSet{{0, 1, 2, 3, 8, 9, 10, 11}, {0, 1, 2, 3, 8, 9, 10, 11}}
	web.stayAsIs(Bystander)
	r := Place(ask)
	p := r.Guest("rt")
	if p == nil || len(p.Emulator.And(setting.CPUs(4, 5, 12, 13))) > 0 || !p.Vhost[0].Stays.Equal(p.Emulator) ||
		len(r.GivesWay) == 0 {
		t.Errorf("%s: %+v, %+v", picture(r), p, r.GivesWay)
	}
}

// TestOnSameCores: of pins that share cores with another guest's, a placement does not say that they are well.
func TestOnSameCores(t *testing.T) {
	ask := sized(1, 4, 2).guest("a", 2, 0).guest("b", 2, 0)
	ask.Guests[0].Pins, ask.Guests[1].Pins = []int{2, 3}, []int{6, 7}
	r := Place(ask)
	const want = "its vCPUs are pinned one by one, and stay, although b has vCPUs on the same cores"
	must.Equal(t, r.Guest("a").Why, want, "%s", picture(r))
}
