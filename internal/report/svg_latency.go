package report

import (
	"fmt"
	"html/template"
	"math"
	"strings"

	"mpps/internal/measure"
)

// nines is how many nines of a distribution there are samples for, at most the five that are told.
func nines(l *measure.Latency) float64 {
	if l.Count <= measure.Tail {
		return 0.3 // half of them
	}
	return math.Min(math.Log10(float64(l.Count)/measure.Tail), 5)
}

// nineLabels are the percentiles of whole nines.
var nineLabels = []string{"0", "90", "99", "99.9", "99.99", "99.999"}

// percentiles draws latency over a percentile axis on which each nine takes the same width: the tail, which means hide,
// is most of the picture. Where there are several trials a band shows where theirs lay.
func percentiles(runs []labeled) template.HTML {
	if len(runs) == 0 {
		return ""
	}
	const left, right, top, bottom = 46, svgWidth - 10, 8, 210
	lo, hi, most := math.Inf(1), 0.0, 1.0
	curves := make([]curve, len(runs))
	for i, r := range runs {
		curves[i] = curveOf(r.Run)
		for _, p := range curves[i].points {
			lo, hi = math.Min(lo, math.Max(p.lo, 1)), math.Max(hi, p.hi)
		}
		most = math.Max(most, nines(r.Latency))
	}
	if hi == 0 {
		return ""
	}
	d := &drawing{height: bottom + 34}
	x := linear(0, most, left, right)
	y := logarithmic(lo, hi, bottom, top)
	for _, tick := range y.ticks() {
		d.line("grid", left, y.at(tick), right, y.at(tick))
		d.text("tick", "end", left-5, y.at(tick)+4, duration(tick))
	}
	for n, label := range nineLabels {
		if at := x.at(float64(n)); float64(n) <= most {
			d.line("grid", at, top, at, bottom)
			d.text("tick", edge(at, left, right), at, bottom+14, label)
		}
	}
	if most < 4 {
		d.line("grid", x.at(math.Log10(2)), top, x.at(math.Log10(2)), bottom)
		d.text("tick", "middle", x.at(math.Log10(2)), bottom+14, "50")
	}
	d.text("unit", "end", right, bottom+28, "percentile")
	for i, r := range runs {
		class := colour(r.place)
		var middle, around, back [][2]float64
		for _, p := range curves[i].points {
			middle = append(middle, [2]float64{x.at(p.nines), y.at(p.value)})
			around = append(around, [2]float64{x.at(p.nines), y.at(p.hi)})
			back = append([][2]float64{{x.at(p.nines), y.at(p.lo)}}, back...)
		}
		d.path("band "+class, append(around, back...))
		d.path("curve "+class, middle)
		at := d.height + 10
		d.line("curve "+class, left, at-4, left+22, at-4)
		d.text("label", "start", left+28, at, cut(r.label, 50))
		texts := percentileTexts(r.Latency)
		d.text("tick", "start", left+28, at+13, strings.Join(texts[:min(3, len(texts))], " · "))
		d.height += 30
		if len(texts) > 3 {
			d.text("tick", "start", left+28, at+26, strings.Join(texts[3:], " · "))
			d.height += 13
		}
	}
	return d.svg("latency by percentile")
}

// percentileTexts are the percentiles that there are samples for, and the longest.
func percentileTexts(l *measure.Latency) []string {
	var texts []string
	for _, p := range l.Percentiles {
		texts = append(texts, fmt.Sprintf("p%g %s", p.P, duration(float64(p.ValueNs))))
	}
	return append(texts, "max "+duration(float64(l.MaxNs)))
}

// curve is a distribution as values over nines.
type curve struct{ points []curvePoint }

type curvePoint struct{ nines, value, lo, hi float64 }

// curveOf reads a run's distribution at steps of a nine, as far as there are samples, and at each those of its trials that
// have samples enough.
func curveOf(r *measure.Run) curve {
	var c curve
	end := nines(r.Latency)
	for n := 0.0; ; n += 0.05 {
		n = math.Min(n, end)
		p := 100 * (1 - math.Pow(10, -n))
		at := curvePoint{nines: n, value: float64(max(r.Latency.At(p), 1))}
		at.lo, at.hi = at.value, at.value
		for _, s := range r.Samples {
			if s.Latency != nil && s.Latency.Count > 0 && nines(s.Latency) >= n {
				v := float64(max(s.Latency.At(p), 1))
				at.lo, at.hi = math.Min(at.lo, v), math.Max(at.hi, v)
			}
		}
		c.points = append(c.points, at)
		if n >= end {
			return c
		}
	}
}
