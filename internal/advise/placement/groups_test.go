package placement

import (
	"fmt"
	"testing"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestGroups: guests of several control groups keep all of their threads within them, and one whose group is too
// small is refused.
func TestGroups(t *testing.T) {
	t.Parallel()
	ask := Ask{Nodes: []Node{{ID: 0, Memory: 64 << 30}}}
	for cpu := range 16 {
		ask.CPUs = append(ask.CPUs, CPU{ID: cpu, Core: cpu})
	}
	slice, pod := setting.CPUs(8, 9, 10, 11, 12, 13, 14, 15), setting.CPUs(2, 3, 4)
	for i := range 2 {
		ask.Guests = append(ask.Guests, Guest{Name: fmt.Sprint("vm", i), VCPUs: 2, Memory: 1 << 30, Confined: slice,
			Emulator: setting.CPUs(8), NICs: []Interface{{MAC: fmt.Sprint(i), Queues: 2}}})
	}
	ask.Guests = append(ask.Guests, Guest{Name: "pod", VCPUs: 2, Memory: 1 << 30, Confined: pod,
		NICs: []Interface{{MAC: "p", Queues: 1}}}, Guest{Name: "large", VCPUs: 6, Memory: 1 << 30, Confined: pod})
	r := Place(ask)
	for _, g := range ask.Guests[:3] {
		p := r.Guest(g.Name)
		if p == nil {
			t.Errorf("%s has no place: %+v", g.Name, r.Refusal(g.Name))
			continue
		}
		for what, cpus := range map[string]setting.CPUSet{"vCPUs": p.VCPUSet(), "vhost": p.VhostCPUs(),
			"emulator": p.Emulator} {
			must.Hold(t, len(cpus) != 0 && len(cpus.Minus(g.Confined)) <= 0,
				"%s of %s on %s, its group has %s", what, g.Name, cpus, g.Confined)
		}
	}
	if r.Refusal("large") == nil {
		t.Errorf("a guest of 6 vCPUs has a place in %s: %+v", pod, r.Guest("large"))
	}
}
