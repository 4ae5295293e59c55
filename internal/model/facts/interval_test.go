package facts

import (
	"testing"
	"time"

	"mpps/internal/must"
)

func TestBetween(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	before := &Host{
		Taken:   began,
		Softnet: []Softnet{{CPU: 0, Processed: 100, Dropped: 7, Squeezed: 3}, {CPU: 1, Processed: 50}},
		NICs: []NIC{{Name: "eth0", Stats: map[string]uint64{"rx_packets": 1000, "rx_missed_errors": 5},
			IRQs: []IRQ{{Number: 1, Count: 10}, {Number: 2, Count: 20}}}},
		Taps: []Tap{{Name: "vnet0", Stats: map[string]uint64{"tx_dropped": 4}}},
	}
	after := &Host{
		Taken: began.Add(2 * time.Second),
		Softnet: []Softnet{{CPU: 0, Processed: 300, Dropped: 9, Squeezed: 3, BacklogLen: 8}, {CPU: 1, Processed: 10},
			{CPU: 2, Processed: 5}},
		NICs: []NIC{
			{Name: "eth0", Stats: map[string]uint64{"rx_packets": 5000, "rx_missed_errors": 5, "tx_packets": 1},
				IRQs: []IRQ{{Number: 1, Count: 15}, {Number: 2, Count: 25}}},
			{Name: "eth1", Stats: map[string]uint64{"rx_packets": 77}},
		},
		Taps: []Tap{{Name: "vnet0", Stats: map[string]uint64{"tx_dropped": 1}}},
	}
	d := Between(before, after)
	if d == nil || d.Seconds != 2 {
		t.Fatalf("interval %+v", d)
	}
	if d.Dropped() != 2 || d.Processed() != 205 {
		t.Errorf("dropped %d, processed %d; expected 2 and 205 (CPU 1 ran backwards, CPU 2 is new)", d.Dropped(),
			d.Processed())
	}
	must.Equal(t, d.Softnet[0].BacklogLen, 8, "backlog length at the end")
	if n, name := d.Counter("eth0", "rx_no_such", "rx_packets"); n != 4000 || name != "rx_packets" {
		t.Errorf("counter %s %d", name, n)
	}
	if n, name := d.Counter("eth0", "rx_missed_errors"); n != 0 || name != "rx_missed_errors" {
		t.Errorf("counter %s %d; expected 0 of one that is there", name, n)
	}
	if _, name := d.Counter("eth1", "rx_packets"); name != "" {
		t.Error("a device that was not there before has an increase")
	}
	if n, _ := d.Counter("vnet0", "tx_dropped"); n != 0 {
		t.Errorf("a counter that ran backwards grew by %d", n)
	}
	must.Equal(t, d.IRQs["eth0"], 10, "interrupts")
	must.Hold(t, Between(after, before) == nil && Between(before, before) == nil, "an interval without time")
}
