package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"

	"mpps/internal/measure"
)

// dots draws every sample of each series as a dot on one axis, with the median and its interval: spread stays visible,
// which bars from zero would hide. The axis is logarithmic where the series lie more than ten times apart.
func dots(labels []string, runs []*measure.Run, unit string) template.HTML {
	var all []float64
	for _, r := range runs {
		all = append(all, r.Values()...)
	}
	if len(all) == 0 {
		return ""
	}
	lo, hi := slices.Min(all), slices.Max(all)
	const left, right, row = 12, svgWidth - 12, 58
	d := &drawing{height: float64(len(runs)*row) + 38}
	bottom := d.height - 32
	x := linear(0, hi*1.08, left, right)
	if lo > 0 && hi/lo > 10 {
		x = logarithmic(lo, hi, left, right)
	}
	for _, tick := range x.ticks() {
		d.line("grid", x.at(tick), 4, x.at(tick), bottom)
		d.text("tick", edge(x.at(tick), left, right), x.at(tick), bottom+14, siTick(tick))
	}
	d.text("unit", "end", right, d.height-3, unit)
	for i, r := range runs {
		y := float64(i*row) + 42
		class := fmt.Sprintf("s%d", i)
		m := r.Median
		name := fmt.Sprintf("%s: %s", labels[i], digits(m.Value, m.Lo, m.Hi))
		if m.Hi > m.Lo {
			name += fmt.Sprintf(" [%s, %s]", digits(m.Lo, m.Lo, m.Hi), digits(m.Hi, m.Lo, m.Hi))
		}
		d.text("label", "start", left, y-18, fmt.Sprintf("%s, n = %d", name, len(r.Samples)))
		d.line("interval "+class, x.at(m.Lo), y, x.at(m.Hi), y)
		for n, v := range r.Values() {
			// Spread by a fixed pattern, so that the same run is always the same picture.
			d.dot("dot "+class, x.at(v), y+float64(n%3-1)*4, 4, fmt.Sprintf("%s, sample %d: %s %s", labels[i], n+1, siDigits(v, 4), unit))
		}
		d.line("median "+class, x.at(m.Value), y-10, x.at(m.Value), y+10)
	}
	return d.svg("samples of each series with median and interval, in " + unit)
}

// edge anchors a label so that it stays inside the drawing.
func edge(x, left, right float64) string {
	switch {
	case x < left+14:
		return "start"
	case x > right-14:
		return "end"
	}
	return "middle"
}

func siTick(v float64) string {
	if v == 0 {
		return "0"
	}
	return siDigits(v, max(1, int(math.Ceil(math.Log10(math.Abs(v)/math.Pow(10, math.Floor(math.Log10(math.Abs(v))))+1e-9)))))
}
