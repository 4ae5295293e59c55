package rig

import (
	"fmt"
	"slices"
	"testing"

	"mpps/internal/measure/traffic"
	"mpps/internal/measure/traffic/agent"
)

// TestFastest: agents that send take pktgen with clones only where XDP frames are not to be had and all of them have
// it, and a slow choice is said.
func TestFastest(t *testing.T) {
	of := func(kernel, driver traffic.Answer, pktgen bool) *far {
		return &far{addr: "a:1", info: agent.Info{Live: string(kernel), Pktgen: pktgen},
			nic: agent.Link{Name: "eth0", Kind: "ixgbevf", Live: string(driver)}}
	}
	for name, c := range map[string]struct {
		asked traffic.Method
		fars  []*far
		want  traffic.Method
		clone int
		warns bool
	}{
		"XDP": {Fastest, []*far{of(traffic.Yes, traffic.Yes, true)}, traffic.Auto, 0, false},
		"a function's driver": {Fastest, []*far{of(traffic.Yes, traffic.No, true)}, traffic.Pktgen, clones,
			false},
		"an old kernel": {Fastest, []*far{of(traffic.No, traffic.Unknown, true)}, traffic.Pktgen,
			clones, false},
		"no pktgen": {Fastest, []*far{of(traffic.Yes, traffic.No, false)}, traffic.Auto, 0, true},
		"one of two without pktgen": {Fastest, []*far{of(traffic.Yes, traffic.No, true), of(traffic.Yes,
			traffic.Yes, false)}, traffic.Auto, 0, true},
		"one of two needs it, all have": {Fastest, []*far{of(traffic.Yes, traffic.No, true), of(traffic.Yes,
			traffic.Yes, true)}, traffic.Pktgen, clones, false},
		"somebody chose": {traffic.AFPacket, []*far{of(traffic.Yes, traffic.Yes, true)},
			traffic.AFPacket, 0, false},
	} {
		p := &Path{}
		o := p.fastest(Options{Generator: c.asked}, c.fars)
		if o.Generator != c.want || o.Clone != c.clone || (len(p.Warnings) > 0) != c.warns {
			t.Errorf("%s: %s with %d clones, warnings %+v", name, o.Generator, o.Clone, p.Warnings)
		}
	}
}

// TestDivided: senders for several agents have streams of their own and share the rate; CPUs are shared only if there
// are too few.
func TestDivided(t *testing.T) {
	for _, c := range []struct {
		cpus []int
		n    int
		want string
	}{
		{[]int{4, 5, 6, 7}, 2, "[4 5]@0 [6 7]@2 "}, {[]int{4, 5, 6}, 2, "[4]@0 [5 6]@1 "},
		{[]int{4, 5}, 3, "[4]@0 [4]@1 [5]@2 "}, {[]int{4, 5}, 1, "[4 5]@0 "},
	} {
		lanes, err := divided(c.cpus, c.n)
		got, share := "", 0.0
		for _, l := range lanes {
			got += fmt.Sprintf("%v@%d ", l.cpus, l.stream)
			share += l.share
		}
		if err != nil || got != c.want || c.n > 1 && (share < 0.999 || share > 1.001) {
			t.Errorf("%v for %d: %s, shares sum up to %g, %v; expected %s", c.cpus, c.n, got, share, err, c.want)
		}
	}
	if lanes, err := divided(nil, 2); err != nil || len(lanes) != 2 || slices.Contains([]int{len(lanes[0].cpus),
		len(lanes[1].cpus)}, 0) {
		t.Errorf("no CPUs given: %+v, %v", lanes, err)
	}
}
