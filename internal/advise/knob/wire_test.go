package knob

import (
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/must"
)

// TestWireNote: a gigabit carries 1488 kpps of the shortest frames.
func TestWireNote(t *testing.T) {
	host := func(speeds ...int) *facts.Host {
		h := &facts.Host{Bridges: []facts.Bridge{{Name: "br0"}}}
		for i, speed := range speeds {
			name := "eth" + string(rune('0'+i))
			h.NICs = append(h.NICs, facts.NIC{Name: name, Up: true, Speed: speed, Master: "br0"})
			h.Bridges[0].Ports = append(h.Bridges[0].Ports, name)
		}
		return h
	}
	for name, c := range map[string]struct {
		h    *facts.Host
		g    goal.Goal
		want string // part of the note; empty: none
	}{
		"too slow":     {host(1000), goal.Goal{PPS: 1.8e6}, "at most 1488 kpps of 64-byte frames"},
		"large frames": {host(1000), goal.Goal{PPS: 100e3, Frame: 1518}, "at most 81 kpps"},
		"enough":       {host(1000), goal.Goal{PPS: 1.4e6}, ""},
		"two links":    {host(1000, 1000), goal.Goal{PPS: 1.8e6}, ""},
		"bulk":         {host(10000), goal.Goal{Bulk: 25e9}, "carry 10000 Mb/s each way"},
		"not told":     {host(1000, -1), goal.Goal{PPS: 9e6}, ""},
		"no NIC":       {host(), goal.Goal{PPS: 1.8e6}, ""},
	} {
		got := WireNote(c.h, c.g)
		must.Hold(t, (got == "") == (c.want == "") && strings.Contains(got, c.want),
			"%s: expected %q, found %q", name, c.want, got)
	}
}
