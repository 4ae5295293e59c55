package facts

import (
	"testing"

	"mpps/internal/must"
)

// TestWatch: a guest with a busy NIC and a quiet one reports whether the order in which its threads were made is the
// order of its NICs; with less to see nothing is said.
func TestWatch(t *testing.T) {
	const first, second = "52:54:00:00:00:01", "52:54:00:00:00:02"
	at := func(packets, ran [2]uint64, sure Sure) *Host {
		return &Host{
			Taps: []Tap{
				{Name: "vnet0", Stats: map[string]uint64{"rx_packets": packets[0] / 2,
					"tx_packets": packets[0] - packets[0]/2}},
				{Name: "vnet1", Stats: map[string]uint64{"rx_packets": packets[1]}},
			},
			Guests: []Guest{{
				Interfaces: []Interface{{MAC: first, Tap: "vnet0"}, {MAC: second, Tap: "vnet1"}},
				Threads: []Thread{
					{TID: 10, Role: "emulator", RunNS: 9e9},
					{TID: 11, Role: "vhost", NIC: first, RunNS: ran[0], Sure: sure},
					{TID: 12, Role: "vhost", NIC: second, RunNS: ran[1], Sure: sure},
				},
			}},
		}
	}
	for name, c := range map[string]struct {
		packets, ran [2]uint64 // within the interval
		was, want    Sure
	}{
		"the busy one's thread ran":    {[2]uint64{5000, 0}, [2]uint64{3e6, 4e3}, ByOrder, ByTraffic},
		"the other's thread ran":       {[2]uint64{5000, 1}, [2]uint64{4e3, 3e6}, ByOrder, NotByOrder},
		"both threads ran":             {[2]uint64{5000, 0}, [2]uint64{3e6, 2e6}, ByOrder, ByOrder},
		"no thread ran":                {[2]uint64{5000, 0}, [2]uint64{0, 0}, ByOrder, ByOrder},
		"both are busy":                {[2]uint64{5000, 5000}, [2]uint64{3e6, 0}, ByOrder, ByOrder},
		"both are quiet":               {[2]uint64{2, 0}, [2]uint64{3e6, 0}, ByOrder, ByOrder},
		"neither busy nor quiet":       {[2]uint64{5000, 50}, [2]uint64{3e6, 3e6}, ByOrder, ByOrder},
		"there was nothing to find":    {[2]uint64{5000, 0}, [2]uint64{3e6, 4e3}, OnlyOne, OnlyOne},
		"the kernel counts no runtime": {[2]uint64{5000, 0}, [2]uint64{0, 4e3}, ByOrder, ByOrder},
	} {
		start := uint64(1e6)
		before := at([2]uint64{70, 90}, [2]uint64{start, start}, c.was)
		after := at([2]uint64{70 + c.packets[0], 90 + c.packets[1]}, [2]uint64{start + c.ran[0], start + c.ran[1]},
			c.was)
		if name == "the kernel counts no runtime" {
			after.Guests[0].Threads[1].RunNS = 0
		}
		ConfirmByTraffic(before, after)
		for _, thread := range after.Guests[0].Threads[1:] {
			must.Equal(t, thread.Sure, c.want, "%s", name)
		}
	}
}
