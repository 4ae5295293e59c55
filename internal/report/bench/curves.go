package bench

import (
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

// lossOverLoad draws the trials of a search: loss against the rate offered, with the bounds of the goals.
func lossOverLoad(r *Rates) template.HTML {
	lo, hi, longest, least, most := math.Inf(1), 0.0, 0.0, 1.0, 1e-2
	for _, t := range r.Trials {
		lo, hi, longest = min(lo, t.OfferedPPS), max(hi, t.OfferedPPS), max(longest, t.Seconds)
		if t.LossRatio > 0 {
			least, most = min(least, t.LossRatio), max(most, t.LossRatio)
		}
	}
	for _, g := range r.goals() {
		hi = max(hi, g.UpperPPS)
	}
	if len(r.Trials) == 0 || hi <= 0 {
		return ""
	}
	const top, none = 8, 192
	d := svg.New(46, 12)
	x := svg.Linear(max(0, lo-(hi-lo)*0.08-hi*0.01), hi*1.02, d.Left, d.Right)
	if lo > 0 && hi/lo > 20 {
		x = svg.Log(lo, hi, d.Left, d.Right)
	}
	y := svg.Log(max(least, 1e-7), most, none-24, top)
	d.AxisY(y, func(v float64) string { return fmt.Sprintf("%.3g %%", v*100) })
	d.Level(none, "none")
	d.Y = none + 8
	for i, g := range r.goals() {
		from, to := x.At(g.LowerPPS), x.At(max(g.UpperPPS, g.LowerPPS))
		d.Rect("pale "+g.class, from, top, to-from, d.Y-top, g.text())
		d.Line("bound "+g.class, from, top, from, d.Y)
		anchor, at := "end", from-4 // the lower goal's name on the left of its line, the higher one's on the right
		if g.name == "PDR" && to < d.Right-30 || from < d.Left+30 {
			anchor, at = "start", to+4
		}
		d.Text("label", anchor, at, 18+float64(14*i), g.name)
	}
	for _, t := range r.Trials {
		at, radius := float64(none), 3.0
		if t.LossRatio > 0 {
			at = y.At(t.LossRatio)
		}
		if longest > 0 {
			radius = 2.5 + 3.5*math.Sqrt(t.Seconds/longest)
		}
		d.Dot("trial", x.At(t.OfferedPPS), at, radius, fmt.Sprintf("%s packets/s for %s: loss %s",
			words.SI(t.OfferedPPS, 4), words.Seconds(t.Seconds), words.Loss(t.LossRatio)))
	}
	d.AxisX(x, top, "packets/s offered", words.Tick)
	return d.HTML("loss against the rate offered, trial by trial")
}

// nines returns how many nines of a distribution there are samples for, at most the five that are reported.
func nines(l *measure.Latency) float64 {
	if l.Count <= measure.Tail {
		return 0.3 // half of them
	}
	return math.Min(math.Log10(float64(l.Count)/measure.Tail), 5)
}

// percentiles draws latency over a percentile axis on which each nine takes the same width: the tail, which means hide,
// is most of the picture. Where there are several trials a band spans them.
func percentiles(runs []labeled) template.HTML {
	const top, bottom = 8, 210
	lo, hi, most := math.Inf(1), 0.0, 1.0
	curves := make([][]curvePoint, len(runs))
	for i, r := range runs {
		curves[i] = curveOf(r.Run)
		for _, p := range curves[i] {
			lo, hi = min(lo, max(p.lo, 1)), max(hi, p.hi)
		}
		most = max(most, nines(r.Latency))
	}
	if hi == 0 {
		return ""
	}
	d := svg.New(46, 10)
	x, y := svg.Linear(0, most, d.Left, d.Right), svg.Log(lo, hi, bottom, top)
	d.AxisY(y, words.Duration)
	for i, r := range runs {
		var middle, around, back [][2]float64
		for _, p := range curves[i] {
			at := x.At(p.nines)
			middle, around = append(middle, [2]float64{at, y.At(p.value)}), append(around, [2]float64{at, y.At(p.hi)})
			back = append([][2]float64{{at, y.At(p.lo)}}, back...)
		}
		d.Path("band "+colour(r.place), append(around, back...))
		d.Path("curve "+colour(r.place), middle)
	}
	ticks := []float64{0}
	if most < 4 {
		ticks = append(ticks, math.Log10(2)) // the median
	}
	for n := 1.0; n <= most; n++ {
		ticks = append(ticks, n)
	}
	d.Y = bottom
	d.TicksX(x, top, ticks, func(n float64) string { return fmt.Sprintf("%.6g", 100-100*math.Pow(10, -n)) })
	d.Text("unit", "end", d.Right, d.Y+10, "percentile")
	d.Y += 16
	for _, r := range runs {
		texts := percentileTexts(r.Latency, maxText(r.Latency))
		d.Legend(colour(r.place), report.Cut(r.Label, 50), texts...)
	}
	return d.HTML("latency by percentile")
}

// percentileTexts returns the percentiles that there are samples for and more, three on a line.
func percentileTexts(l *measure.Latency, more ...string) []string {
	var texts, lines []string
	for _, p := range l.Percentiles {
		texts = append(texts, fmt.Sprintf("p%g %s", p.P, words.Duration(float64(p.ValueNs))))
	}
	for line := range slices.Chunk(append(texts, more...), 3) {
		lines = append(lines, strings.Join(line, " · "))
	}
	return lines
}

func maxText(l *measure.Latency) string { return "max " + words.Duration(float64(l.MaxNs)) }

// curvePoint is the value of a distribution at a number of nines, with the smallest and largest value of its trials.
type curvePoint struct{ nines, value, lo, hi float64 }

// curveOf samples a run's distribution at steps of 0.05 nines, as far as there are enough samples, with the range of
// those trials that have enough samples there.
func curveOf(r *measure.Run) []curvePoint {
	var points []curvePoint
	end := nines(r.Latency)
	for n := 0.0; ; n += 0.05 {
		n = math.Min(n, end)
		p := 100 * (1 - math.Pow(10, -n))
		v := float64(max(r.Latency.At(p), 1))
		at := curvePoint{n, v, v, v}
		for _, s := range r.Samples {
			if s.Latency != nil && s.Latency.Count > 0 && nines(s.Latency) >= n {
				v := float64(max(s.Latency.At(p), 1))
				at.lo, at.hi = min(at.lo, v), max(at.hi, v)
			}
		}
		points = append(points, at)
		if n >= end {
			return points
		}
	}
}

// bin is a piece of a histogram: the share of all wake-ups in it.
type bin struct{ from, to, share float64 }

// bins puts a distribution's buckets into twelve bins for each power of ten, none of them narrower than the 1 µs in
// which most tools count. A bucket that is wider than a bin, as the one beyond a tool's histogram, is spread over its
// width.
func bins(l *measure.Latency) []bin {
	const perDecade, narrowest = 12, 1000.0
	var list []bin
	longest := float64(l.MaxNs)
	for k, from := 0, 0.0; from <= longest; k++ {
		to := math.Round(math.Pow(10, float64(k)/perDecade)/narrowest) * narrowest
		if to > from {
			list = append(list, bin{from: from, to: to})
			from = to
		}
	}
	for _, b := range l.Buckets {
		low, high := float64(b.FromNs), float64(min(b.ToNs, l.MaxNs))+1
		share := float64(b.Count) / float64(l.Count)
		for i := range list {
			lo, hi := max(list[i].from, low), min(list[i].to, high)
			if hi > lo {
				list[i].share += share * (hi - lo) / (high - low)
			}
		}
	}
	return list
}

// shareAt returns the share of the bin that a value lies in.
func shareAt(all []bin, v float64) float64 {
	for _, b := range all {
		if v < b.to {
			return b.share
		}
	}
	return 0
}

// wakeupHistograms draws measurements over each other: both axes logarithmic, percentiles as dots, the longest wake-up
// with its time.
func wakeupHistograms(all []Wakeups) template.HTML {
	const top, bottom = 8, 230
	lo, hi, least := math.Inf(1), 0.0, 1.0
	for _, w := range all {
		l := w.File.Total.Latency
		lo, hi = min(lo, max(float64(l.MinNs), 1000)), max(hi, float64(l.MaxNs))
		least = min(least, 1/float64(l.Count))
	}
	if hi <= 0 {
		return ""
	}
	d := svg.New(46, 10)
	x, y := svg.Log(min(lo, hi), hi*1.05, d.Left, d.Right), svg.Log(least, 0.99, bottom, top)
	d.AxisY(y, func(share float64) string { return words.SI(math.Round(1/share), 1) })
	var names svg.Labels
	for i, w := range all {
		l, class := w.File.Total.Latency, colour(i)
		histogram := bins(l)
		var points [][2]float64
		for _, b := range histogram {
			if b.to <= x.Least() || len(points) == 0 && b.share == 0 { // shorter than all of them
				continue
			}
			from, to, at := x.At(b.from), x.At(min(b.to, hi*1.05)), min(y.At(max(b.share, least/3)), bottom)
			if len(points) == 0 {
				points = append(points, [2]float64{from, bottom})
			}
			points = append(points, [2]float64{from, at}, [2]float64{to, at})
		}
		d.Path("curve "+class, points)
		for _, p := range []float64{50, 99, 99.99} {
			if v, known := l.Percentile(p); known {
				at, height := x.At(float64(v)), y.At(max(shareAt(histogram, float64(v)), least))
				d.Dot("dot "+class, at, height, 4, fmt.Sprintf("p%g %s", p, words.Duration(float64(v))))
				names.Add(fmt.Sprintf("%g", p), "middle", at, height-7)
			}
		}
		longest := x.At(float64(l.MaxNs))
		d.Line("median "+class, longest, bottom-16, longest, bottom)
		names.Add(maxText(l), d.Edge(longest+30), longest, bottom-20)
	}
	d.Place(names, top+8, bottom-4)
	d.Y = bottom
	d.AxisX(x, top, "length of a wake-up; share of all, 1 in …", words.Duration)
	for i, w := range all {
		l := w.File.Total.Latency
		worst := maxText(l)
		if len(w.File.Worst) > 0 {
			worst += ", " + w.File.Worst[0].When()
		}
		d.Legend(colour(i), report.Cut(w.Label, 50), append(percentileTexts(l), worst)...)
	}
	return d.HTML("histogram of wake-ups")
}
