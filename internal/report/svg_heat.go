package report

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"

	"mpps/internal/measure"
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

// maxStrip is how many CPUs of a machine are drawn: the busiest.
const maxStrip = 64

// cpuStrip draws, for each series, one row a CPU of the near machine: left a cell a trial, the darker the busier, right
// how its time was split over all trials.
func cpuStrip(runs []labeled) template.HTML {
	const left, cells, split, right = 46, 120, 174, svgWidth - 4
	d := &drawing{height: 22}
	d.text("tick", "start", left, 13, "busy, by trial")
	at := float64(split) - 36
	for _, part := range cpuParts {
		d.rect("cpu-"+part.class, at, 6, 7, 7, "")
		d.text("small", "start", at+9, 13, part.name)
		at += 17 + float64(len(part.name))*4.6
	}
	drawn := false
	for _, r := range runs {
		use, idle := nearCPUs(r.Run)
		if len(use) == 0 {
			continue
		}
		drawn = true
		row := 15.0
		if len(use) > 16 {
			row = 8
		}
		d.height += 16
		name := short(r.label)
		if idle > 0 {
			name += fmt.Sprintf(" (%s less busy not drawn)", count(idle, "CPU"))
		}
		d.text("label", "start", 0, d.height, name)
		d.height += 6
		for i, u := range use {
			if row > 10 || i%4 == 0 {
				d.text("tick", "end", left-5, d.height+min(row-4, 11), fmt.Sprintf("CPU %d", u.CPU))
			}
			d.cells(r.Run, u.CPU, left, d.height, cells, row)
			d.split(u, split, d.height, right-split, row)
			d.height += row
		}
	}
	if !drawn {
		return ""
	}
	d.height += 4
	return d.svg("how busy each CPU was in each trial, and with what")
}

// maxCells is how many cells a strip has: of more trials each cell is several.
const maxCells = 60

// cells draws how busy one CPU was, trial by trial.
func (d *drawing) cells(r *measure.Run, cpu int, x, y, width, row float64) {
	trials := (len(r.Samples) + maxCells - 1) / maxCells // of a cell
	cells := (len(r.Samples) + trials - 1) / trials
	each := width / float64(cells)
	gap := min(1, each/4)
	for i := range cells {
		first, end := i*trials, min((i+1)*trials, len(r.Samples))
		var busy, whole float64
		for _, s := range r.Samples[first:end] {
			if len(s.CPU) == 0 {
				continue
			}
			if at := slices.IndexFunc(s.CPU[0].CPUs, func(u measure.CPUUse) bool { return u.CPU == cpu }); at >= 0 {
				u := s.CPU[0].CPUs[at]
				busy, whole = busy+u.Busy(), whole+u.Busy()+u.Steal+u.Idle
			}
		}
		name := fmt.Sprintf("trial %d", first+1)
		if end > first+1 {
			name = fmt.Sprintf("trials %d to %d", first+1, end)
		}
		if whole > 0 {
			d.shade(busy/whole, x+float64(i)*each, y, each-gap, row-2, fmt.Sprintf("CPU %d, %s: %.0f %% busy", cpu, name, busy/whole*100))
		}
	}
}

// shade is a cell whose ink is a share, 0–1.
func (d *drawing) shade(share, x, y, w, h float64, title string) {
	d.rect("idle", x, y, w, h, "")
	fmt.Fprintf(&d.b, `<rect class="heat" fill-opacity="%.2f" x="%s" y="%s" width="%s" height="%s">%s</rect>`,
		min(max(share, 0), 1), px(x), px(y), px(max(w, 0.3)), px(h), titled(title))
}

// split draws how a CPU's time was split.
func (d *drawing) split(u measure.CPUUse, x, y, width, row float64) {
	total := u.Busy() + u.Steal + u.Idle
	if total <= 0 {
		return
	}
	d.rect("idle", x, y, width, row-3, fmt.Sprintf("CPU %d: %.0f %% idle", u.CPU, u.Idle/total*100))
	for _, part := range cpuParts {
		share := part.of(u) / total
		if share < 0.002 {
			continue
		}
		d.rect("cpu-"+part.class, x, y, share*width, row-3, fmt.Sprintf("CPU %d: %.0f %% %s", u.CPU, share*100, part.name))
		x += share * width
	}
}

// nearCPUs adds up the near machine's CPU use over all samples: of the busiest CPUs, in their order, and the number of
// those that are left out.
func nearCPUs(r *measure.Run) (use []measure.CPUUse, left int) {
	var sums []measure.CPUUse
	for _, s := range r.Samples {
		if len(s.CPU) == 0 {
			continue
		}
		for _, u := range s.CPU[0].CPUs {
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
