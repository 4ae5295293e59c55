package placement

import (
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestConfined: a guest whose control group confines it to some CPUs has no thread elsewhere.
func TestConfined(t *testing.T) {
	ask := sized(1, 16, 1).guest("pod", 4, 0)
	g := &ask.Guests[0]
	g.Pins, g.NICs, g.Confined = []int{4, 5, 6, 7}, nil, setting.CPUs(4, 5, 6, 7, 12)
	if p := Place(ask).Guest("pod"); p == nil || !p.Emulator.Equal(setting.CPUs(12)) {
		t.Errorf("expected the emulator on CPU 12, found %+v", p)
	}
	g.Confined = setting.CPUs(4, 5, 6, 7)
	if p := Place(ask).Guest("pod"); p == nil || len(p.Emulator.Minus(g.Confined)) > 0 || len(p.Emulator) == 0 {
		t.Errorf("expected the emulator on CPUs 4-7, found %+v", p)
	}
}

// TestManyThreads: more vhost threads than four for each free core still go to free cores, not to the host's CPUs.
func TestManyThreads(t *testing.T) {
	ask := sized(1, 12, 1).nic(0).guest("router", 4, 32)
	p := Place(ask).Guest("router")
	if p == nil || len(p.Vhost) != 32 {
		t.Fatalf("expected 32 threads, found %+v", p)
	}
	house := Place(ask).Housekeeping
	on := map[int]int{}
	for _, w := range p.Vhost {
		on[w.CPU]++
	}
	must.Hold(t, len(on) >= 4 && len(house.And(p.VhostCPUs())) <= 0,
		"expected four free cores or more and none of %s, found %v", house, on)
}

// TestHouse: where emulators of several guests are pinned apart from their vhost threads is the host's part, not the
// CPUs that vhost threads share.
func TestHouse(t *testing.T) {
	ask := sized(1, 16, 1).nic(0).guest("a", 2, 2).guest("b", 2, 2)
	for i := range ask.Guests {
		g := &ask.Guests[i]
		g.Pins, g.Emulator = []int{2 + 2*i, 3 + 2*i}, setting.CPUs(0)
		for q := range 2 {
			g.Workers = append(g.Workers, Worker{NIC: g.NICs[0].MAC, Queue: q, CPUs: setting.CPUs(8 + q)})
		}
	}
	if house := Place(ask).Housekeeping; !house.Has(0) || house.Has(8) {
		t.Errorf("expected CPU 0 among the host's and not CPU 8, found %s", house)
	}
}

// TestFarMemory: a guest that is bound to memory without CPUs belongs on the nearest node that has some.
func TestFarMemory(t *testing.T) {
	h := &facts.Host{Topology: facts.Topology{Nodes: []facts.Node{
		{ID: 0, CPUs: setting.CPUs(0), Distances: []int{10, 21, 23, 13}},
		{ID: 1, CPUs: setting.CPUs(1), Distances: []int{21, 10, 13, 23}},
		{ID: 2, Distances: []int{23, 13, 10, 24}}, {ID: 3, Distances: []int{13, 23, 24, 10}},
	}}}
	for nodes, want := range map[string]string{"2": "1", "3": "0", "1": "1", "2-3": "0-1", "": ""} {
		set, _ := setting.ParseCPUs(nodes)
		if got := besideCPUs(h, set).String(); got != want {
			t.Errorf("memory on %q: expected node %q, found %q", nodes, want, got)
		}
	}
}
