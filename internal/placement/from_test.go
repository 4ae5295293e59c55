package placement

import (
	"testing"

	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

// TestPaused: a paused guest goes on where it was, so nobody else gets its CPUs; one that is shut off has none.
func TestPaused(t *testing.T) {
	for state, taken := range map[string]bool{"running": true, "paused": true, "in shutdown": true, "shut off": false, "crashed": false} {
		h := facts.Synthetic(facts.Size{CPUs: 16})
		h.Guests = []facts.Guest{
			{Name: "old", State: state, VCPUs: 2, Memory: 1 << 28, Pins: []setting.CPUSet{setting.CPUs(2), setting.CPUs(3)}},
			{Name: "new", State: "running", VCPUs: 2, Memory: 1 << 28},
		}
		r := Place(From(h, goal.Goal{PPS: 100e3, Guest: "new"}))
		if got := r.Guest("old") != nil; got != taken {
			t.Errorf("%s: has a place: %v", state, got)
		}
		for _, v := range r.Guest("new").VCPUs {
			if taken && (v.CPU == 2 || v.CPU == 3) {
				t.Errorf("%s: its CPU %d is given away", state, v.CPU)
			}
		}
	}
}
