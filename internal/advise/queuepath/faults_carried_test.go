package queuepath

import (
	"strings"
	"testing"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestCollisionOfLanes: where mpps's own program chose, it is named and not a hash of the flow.
func TestCollisionOfLanes(t *testing.T) {
	for what, c := range map[string]struct {
		lanes []setting.Lane
		cause string
		mend  string
	}{
		"windows that do not fit": {[]setting.Lane{{Tap: "vnet0", Base: 3, Count: 1},
			{Tap: "vnet1", Base: 3, Count: 1}}, "mpps's lane program leads them there", steerCommand},
		"lanes that go astray": {[]setting.Lane{{Tap: "vnet0", Base: 0, Count: 2}, {Tap: "vnet1", Base: 4, Count: 2}},
			"do not come out where they were planned", "tc filter show dev vnet0 ingress"},
		"a guest without": {[]setting.Lane{{Tap: "vnet0", Base: 3, Count: 1}}, "a hash of the flow", steerCommand},
	} {
		h := steerHost(2, 2, 8)
		o := seenOn(h, func(_, _ int) uint64 { return 20_000 }, func(_, _ int) int { return 3 })
		o.Devices[0].Lanes = c.lanes
		faults := Faults(o)
		must.Hold(t, len(faults) != 0 && strings.Contains(faults[0].Cause, c.cause) && faults[0].Mend.Command == c.mend,
			"%s: %+v", what, faults)
	}
}
