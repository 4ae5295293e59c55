package bench

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"mpps/internal/measure"
	"mpps/internal/report"
	"mpps/internal/report/svg"
	"mpps/internal/words"
)

// frameText returns what was sent: "64-byte frames", "IMIX frames of 354 bytes on average, both directions together".
func frameText(l measure.Load) string {
	return sizeText(l) + words.If(l.TwoWay, ", both directions together")
}

func sizeText(l measure.Load) string {
	return words.Either(l.Mix == "", fmt.Sprintf("%d-byte frames", l.FrameBytes),
		fmt.Sprintf("%s frames of %d bytes on average", strings.ToUpper(l.Mix), l.FrameBytes))
}

// colour returns the class of a series' colour, and of its dashes where lines cross.
func colour(place int) string { return fmt.Sprintf("s%d", place%svg.Colours) }

// short returns a name cut to the room in a drawing.
func short(name string) string { return report.Cut(name, 30) }

// dots draws every sample of each series as a dot on one axis, with the median and its interval: spread stays visible,
// which bars from zero would hide.
func dots(runs []labeled) template.HTML {
	var all []float64
	unit := unit(runs[0].Kind)
	for _, r := range runs {
		all = append(all, r.Values()...)
	}
	if len(all) == 0 || slices.Max(all) <= 0 {
		return ""
	}
	d := svg.New(12, 12)
	x := d.Span(slices.Min(all), slices.Max(all), 10)
	for _, r := range runs {
		m, values, y := r.Median, r.Values(), d.Y+42
		d.Text("label", "start", d.Left, d.Y+24, fmt.Sprintf("%s: %s, n = %d", short(r.Label),
			words.Interval(m.Value, m.Lo, m.Hi), len(values)))
		d.Samples(colour(r.place), x, y, 4, values, func(i int) string {
			return fmt.Sprintf("%s, sample %d: %s %s", r.Label, i+1, words.SI(values[i], 4), unit)
		})
		d.Estimate(colour(r.place), x, m.Lo, m.Value, m.Hi, y, 20)
		d.Y += 58
	}
	d.Y += 6
	d.AxisX(x, 4, unit, words.Tick)
	return d.HTML("samples of each series with median and interval, in " + unit)
}

// ratios draws the ratios after/before of everything compared as intervals on one axis around 1.
func ratios(c *Compared) template.HTML {
	type row struct {
		name, better string
		*measure.Comparison
	}
	rows := []row{{plural(c.Kind), "more is better", &c.Throughput}}
	if c.RoundTrips != nil {
		rows = append(rows, row{"transactions", "more is better", c.RoundTrips})
	}
	if c.Cost != nil {
		rows = append(rows, row{"CPU time of each " + singular(c.Kind), "less is better", c.Cost})
	}
	lo, hi, n := 1.0, 1.0, 0
	for _, r := range rows {
		if r.Ratio.N > 0 {
			lo, hi, n = math.Min(lo, r.Ratio.Lo), math.Max(hi, r.Ratio.Hi), n+1
		}
	}
	if n == 0 || lo <= 0 || math.IsInf(hi, 0) {
		return ""
	}
	d := svg.New(12, 12)
	x := d.Ratios(lo, hi)
	for _, r := range rows {
		text := "no ratio, a value is 0"
		if q := r.Ratio; q.N > 0 {
			sure, class := measure.Same, "s2"
			if r.Significant {
				sure, class = fmt.Sprintf("p = %.2g", r.P), "s1"
			}
			text = fmt.Sprintf("×%s [%s, %s], %s", words.Times(q.Value), words.Times(q.Lo), words.Times(q.Hi), sure)
			d.Estimate(class, x, q.Lo, q.Value, q.Hi, d.Y+44, 16)
		}
		d.Text("label", "start", d.Left, d.Y+16, r.name+": "+text)
		d.Text("tick", "start", d.Left, d.Y+30, r.better)
		d.Y += 56
	}
	d.Y += 6
	d.Rule("one", x.At(1), 4)
	d.AxisX(x, 4, "", func(v float64) string { return "×" + words.Times(v) })
	return d.HTML("ratio of after to before, with interval")
}

// modeBars draws a group of bars for each mode: the value, in percent of native if there is a native mode, with its
// interval as a whisker, and below it the host's idle CPU time. Both use one axis of percent.
func modeBars(m *Modes) template.HTML {
	value := func(b *ModeBar) (v, lo, hi float64) {
		if m.Native == "" {
			return b.Value, b.Lo, b.Hi
		}
		return b.Percent, b.PercentLo, b.PercentHi
	}
	label, unit, most, idle := words.Tick, m.Unit, 0.0, false
	if m.Native != "" {
		label, unit, most = func(v float64) string { return words.Tick(v) + " %" }, "percent of "+m.Native, 100
	}
	for i := range m.Bars {
		v, _, hi := value(&m.Bars[i])
		most = max(most, v, hi)
		idle = idle || m.Bars[i].CPUIdle != nil && m.Native != "" // only an axis of percent has room for it
	}
	if len(m.Bars) == 0 || most <= 0 {
		return ""
	}
	d := svg.New(4, 12)
	x := svg.Linear(0, most*1.04, d.Left, d.Right)
	if idle {
		d.Key("bar s1", d.Left, 13, 10, "share of "+m.Native)
		d.Key("bar idlebar", d.Left+150, 13, 10, "CPU time left idle")
		d.Y = 20
	}
	top := d.Y + 2
	for i := range m.Bars {
		b := &m.Bars[i]
		d.Text("label strong", "start", d.Left, d.Y+14, short(b.Mode))
		if b.Missing != "" {
			d.Text("tick", "start", d.Left, d.Y+29, report.Cut(b.Missing, 62))
			d.Y += 40
			continue
		}
		v, lo, hi := value(b)
		d.Text("tick bad", "end", d.Right, d.Y+14, b.Caveat)
		d.Text("tick", "start", d.Left, d.Y+28, m.barText(b))
		d.Bar("s1", x, v, d.Y+34, 14, m.barText(b))
		d.Whisker(x, lo, hi, d.Y+41)
		if c := b.CPUIdle; idle && c != nil {
			d.Bar("idlebar", x, c.Value, d.Y+50, 10, fmt.Sprintf("%s: %.1f %% idle", b.Mode, c.Value))
			d.Whisker(x, c.Lo, c.Hi, d.Y+55)
			d.Y += 14
		}
		d.Y += 60
	}
	d.Y += 4
	d.AxisX(x, top, unit, label)
	return d.HTML(m.Title + " by mode, with intervals")
}

// barText returns a bar in words; a line holds about 60 letters.
func (m *Modes) barText(b *ModeBar) string {
	idle := ""
	if b.CPUIdle != nil {
		idle = fmt.Sprintf("idle %.0f %%", b.CPUIdle.Value)
	}
	share := words.Either(m.Native != "" && b.Mode != m.Native, b.share(), "")
	return words.Join(" · ", words.Interval(b.Value, b.Lo, b.Hi)+" "+m.Unit, share, idle)
}

// goals returns a search's goals that have bounds.
func (r *Rates) goals() []goalBounds {
	var all []goalBounds
	if r.NDR != nil {
		all = append(all, goalBounds{"NDR", "no loss", "s1", r.NDR})
	}
	if r.PDR != nil {
		all = append(all, goalBounds{"PDR", "loss up to " + words.Loss(r.PDRLoss), "s0", r.PDR})
	}
	return all
}

type goalBounds struct {
	name, means, class string
	*RateBounds
}

func (g goalBounds) text() string {
	if g.UpperPPS <= 0 {
		return fmt.Sprintf("%s, %s: at least %s packets/s", g.name, g.means, words.SI(g.LowerPPS, 4))
	}
	n := 1 + int(math.Ceil(math.Log10(g.UpperPPS/math.Max(g.UpperPPS-g.LowerPPS, g.UpperPPS/1e4))))
	n = min(max(n, 3), 5)
	return fmt.Sprintf("%s, %s: [%s, %s] packets/s", g.name, g.means, words.SI(g.LowerPPS, n), words.SI(g.UpperPPS, n))
}

// rateBounds draws, for each search and goal, the lower bound of the rate and the interval up to the upper bound.
func rateBounds(all []Rates) template.HTML {
	lo, hi := math.Inf(1), 0.0
	for i := range all {
		for _, g := range all[i].goals() {
			hi = max(hi, g.LowerPPS, g.UpperPPS)
			if g.LowerPPS > 0 {
				lo = math.Min(lo, g.LowerPPS)
			}
		}
	}
	if hi <= 0 {
		return ""
	}
	d := svg.New(4, 12)
	x := d.Span(lo, hi, 20)
	for i := range all {
		r := &all[i]
		d.Text("label strong", "start", d.Left, d.Y+18, words.Join(" · ", short(r.Label), r.Caveat))
		if r.Floor > 0 {
			d.Y += 18
			d.Text("tick", "start", d.Left, d.Y+18, "no rate without loss: floor "+words.Loss(r.Floor))
		}
		for _, g := range r.goals() {
			d.Text("tick", "start", d.Left, d.Y+34, g.text())
			d.Bar(g.class, x, g.LowerPPS, d.Y+38, 10, g.text())
			if g.UpperPPS > g.LowerPPS {
				from := x.At(g.LowerPPS)
				d.Rect("pale "+g.class, from, d.Y+38, x.At(g.UpperPPS)-from, 10, g.text())
				d.Whisker(x, g.LowerPPS, g.UpperPPS, d.Y+43)
			}
			d.Y += 32
		}
		d.Y += 18
	}
	d.Y += 8
	d.AxisX(x, 2, "packets/s", words.Tick)
	return d.HTML("bounds of the rates without loss and within a loss")
}

// lossBars draws, for each run that lost packets, the counters that saw them as shares of what was sent.
func lossBars(runs []labeled) template.HTML {
	most := 0.0
	for _, r := range runs {
		for _, p := range places(r) {
			most = max(most, p.Share)
		}
	}
	if most == 0 {
		return ""
	}
	d := svg.New(4, 12)
	d.Y = 4
	x := svg.Linear(0, most*1.04, d.Left, d.Right)
	for _, r := range runs {
		spread := measure.Median(lossRatios(r.Run))
		text := fmt.Sprintf("lost %s of %s", words.Grouped(r.Lost), words.Grouped(r.Sent)) +
			words.If(r.Lost > 0 && spread.N > 1, ", in a trial %s [%s, %s]", words.Percent(spread.Value),
				words.Percent(spread.Lo), words.Percent(spread.Hi))
		d.Text("label strong", "start", d.Left, d.Y+14, short(r.Label))
		d.Text("label", "start", d.Left, d.Y+29, text)
		d.Y += 35
		for _, p := range places(r) {
			d.Text("tick", "start", d.Left, d.Y+11, p.Name)
			d.Text("tick", "end", d.Right, d.Y+11, words.Grouped(p.Packets)+" · "+words.Percent(p.Share))
			d.Bar(p.class, x, p.Share, d.Y+15, 9, p.Name)
			d.Y += 30
		}
		d.Y += 6
	}
	d.AxisX(x, 4, "", func(v float64) string { return words.Tick(v*100) + " %" })
	return d.HTML("where packets were lost")
}

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

// Most CPUs in a strip, the busiest ones, and most cells per CPU; with more trials a cell covers several.
const maxStrip, maxCells = 64, 60

// Horizontal positions in the strip: the end of the cells and the start of the split.
const stripCells, stripSplit = 120, 174

// cpuStrip draws one row per CPU of the sending machine for each series: on the left a cell per trial, darker if
// busier; on the right how its time was split over all trials.
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
		row := words.Either(len(use) > 16, 8.0, 15)
		d.Y += 16
		d.Text("label", "start", 0, d.Y, short(r.Label)+words.If(idle > 0, " (%s less busy not drawn)",
			words.Count(idle, "CPU")))
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
		name := words.Either(end > first+1, fmt.Sprintf("trials %d to %d", first+1, end),
			fmt.Sprintf("trial %d", first+1))
		if whole > 0 {
			d.Cell(busy/whole, x, d.Y, width-min(1, width/4), row-2, fmt.Sprintf("CPU %d, %s: %.0f %% busy",
				cpu, name, busy/whole*100))
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
			d.Rect("cpu-"+part.class, x, d.Y, share*width, row-3, fmt.Sprintf("CPU %d: %.0f %% %s", u.CPU, share*100,
				part.name))
			x += share * width
		}
	}
}

// nearUse returns the CPU use of the near machine in a sample.
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
		sums = measure.AddUse(sums, nearUse(&r.Samples[i]))
	}
	if len(sums) > maxStrip {
		slices.SortStableFunc(sums, func(a, b measure.CPUUse) int { return cmp.Compare(b.Busy(), a.Busy()) })
		left, sums = len(sums)-maxStrip, sums[:maxStrip]
	}
	slices.SortFunc(sums, func(a, b measure.CPUUse) int { return cmp.Compare(a.CPU, b.CPU) })
	return sums, left
}
