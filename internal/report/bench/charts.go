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
	"mpps/internal/report/page"
	"mpps/internal/report/svg"
	"mpps/internal/report/words"
)

// modeCharts are the modes of a NIC, a chart for each quantity.
func modeCharts(d *Document) []page.Chart {
	var all []page.Chart
	for i := range d.Modes {
		m := &d.Modes[i]
		all = append(all, page.Chart{Title: m.Title, Note: words.Join(" ", words.If(m.Native != "", "Percent of %s.", m.Native), m.Note),
			Picture: modeBars(m)})
	}
	return page.Drawn(all...)
}

// rateCharts are what searches found.
func rateCharts(d *Document) []page.Chart {
	all := []page.Chart{{Title: "Highest rates", Note: "Filled: carried for certain. Pale: between the bounds, undecided.",
		Picture: rateBounds(d.Rates)}}
	for i := range d.Rates {
		r := &d.Rates[i]
		all = append(all, page.Chart{Title: "Loss against load" + words.If(len(d.Rates) > 1, ": %s", r.Label),
			Note: "A circle is one trial, the larger the longer; loss on a logarithmic axis above none.", Picture: lossOverLoad(r)})
	}
	return page.Drawn(all...)
}

const percentileNote = "Lower is better. Each nine takes the same width; the band spans the %s. " +
	"A curve ends where fewer than ten samples are left."

// wakeupCharts are histograms and percentiles of wake-ups, before and after in one picture.
func wakeupCharts(d *Document) []page.Chart {
	return page.Drawn(
		page.Chart{Title: "How long wake-ups took", Picture: wakeupHistograms(d.Wakeups),
			Note: "Both axes are logarithmic. A dot is the percentile named beside it, the stroke at the bottom the longest."},
		page.Chart{Title: "Wake-ups by percentile", Note: fmt.Sprintf(percentileNote, "runs"), Picture: percentiles(d.wakeupRuns())})
}

// charts are what the runs measured.
func charts(d *Document) []page.Chart {
	var all []page.Chart
	if c := d.Compared; c != nil {
		all = append(all, page.Chart{Title: c.From + " → " + c.To, Picture: ratios(c),
			Note: "The ratio and its interval. An interval that includes 1 means no significant difference (~)."})
	}
	kinds := d.kinds()
	for _, kind := range kinds {
		runs := d.runs(kind)
		title, note := titleOf(d, runs[0].Run)
		all = append(all, page.Chart{Title: title, Note: note, Picture: dots(runs, unit(kind))})
	}
	for _, what := range []struct{ name, title string }{{"round-trip", "Round-trip time"}, {"one-way", "One-way delay"}} {
		runs := slices.DeleteFunc(distributions(d.runs("")), func(r labeled) bool { return r.Latency.What != what.name })
		all = append(all, page.Chart{Title: what.title, Note: fmt.Sprintf(percentileNote, "trials"), Picture: percentiles(runs)})
	}
	all = append(all, page.Chart{Title: "Where packets were lost", Note: "Share of the packets sent, by the counter that saw them dropped.",
		Picture: lossBars(d.runs(measure.PPS))})
	if len(kinds) > 0 {
		all = append(all, page.Chart{Title: "CPU time", Picture: cpuStrip(d.runs(kinds[0])),
			Note: "One row per CPU of the sending host. Left: utilisation per trial. Right: where the time went."})
	}
	return page.Drawn(all...)
}

// titleOf is what a run measured, and what it sent.
func titleOf(d *Document, r *measure.Run) (title, note string) {
	l := r.Load
	request, answer := words.Count(max(l.Request, 1), "byte"), words.Count(max(l.Response, 1), "byte")
	connections := words.Count(max(l.Connections, 1), "connection")
	switch {
	case r.Kind == measure.Stream:
		return "Bits per second", "TCP over " + connections + words.If(l.Sendfile, " with sendfile") + ", counted where they arrive."
	case r.Kind == measure.CRR:
		return "Transactions with a connection each, per second",
			fmt.Sprintf("A TCP connection, a request of %s and its answer of %s, and the close.", request, answer)
	case transactional(r.Kind):
		loop := "closed loop"
		if l.Rate > 0 {
			loop = "on a schedule"
		}
		protocol := strings.ToUpper(cmp.Or(l.Protocol, "tcp"))
		return "Transactions per second",
			fmt.Sprintf("A request of %s and its answer of %s over %s, %s, %s.", request, answer, protocol, connections, loop)
	}
	where := ""
	switch r.Environment.Sink {
	case "xdp":
		where = "counted in the receiver's driver"
	case "af_packet", "xdp-skb":
		where = "counted after the receiver's driver"
	}
	return "Packets per second" + words.If(len(d.Path) > 0, " into the guest"), words.Join(", ", frameText(l), where) + "."
}

// frameText is what was sent: "64-byte frames", "IMIX frames of 354 bytes on average, both directions together".
func frameText(l measure.Load) string {
	text := fmt.Sprintf("%d-byte frames", l.FrameBytes)
	if l.Mix != "" {
		text = fmt.Sprintf("%s frames of %d bytes on average", strings.ToUpper(l.Mix), l.FrameBytes)
	}
	return text + words.If(l.TwoWay, ", both directions together")
}

// colour is the class of a series' colour, and of its dashes where lines cross.
func colour(place int) string { return fmt.Sprintf("s%d", place%svg.Colours) }

// short is a name cut to what a drawing has room for.
func short(name string) string { return report.Cut(name, 30) }

// dots draws every sample of each series as a dot on one axis, with the median and its interval: spread stays visible,
// which bars from zero would hide.
func dots(runs []labeled, unit string) template.HTML {
	var all []float64
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
		d.Text("label", "start", d.Left, d.Y+24, fmt.Sprintf("%s: %s, n = %d", short(r.Label), words.Interval(m.Value, m.Lo, m.Hi), len(values)))
		d.Samples(colour(r.place), x, y, 4, values, func(i int) string {
			return fmt.Sprintf("%s, sample %d: %s %s", r.Label, i+1, words.SI(values[i], 4), unit)
		})
		d.Estimate(colour(r.place), x, m.Lo, m.Value, m.Hi, y, 20)
		d.Y += 58
	}
	d.Y += 6
	d.Below(x, 4, unit, words.Tick)
	return d.HTML("samples of each series with median and interval, in " + unit)
}

// ratios draws after/before of all that was compared as intervals on one axis around 1.
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
		text := r.name + ": no ratio, a value is 0"
		if q := r.Ratio; q.N > 0 {
			sure, class := measure.Same, "s2"
			if r.Significant {
				sure, class = fmt.Sprintf("p = %.2g", r.P), "s1"
			}
			text = fmt.Sprintf("%s: ×%s [%s, %s], %s, %s", r.name, words.Times(q.Value), words.Times(q.Lo), words.Times(q.Hi), sure, r.better)
			d.Estimate(class, x, q.Lo, q.Value, q.Hi, d.Y+34, 16)
		}
		d.Text("label", "start", d.Left, d.Y+20, text)
		d.Y += 46
	}
	d.Y += 6
	d.Rule("one", x.At(1), 4)
	d.Below(x, 4, "", func(v float64) string { return "×" + words.Times(v) })
	return d.HTML("ratio of after to before, with interval")
}

// modeBars draws a group of bars for each mode: the value, as percent of native's where there is one, with its interval as
// a whisker, and below it the host's CPU time that was left. Both stand on one axis of percent.
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
	d.Below(x, top, unit, label)
	return d.HTML(m.Title + " by mode, with intervals")
}

// barText is a bar in words; a line holds about 60 letters.
func (m *Modes) barText(b *ModeBar) string {
	text := words.Interval(b.Value, b.Lo, b.Hi) + " " + m.Unit
	if m.Native != "" && b.Mode != m.Native {
		text += fmt.Sprintf(" · %s %% [%s, %s]", wholePercent(b.Percent), wholePercent(b.PercentLo), wholePercent(b.PercentHi)) +
			words.If(b.Same, " "+measure.Same)
	}
	if b.CPUIdle != nil {
		text += fmt.Sprintf(" · idle %.0f %%", b.CPUIdle.Value)
	}
	return text
}

// goals are a search's goals that have bounds.
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

// rateBounds draws, for each search and goal, the rate that is carried for certain and the bounds around it.
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
	d.Below(x, 2, "packets/s", words.Tick)
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
			words.If(r.Lost > 0 && spread.N > 1, ", in a trial %s [%s, %s]", words.Percent(spread.Value), words.Percent(spread.Lo),
				words.Percent(spread.Hi))
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
	d.Below(x, 4, "", func(v float64) string { return words.Tick(v*100) + " %" })
	return d.HTML("where packets were lost")
}
