package facts

import "maps"

// Interval holds counter increases between two inventories of a host. Totals since boot say nothing about the present:
// knobs that decide by losses look only at these increases.
type Interval struct {
	Seconds float64                      `json:"seconds"`
	Softnet []Softnet                    `json:"softnet"`         // increase by CPU; BacklogLen is the value at the end
	Devices map[string]map[string]uint64 `json:"devices"`         // increase of NIC.Stats and Tap.Stats by device and counter
	IRQs    map[string]uint64            `json:"irqs"`            // interrupts by NIC
	Stack   map[string]uint64            `json:"stack,omitempty"` // increase of Host.Stack by counter
	// what the polling threads of Open vSwitch counted
	Polled *PolledSwitch `json:"polled,omitempty"`
}

// Between returns the counter increases between two inventories of the same host. A counter that ran backwards (driver
// reload, removed device) counts as 0. It returns nil if no time passed.
func Between(before, after *Host) *Interval {
	seconds := after.Taken.Sub(before.Taken).Seconds()
	if seconds <= 0 {
		return nil
	}
	d := &Interval{Seconds: seconds, Softnet: SoftnetBetween(before.Softnet, after.Softnet),
		Devices: map[string]map[string]uint64{}, IRQs: map[string]uint64{}}
	if len(after.Stack) > 0 {
		d.Stack = increases(before.Stack, after.Stack)
	}
	if before.OpenVSwitch != nil && after.OpenVSwitch != nil {
		d.Polled = PolledBetween(before.OpenVSwitch.Polled, after.OpenVSwitch.Polled)
	}
	stats, irqs := map[string]map[string]uint64{}, map[string]uint64{}
	for _, n := range before.NICs {
		stats[n.Name], irqs[n.Name] = n.Stats, interrupts(n)
	}
	for _, t := range before.Taps {
		stats[t.Name] = t.Stats
	}
	for _, n := range after.NICs {
		if was, seen := stats[n.Name]; seen {
			d.Devices[n.Name] = increases(was, n.Stats)
			d.IRQs[n.Name] = Increase(irqs[n.Name], interrupts(n))
		}
	}
	for _, t := range after.Taps {
		if was, seen := stats[t.Name]; seen {
			d.Devices[t.Name] = increases(was, t.Stats)
		}
	}
	return d
}

// Counted returns the interval without counters that did not increase; nil of nil.
func (d *Interval) Counted() *Interval {
	if d == nil {
		return nil
	}
	c := &Interval{Seconds: d.Seconds, Softnet: d.Softnet, Devices: map[string]map[string]uint64{}, IRQs: d.IRQs,
		Stack: counted(d.Stack), Polled: d.Polled}
	for device, counters := range d.Devices {
		c.Devices[device] = counted(counters)
	}
	return c
}

func counted(counters map[string]uint64) map[string]uint64 {
	counters = maps.Clone(counters)
	maps.DeleteFunc(counters, func(_ string, n uint64) bool { return n == 0 })
	return counters
}

// SoftnetBetween returns the increase of each CPU's row; BacklogLen is the value at the end. A new row counts in full.
func SoftnetBetween(before, after []Softnet) []Softnet {
	old := map[int]Softnet{}
	for _, row := range before {
		old[row.CPU] = row
	}
	rows := []Softnet{}
	for _, row := range after {
		was := old[row.CPU]
		rows = append(rows, Softnet{
			CPU: row.CPU, BacklogLen: row.BacklogLen,
			Processed: Increase(was.Processed, row.Processed), Dropped: Increase(was.Dropped, row.Dropped),
			Squeezed: Increase(was.Squeezed, row.Squeezed), RPS: Increase(was.RPS, row.RPS),
			FlowLimit: Increase(was.FlowLimit, row.FlowLimit), Rounds: Increase(was.Rounds, row.Rounds),
		})
	}
	return rows
}

// Dropped is the sum over all CPUs.
func (d *Interval) Dropped() uint64 { return d.sum(func(s Softnet) uint64 { return s.Dropped }) }

// Processed is the number of packets that all CPUs received.
func (d *Interval) Processed() uint64 { return d.sum(func(s Softnet) uint64 { return s.Processed }) }

func (d *Interval) sum(field func(Softnet) uint64) (total uint64) {
	for _, row := range d.Softnet {
		total += field(row)
	}
	return total
}

// Counter returns the increase of the first of the named counters that the device has, and its name; the name is empty
// if the device has none of them.
func (d *Interval) Counter(device string, names ...string) (increase uint64, name string) {
	for _, name := range names {
		if n, ok := d.Devices[device][name]; ok {
			return n, name
		}
	}
	return 0, ""
}

func interrupts(n NIC) (total uint64) {
	for _, irq := range n.IRQs {
		total += irq.Count
	}
	return total
}

func increases(before, after map[string]uint64) map[string]uint64 {
	d := make(map[string]uint64, len(after))
	for name, n := range after {
		d[name] = Increase(before[name], n)
	}
	return d
}

// Increase is the growth of a counter; 0 if it ran backwards (driver reload).
func Increase(before, after uint64) uint64 {
	if after < before {
		return 0
	}
	return after - before
}
