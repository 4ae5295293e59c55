package facts

// Interval is what was counted between two looks at the host. Totals since boot prove nothing about now: knobs that
// decide by losses look only at these differences.
type Interval struct {
	Seconds float64                      `json:"seconds"`
	Softnet []Softnet                    `json:"softnet"` // increase by CPU; BacklogLen is the value at the end
	Devices map[string]map[string]uint64 `json:"devices"` // increase of NIC.Stats and Tap.Stats by device and counter
	IRQs    map[string]uint64            `json:"irqs"`    // interrupts by NIC
}

// Between is what was counted between two inventories of the same host. A counter that ran backwards (driver reload,
// device gone) counts as 0. It returns nil where no time passed between the two.
func Between(before, after *Host) *Interval {
	seconds := after.Taken.Sub(before.Taken).Seconds()
	if seconds <= 0 {
		return nil
	}
	d := &Interval{Seconds: seconds, Devices: map[string]map[string]uint64{}, IRQs: map[string]uint64{}}

	d.Softnet = SoftnetBetween(before.Softnet, after.Softnet)

	stats, irqs := map[string]map[string]uint64{}, map[string]uint64{}
	for _, n := range before.NICs {
		stats[n.Name], irqs[n.Name] = n.Stats, interrupts(n)
	}
	for _, t := range before.Taps {
		stats[t.Name] = t.Stats
	}
	for _, n := range after.NICs {
		if was, seen := stats[n.Name]; seen {
			d.Devices[n.Name] = increase(was, n.Stats)
			d.IRQs[n.Name] = Grown(irqs[n.Name], interrupts(n))
		}
	}
	for _, t := range after.Taps {
		if was, seen := stats[t.Name]; seen {
			d.Devices[t.Name] = increase(was, t.Stats)
		}
	}
	return d
}

// SoftnetBetween is the increase of each CPU's row; BacklogLen is the value at the end. A row that was not there before
// counts whole.
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
			Processed: Grown(was.Processed, row.Processed), Dropped: Grown(was.Dropped, row.Dropped),
			Squeezed: Grown(was.Squeezed, row.Squeezed), RPS: Grown(was.RPS, row.RPS),
			FlowLimit: Grown(was.FlowLimit, row.FlowLimit),
		})
	}
	return rows
}

// Dropped and Squeezed are the interval's sums over all CPUs.
func (d *Interval) Dropped() uint64  { return d.sum(func(s Softnet) uint64 { return s.Dropped }) }
func (d *Interval) Squeezed() uint64 { return d.sum(func(s Softnet) uint64 { return s.Squeezed }) }

// Processed is how many packets all CPUs took in.
func (d *Interval) Processed() uint64 { return d.sum(func(s Softnet) uint64 { return s.Processed }) }

func (d *Interval) sum(field func(Softnet) uint64) (total uint64) {
	for _, row := range d.Softnet {
		total += field(row)
	}
	return total
}

// Counter is the increase of the first of the named counters that the device has, and which one that was; the name is
// empty where it has none of them.
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

func increase(before, after map[string]uint64) map[string]uint64 {
	d := make(map[string]uint64, len(after))
	for name, n := range after {
		d[name] = Grown(before[name], n)
	}
	return d
}

// Grown is by how much a counter grew; 0 where it ran backwards (a driver that was reloaded).
func Grown(before, after uint64) uint64 {
	if after < before {
		return 0
	}
	return after - before
}
