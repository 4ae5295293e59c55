package report

import (
	"fmt"
	"html/template"
	"math"

	"mpps/internal/measure"
)

// percentiles draws latency over a percentile axis on which each nine takes the same width: the tail, which means hide,
// is most of the picture.
func percentiles(labels []string, curves []*measure.Latency) template.HTML {
	const left, right, top, bottom = 46, svgWidth - 10, 8, 210
	lo, hi, nines := math.Inf(1), 0.0, 1.0
	for _, l := range curves {
		lo, hi = math.Min(lo, float64(max(l.MinNs, 1))), math.Max(hi, float64(l.MaxNs))
		nines = math.Max(nines, math.Log10(float64(l.Count)))
	}
	if hi == 0 {
		return ""
	}
	nines = math.Min(nines, 6)
	d := &drawing{height: bottom + 34 + float64(len(curves))*16}
	x := linear(0, nines, left, right)
	y := logarithmic(lo, hi, bottom, top)
	for _, tick := range y.ticks() {
		d.line("grid", left, y.at(tick), right, y.at(tick))
		d.text("tick", "end", left-5, y.at(tick)+4, duration(tick))
	}
	for n, label := range []string{"0", "90", "99", "99.9", "99.99", "99.999", "99.9999"} {
		if float64(n) > nines {
			break
		}
		d.line("grid", x.at(float64(n)), top, x.at(float64(n)), bottom)
		d.text("tick", edge(x.at(float64(n)), left, right), x.at(float64(n)), bottom+14, label)
	}
	d.text("unit", "end", right, bottom+28, "percentile of round trips")
	for i, l := range curves {
		var points [][2]float64
		var seen uint64
		for _, b := range l.Buckets {
			seen += b.Count
			rest := 1 - float64(seen)/float64(l.Count)
			position := nines
			if rest > 0 {
				position = math.Min(-math.Log10(rest), nines)
			}
			points = append(points, [2]float64{x.at(position), y.at(float64(b.ToNs))})
		}
		d.path(fmt.Sprintf("curve s%d", i), points)
		at := bottom + 28 + float64(i+1)*16
		d.line(fmt.Sprintf("curve s%d", i), left, at-4, left+22, at-4)
		text := fmt.Sprintf("%s: median %s", labels[i], duration(float64(l.At(50))))
		for _, p := range l.Percentiles {
			if p.P == 99 {
				text += ", p99 " + duration(float64(p.ValueNs))
			}
		}
		d.text("label", "start", left+28, at, text+", max "+duration(float64(l.MaxNs)))
	}
	return d.svg("round-trip time by percentile")
}
