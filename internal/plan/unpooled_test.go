package plan

import (
	"slices"
	"testing"

	"mpps/internal/facts"
	"mpps/internal/knob"
	"mpps/internal/setting"
)

// TestHugePagesNeedAPool: a guest's definition gets huge pages where a pool has room, or the plan makes one at the next boot; where neither
// is so the guest would not start again, and the plan says why it leaves them out.
func TestHugePagesNeedAPool(t *testing.T) {
	at := setting.Of(setting.Domain, "rt1", "memoryBacking/hugepages")
	small := []facts.Hugepages{{Size: 2 << 20}}
	for name, c := range map[string]struct {
		change  func(*facts.Host)
		planned bool
	}{
		"the plan makes the pool": {func(*facts.Host) {}, true},
		"the processor has no such pages, and no pool": {func(h *facts.Host) {
			h.Topology.Hugepages = small
			for i := range h.Topology.Nodes {
				h.Topology.Nodes[i].Hugepages = small
			}
		}, false},
		"the memory is too small for a pool": {func(h *facts.Host) {
			for i := range h.Topology.Nodes {
				h.Topology.Nodes[i].Memory = 1 << 30
			}
		}, false},
		"a kernel that spreads pages over nodes of which one is small": {func(h *facts.Host) {
			h.Kernel.Release = "5.14.0-1"
			h.Topology.Nodes = append(h.Topology.Nodes, facts.Node{ID: 7, Memory: 4 << 30})
		}, false},
		"a newer kernel beside a small node": {func(h *facts.Host) {
			h.Kernel.Release = "5.16.0-1"
			h.Topology.Nodes = append(h.Topology.Nodes, facts.Node{ID: 7, Memory: 4 << 30})
		}, true},
		"small pages, and enough of them": {func(h *facts.Host) {
			enough := []facts.Hugepages{{Size: 2 << 20, Total: 1 << 16, Free: 1 << 16}}
			h.Topology.Hugepages = enough
			for i := range h.Topology.Nodes {
				h.Topology.Nodes[i].Hugepages = enough
			}
		}, true},
	} {
		h := realtimeHost()
		c.change(h)
		p, err := Make(h, realtimeGoal(), knob.Catalogue())
		if err != nil {
			t.Fatal(err)
		}
		planned := slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Address == at })
		skipped := slices.ContainsFunc(p.Skipped, func(s Skipped) bool { return s.Address == at })
		if planned != c.planned || skipped == c.planned {
			t.Errorf("%s: planned %v, left out with a reason %v", name, planned, skipped)
		}
	}
}
