package bench

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"

	"mpps/internal/measure"
	"mpps/internal/report/svg"
	"mpps/internal/report/words"
)

// cpuParts are the ways in which a CPU spends its time, as the heat strip stacks and names them.
var cpuParts = []struct {
	class, name string
	of          func(measure.CPUUse) float64
}{
	{"guest", "guest", func(u measure.CPUUse) float64 { return u.Guest }},
	{"softirq", "softirq", func(u measure.CPUUse) float64 { return u.SoftIRQ + u.IRQ }},
	{"system", "system", func(u measure.CPUUse) float64 { return u.System }},
	{"user", "user", func(u measure.CPUUse) float64 { return u.User + u.Nice }},
	{"steal", "stolen", func(u measure.CPUUse) float64 { return u.Steal }},
}

// The strip of a machine has its busiest CPUs, and of each so many cells, of which each is several trials where there are more.
const maxStrip, maxCells = 64, 60

// Places in the strip: of the cells and of the split.
const stripCells, stripSplit = 120, 174

// cpuStrip draws, for each series, a row for each CPU of the near machine: left a cell for each trial, the darker the
// busier, right how its time was split over all trials.
func cpuStrip(runs []labeled) template.HTML {
	d := svg.New(46, 4)
	d.Text("tick", "start", d.Left, 13, "busy, by trial")
	at := float64(stripSplit) - 36
	for _, part := range cpuParts {
		d.Rect("cpu-"+part.class, at, 6, 7, 7, "")
		d.Text("small", "start", at+9, 13, part.name)
		at += 17 + float64(len(part.name))*4.6
	}
	const head = 22
	d.Y = head
	for _, r := range runs {
		use, idle := nearCPUs(r.Run)
		if len(use) == 0 {
			continue
		}
		row := 15.0
		if len(use) > 16 {
			row = 8
		}
		d.Y += 16
		d.Text("label", "start", 0, d.Y, short(r.Label)+words.If(idle > 0, " (%s less busy not drawn)", words.Count(idle, "CPU")))
		d.Y += 6
		for i, u := range use {
			if row > 10 || i%4 == 0 {
				d.Text("tick", "end", d.Left-5, d.Y+min(row-4, 11), fmt.Sprintf("CPU %d", u.CPU))
			}
			trialCells(d, r.Run, u.CPU, row)
			timeSplit(d, u, row)
			d.Y += row
		}
	}
	if d.Y == head {
		return ""
	}
	d.Y += 4
	return d.HTML("how busy each CPU was in each trial, and with what")
}

// trialCells draws how busy one CPU was, trial by trial.
func trialCells(d *svg.Drawing, r *measure.Run, cpu int, row float64) {
	trials := (len(r.Samples) + maxCells - 1) / maxCells // of a cell
	width := float64(stripCells) / float64((len(r.Samples)+trials-1)/trials)
	x := d.Left
	for first := 0; first < len(r.Samples); first += trials {
		end := min(first+trials, len(r.Samples))
		var busy, whole float64
		for _, s := range r.Samples[first:end] {
			for _, u := range nearUse(&s) {
				if u.CPU == cpu {
					busy, whole = busy+u.Busy(), whole+u.Busy()+u.Steal+u.Idle
				}
			}
		}
		name := fmt.Sprintf("trial %d", first+1)
		if end > first+1 {
			name = fmt.Sprintf("trials %d to %d", first+1, end)
		}
		if whole > 0 {
			d.Cell(busy/whole, x, d.Y, width-min(1, width/4), row-2, fmt.Sprintf("CPU %d, %s: %.0f %% busy", cpu, name, busy/whole*100))
		}
		x += width
	}
}

// timeSplit draws how a CPU's time was split.
func timeSplit(d *svg.Drawing, u measure.CPUUse, row float64) {
	total := u.Busy() + u.Steal + u.Idle
	if total <= 0 {
		return
	}
	x, width := float64(stripSplit), d.Right-stripSplit
	d.Rect("idle", x, d.Y, width, row-3, fmt.Sprintf("CPU %d: %.0f %% idle", u.CPU, u.Idle/total*100))
	for _, part := range cpuParts {
		if share := part.of(u) / total; share >= 0.002 {
			d.Rect("cpu-"+part.class, x, d.Y, share*width, row-3, fmt.Sprintf("CPU %d: %.0f %% %s", u.CPU, share*100, part.name))
			x += share * width
		}
	}
}

// nearUse is the CPU use of the near machine in a sample.
func nearUse(s *measure.Sample) []measure.CPUUse {
	if len(s.CPU) == 0 {
		return nil
	}
	return s.CPU[0].CPUs
}

// nearCPUs adds up the near machine's CPU use over all samples: of the busiest CPUs, in their order, and the number of
// those that are left out.
func nearCPUs(r *measure.Run) (use []measure.CPUUse, left int) {
	var sums []measure.CPUUse
	for i := range r.Samples {
		for _, u := range nearUse(&r.Samples[i]) {
			at := slices.IndexFunc(sums, func(have measure.CPUUse) bool { return have.CPU == u.CPU })
			if at < 0 {
				sums, at = append(sums, measure.CPUUse{CPU: u.CPU}), len(sums)
			}
			t := &sums[at]
			t.User, t.Nice, t.System, t.SoftIRQ = t.User+u.User, t.Nice+u.Nice, t.System+u.System, t.SoftIRQ+u.SoftIRQ
			t.IRQ, t.Guest, t.Steal, t.Idle = t.IRQ+u.IRQ, t.Guest+u.Guest, t.Steal+u.Steal, t.Idle+u.Idle
		}
	}
	if len(sums) > maxStrip {
		slices.SortStableFunc(sums, func(a, b measure.CPUUse) int { return cmp.Compare(b.Busy(), a.Busy()) })
		left, sums = len(sums)-maxStrip, sums[:maxStrip]
	}
	slices.SortFunc(sums, func(a, b measure.CPUUse) int { return cmp.Compare(a.CPU, b.CPU) })
	return sums, left
}
