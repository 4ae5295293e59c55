package queues

import (
	"slices"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestLanesByTap: a lane of an address is that of the guest's tap, one of a name stays, and so does one of a guest that
// is gone.
func TestLanesByTap(t *testing.T) {
	h := &facts.Host{Guests: []facts.Guest{{Name: "vm0",
		Interfaces: []facts.Interface{{MAC: "52:54:00:00:00:01", Tap: "vnet7"}, {MAC: "52:54:00:00:00:02"}}}}}
	lanes := must.Get(setting.ParseLanes("52:54:00:00:00:01=0+4 52:54:00:00:00:02=4+2 tap3=6+1"))(t)
	want := []setting.Lane{{Tap: "vnet7", Base: 0, Count: 4}, {Tap: "52:54:00:00:00:02", Base: 4, Count: 2},
		{Tap: "tap3", Base: 6, Count: 1}}
	if named := lanesByTap(lanes, h); !slices.Equal(named, want) {
		t.Errorf("found %v, expected %v", named, want)
	}
}
