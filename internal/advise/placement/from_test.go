package placement

import (
	"testing"
	"time"

	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestPaused checks that a paused guest keeps its CPUs, and that one that is shut off has none.
func TestPaused(t *testing.T) {
	for state, taken := range map[string]bool{"running": true, "paused": true, "in shutdown": true, "shut off": false,
		"crashed": false} {
		h := facts.Synthetic(facts.Size{CPUs: 16})
		h.Guests = []facts.Guest{
			{Name: "old", State: state, VCPUs: 2, Memory: 1 << 28,
				Pins: []setting.CPUSet{setting.CPUs(2), setting.CPUs(3)}},
			{Name: "new", State: "running", VCPUs: 2, Memory: 1 << 28},
		}
		r := Place(From(h, goal.Goal{PPS: 100e3, Guest: "new"}))
		must.Equal(t, r.Guest("old") != nil, taken, "%s: has a place", state)
		for _, v := range r.Guest("new").VCPUs {
			if taken && (v.CPU == 2 || v.CPU == 3) {
				t.Errorf("%s: its CPU %d is given away", state, v.CPU)
			}
		}
	}
}

// TestNotMoved checks that guests have no other place that a plan does not move: one that is paused and pinned nowhere,
// and one that libvirt does not know, however badly it is pinned.
func TestNotMoved(t *testing.T) {
	h := facts.Synthetic(facts.Size{CPUs: 16})
	h.Guests = []facts.Guest{
		{Name: "paused", Managed: true, State: "paused", VCPUs: 2, Memory: 1 << 28},
		{Name: "stray", State: "running", VCPUs: 2, Memory: 1 << 28,
			Pins: []setting.CPUSet{setting.CPUs(2), setting.CPUs(2)}},
	}
	r := Place(From(h, goal.Goal{PPS: 100e3}))
	if r.LeftAlone("paused") == nil {
		t.Errorf("paused: %+v", r.Guest("paused"))
	}
	if p := r.Guest("stray"); p == nil || !p.Kept || !p.VCPUSet().Equal(setting.CPUs(2)) {
		t.Errorf("stray: %+v", p)
	}
}

// TestQuiet checks that no NIC's interrupts go to the CPUs of a latency goal, which will be isolated, whether or not
// the guest needs all of them. Those of a packet rate goal are only allowed to the guest.
func TestQuiet(t *testing.T) {
	h := facts.Synthetic(facts.Size{CPUs: 16})
	given := h.Topology.Nodes[0].CPUs[1:]
	for name, g := range map[string]goal.Goal{"latency": {Latency: 20 * time.Microsecond, CPUs: given},
		"packets": {PPS: 1.8e6, CPUs: given}} {
		ask := From(h, g)
		ask.NICs = []NIC{{Name: "eth0", Node: 0}}
		ask.Guests = nil
		on := setting.CPUs(Place(ask).NIC("eth0").CPUs...)
		must.Equal(t, len(on.And(given)) == 0, g.Latency > 0,
			"%s: interrupts on CPUs %s, given are %s", name, on, given)
	}
}
