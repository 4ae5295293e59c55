package placement

import (
	"fmt"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// pinned returns an ask with its guests where a placement has them.
func (a Ask) pinned(r *Result) Ask {
	guests := a.Guests
	a.Guests = nil
	for _, g := range guests {
		p := r.Guest(g.Name)
		g.Pins, g.Emulator, g.Workers, g.queuesSet = p.VCPUSet(), p.Emulator, nil, true
		for _, v := range p.Vhost {
			g.Workers = append(g.Workers, Worker{NIC: v.NIC, Queue: v.Queue, CPUs: setting.CPUs(v.CPU)})
		}
		a.Guests = append(a.Guests, g)
	}
	return a
}

// TestPlacedAgain: guests that are pinned as they were placed have the same places, and the host keeps the same CPUs,
// also those that it shares with vhost threads of one guest alone.
func TestPlacedAgain(t *testing.T) {
	for _, c := range []struct {
		cores, threads, queues int
		guests                 [][2]int // vCPUs and queues
	}{
		{16, 2, 16, [][2]int{{4, 4}, {4, 4}, {4, 4}}},
		{16, 1, 16, [][2]int{{4, 4}, {4, 4}}},
		{8, 1, 12, [][2]int{{2, 2}, {2, 2}}},
		{4, 1, 4, [][2]int{{2, 2}}},
		{16, 2, 16, [][2]int{{4, 4}, {4, 2}, {4, 2}}},
		{14, 2, 16, [][2]int{{4, 4}, {4, 2}, {4, 2}}},
		{8, 2, 16, [][2]int{{2, 2}, {2, 2}}},
		{12, 2, 9, [][2]int{{6, 4}, {2, 4}}},
		{16, 2, 16, [][2]int{{2, 2}}},
	} {
		ask := sized(1, c.cores, c.threads).nic(0)
		ask.NICs[0].Queues = c.queues
		for i, g := range c.guests {
			ask = ask.guest(fmt.Sprintf("vm%d", i), g[0], g[1])
		}
		first := Place(ask)
		if again := Place(ask.pinned(first)); picture(again) != picture(first) {
			t.Errorf("%+v:\nfirst %s\nthen  %s", c, picture(first), picture(again))
		}
	}
}

// TestCoresBesideVCPUs: many vhost threads have all cores that a guest's vCPUs leave, when it is placed as later on.
func TestCoresBesideVCPUs(t *testing.T) {
	ask := sized(1, 16, 2).nic(0).guest("vm", 4, 60)
	first := Place(ask)
	again := Place(ask.with(func(g *Guest) { g.Pins = first.Guest("vm").VCPUSet() }))
	if one, two := first.Guest("vm").VhostCPUs(), again.Guest("vm").VhostCPUs(); !one.Equal(two) {
		t.Errorf("first %s, then %s", one, two)
	}
}

// TestStarting: vhost threads of queues that a running guest's definition has beyond those of its NICs count where they
// will begin: on the emulator's CPUs.
func TestStarting(t *testing.T) {
	h := facts.Synthetic(facts.Size{CPUs: 16})
	g := facts.Guest{Name: "vm", State: "running", VCPUs: 4, EmulatorPin: setting.CPUs(1, 2),
		Interfaces: []facts.Interface{{MAC: "52:54:00:00:00:01", Type: "bridge", Model: "virtio", Queues: 3}},
		Threads:    []facts.Thread{{Role: "vhost", NIC: "52:54:00:00:00:01", Affinity: setting.CPUs(7)}}}
	for _, emulator := range []setting.CPUSet{g.EmulatorPin, nil} {
		g.EmulatorPin = emulator
		h.Guests = []facts.Guest{g}
		ask := From(h, goal.Goal{PPS: 1.8e6})
		if w := ask.Guests[0].Workers; len(emulator) == 0 && len(w) != 1 || len(emulator) > 0 &&
			(len(w) != 3 || !w[0].CPUs.Equal(setting.CPUs(7)) || !w[2].CPUs.Equal(emulator)) {
			t.Errorf("emulator on %q: %+v", emulator, w)
		}
	}
}

// TestQueuesOfPlan: a guest's threads are placed for the number of queues that a plan gives its NIC (domain.queues),
// not for one that it changes. Where it changes none, for those of the definition.
func TestQueuesOfPlan(t *testing.T) {
	for _, c := range []struct {
		vcpus, queues, placed int
		goal                  goal.Goal
		managed               bool
	}{
		{4, 2, 4, goal.Goal{PPS: 1.8e6}, true},
		{2, 4, 2, goal.Goal{PPS: 1.8e6}, true},
		{8, 4, 4, goal.Goal{PPS: 1.8e6}, true},
		{4, 2, 2, goal.Goal{Latency: 20e3}, true},
		{4, 2, 2, goal.Goal{PPS: 1.8e6}, false},
		{4, 2, 2, goal.Goal{PPS: 1.8e6, Guest: "other"}, true},
	} {
		h := facts.Synthetic(facts.Size{CPUs: 32})
		h.Guests = []facts.Guest{{Name: "vm", State: "running", VCPUs: c.vcpus, Managed: c.managed,
			Interfaces: []facts.Interface{{MAC: "52:54:00:00:00:01", Type: "bridge", Model: "virtio", Queues: c.queues}}}}
		if n := From(h, c.goal).Guests[0].NICs[0]; n.Queues != c.placed {
			t.Errorf("%+v: %d queues", c, n.Queues)
		}
	}
}
