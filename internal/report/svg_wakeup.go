package report

import (
	"fmt"
	"html/template"
	"math"
	"strings"

	"mpps/internal/measure"
)

// bin is a piece of a histogram: the share of all wake-ups in it.
type bin struct{ from, to, share float64 }

// bins puts a distribution's buckets into twelve bins for each power of ten, none of them narrower than the 1 µs in which most tools
// count. A bucket that is wider than a bin, as the one beyond a tool's histogram, is drawn over all that it may lie in.
func bins(l *measure.Latency) []bin {
	const perDecade, narrowest = 12, 1000.0
	var list []bin
	edge := func(k int) float64 {
		return math.Max(math.Round(math.Pow(10, float64(k)/perDecade)/narrowest)*narrowest, 0)
	}
	longest := float64(l.MaxNs)
	for k, from := 0, 0.0; from <= longest; k++ {
		if to := edge(k); to > from {
			list = append(list, bin{from: from, to: to})
			from = to
		}
	}
	for _, b := range l.Buckets {
		low, high := float64(b.FromNs), float64(min(b.ToNs, l.MaxNs))+1
		share := float64(b.Count) / float64(l.Count)
		for i := range list {
			lo, hi := math.Max(list[i].from, low), math.Min(list[i].to, high)
			if hi > lo {
				list[i].share += share * (hi - lo) / (high - low)
			}
		}
	}
	return list
}

// onCurve are the percentiles that stand on the curve.
var onCurve = []float64{50, 99, 99.99}

// wakeupHistograms draws measurements over each other: both axes logarithmic, percentiles as dots, the longest wake-up with its time.
func wakeupHistograms(all []Wakeups) template.HTML {
	const left, right, top, bottom = 46, svgWidth - 10, 8, 230
	lo, hi, least := math.Inf(1), 0.0, 1.0
	for _, w := range all {
		l := w.File.Total.Latency
		lo, hi = math.Min(lo, math.Max(float64(l.MinNs), 1000)), math.Max(hi, float64(l.MaxNs))
		least = math.Min(least, 1/float64(l.Count))
	}
	if len(all) == 0 || hi <= 0 {
		return ""
	}
	d := &drawing{height: bottom + 34}
	x, y := logarithmic(math.Min(lo, hi), hi*1.05, left, right), logarithmic(least, 0.99, bottom, top)
	for _, tick := range x.ticks() {
		d.line("grid", x.at(tick), top, x.at(tick), bottom)
		d.text("tick", edge(x.at(tick), left, right), x.at(tick), bottom+14, duration(tick))
	}
	for _, tick := range y.ticks() {
		d.line("grid", left, y.at(tick), right, y.at(tick))
		d.text("tick", "end", left-5, y.at(tick)+4, oneIn(tick))
	}
	d.text("unit", "end", right, bottom+28, "length of a wake-up; share of all, 1 in …")
	var names labels
	for i, w := range all {
		l, class := w.File.Total.Latency, colour(i)
		var points [][2]float64
		for _, b := range bins(l) {
			if b.to <= math.Pow(10, x.from) || len(points) == 0 && b.share == 0 { // shorter than all of them
				continue
			}
			if len(points) == 0 {
				points = append(points, [2]float64{x.at(math.Max(b.from, math.Pow(10, x.from))), bottom})
			}
			at := y.at(math.Max(b.share, least/3))
			points = append(points, [2]float64{x.at(math.Max(b.from, math.Pow(10, x.from))), math.Min(at, bottom)}, [2]float64{x.at(math.Min(b.to, hi*1.05)), math.Min(at, bottom)})
		}
		d.path("curve "+class, points)
		for _, p := range onCurve {
			if v, told := l.Percentile(p); told {
				share := math.Max(shareAt(l, v), least)
				d.dot("dot "+class, x.at(float64(v)), y.at(share), 4, fmt.Sprintf("p%g %s", p, duration(float64(v))))
				names.add(fmt.Sprintf("%g", p), "middle", x.at(float64(v)), y.at(share)-7)
			}
		}
		worst, longest := "max "+duration(float64(l.MaxNs)), x.at(float64(l.MaxNs))
		d.line("median "+class, longest, bottom-16, longest, bottom)
		names.add(worst, edge(longest, left, right-30), longest, bottom-20)
		if len(w.File.Worst) > 0 {
			worst += ", " + w.File.Worst[0].When()
		}
		at := d.height + 10
		d.line("curve "+class, left, at-4, left+22, at-4)
		d.text("label", "start", left+28, at, cut(w.Label, 50))
		texts := percentileTexts(l)
		texts[len(texts)-1] = worst
		d.text("tick", "start", left+28, at+13, strings.Join(texts[:min(3, len(texts)-1)], " · "))
		d.text("tick", "start", left+28, at+26, strings.Join(texts[min(3, len(texts)-1):len(texts)-1], " · "))
		d.text("tick", "start", left+28, at+39, worst)
		d.height += 56
	}
	names.draw(d, top+8, bottom-4, left, right)
	return d.svg("histogram of wake-ups")
}

// shareAt is the share of the bin that a value lies in.
func shareAt(l *measure.Latency, v uint64) float64 {
	for _, b := range bins(l) {
		if float64(v) < b.to {
			return b.share
		}
	}
	return 0
}

// oneIn writes a share: 1, 10, 1 k …
func oneIn(share float64) string { return siDigits(math.Round(1/share), 1) }
