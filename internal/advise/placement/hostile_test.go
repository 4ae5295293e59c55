package placement

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"mpps/internal/must"
)

// TestHostile checks that absurd numbers make the placement neither slow nor wrong.
func TestHostile(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	many := sized(64, 2, 2).nic(0)
	for i := range 100 {
		many = many.guest(fmt.Sprintf("vm%03d", i), 1+i%7, 1+i%3)
		many.Guests[i].Memory = uint64(1+i%5) << 30
	}
	giant := sized(2, 4, 2).nic(0).guest("giant", 1<<30, 4).guest("small", 2, 1).guest("none", 1, 256)
	odd := sized(2, 2, 1).nic(7).guest("vm", 2, 1).guest("vm", 1, 1)
	odd.CPUs = append(odd.CPUs, CPU{ID: 9, Core: -1, Node: -1}, CPU{ID: 10, Core: -1, Node: 5})
	odd.Nodes[0].Distances = map[int]int{1: -5}
	odd.Nodes[1].Distances = nil
	odd.Guests[0].Memory = 1 << 63
	for name, ask := range map[string]Ask{"many nodes": many, "a giant": giant, "odd": odd, "nothing": {},
		"only a guest": Ask{}.guest("vm", 1, 1)} {
		start := cpuTime(t)
		r := Place(ask)
		took := cpuTime(t) - start
		must.Hold(t, took <= 5*time.Second, "%s took %v of CPU time", name, took)
		if all := len(r.Guests) + len(r.Refused) + len(r.Left); all != len(ask.Guests) && name != "odd" {
			t.Errorf("%s: %d of %d guests", name, all, len(ask.Guests))
		}
		t.Logf("%s: %v, %d placed, %d refused", name, took, len(r.Guests), len(r.Refused))
	}
}
