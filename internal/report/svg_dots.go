package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
)

// colours is how many classes of colour (and of dashes, where lines cross) series have in turn.
const colours = 7

func colour(place int) string { return fmt.Sprintf("s%d", place%colours) }

// dots draws every sample of each series as a dot on one axis, with the median and its interval: spread stays visible,
// which bars from zero would hide. The axis is logarithmic where the series lie more than ten times apart.
func dots(runs []labeled, unit string) template.HTML {
	var all []float64
	for _, r := range runs {
		all = append(all, r.Values()...)
	}
	if len(all) == 0 {
		return ""
	}
	lo, hi := slices.Min(all), slices.Max(all)
	if hi <= 0 {
		return ""
	}
	const left, right, row = 12, svgWidth - 12, 58
	d := &drawing{height: float64(len(runs)*row) + 38}
	bottom := d.height - 32
	x := linear(0, hi*1.08, left, right)
	if lo > 0 && hi/lo > 10 {
		x = logarithmic(lo, hi, left, right)
	}
	d.ticks(x, 4, bottom, left, right, siTick)
	d.text("unit", "end", right, d.height-3, unit)
	for i, r := range runs {
		y := float64(i*row) + 42
		class := colour(r.place)
		m := r.Median
		d.text("label", "start", left, y-18, fmt.Sprintf("%s: %s, n = %d", short(r.label), withInterval(m.Value, m.Lo, m.Hi), len(r.Samples)))
		d.line("interval "+class, x.at(m.Lo), y, x.at(m.Hi), y)
		for n, v := range r.Values() {
			// Spread by a fixed pattern, so that the same run is always the same picture.
			d.dot("dot "+class, x.at(v), y+float64(n%3-1)*4, 4, fmt.Sprintf("%s, sample %d: %s %s", r.label, n+1, siDigits(v, 4), unit))
		}
		d.line("median "+class, x.at(m.Value), y-10, x.at(m.Value), y+10)
	}
	return d.svg("samples of each series with median and interval, in " + unit)
}

// withInterval writes a value and, where it has one, its interval.
func withInterval(v, lo, hi float64) string {
	if hi <= lo {
		return digits(v, lo, hi)
	}
	return fmt.Sprintf("%s [%s, %s]", digits(v, lo, hi), digits(lo, lo, hi), digits(hi, lo, hi))
}

// ticks draws the grid of a horizontal scale from top to bottom, with its labels below. Labels that would stand on each
// other are left out.
func (d *drawing) ticks(x scale, top, bottom, left, right float64, label func(float64) string) {
	end := math.Inf(-1)
	for _, tick := range x.ticks() {
		at := x.at(tick)
		d.line("grid", at, top, at, bottom)
		text := label(tick)
		width := float64(len([]rune(text))) * 6
		anchor := edge(at, left, right)
		from := at - width/2
		switch anchor {
		case "start":
			from = at
		case "end":
			from = at - width
		}
		if from < end+4 {
			continue
		}
		end = from + width
		d.text("tick", anchor, at, bottom+14, text)
	}
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

// siTick writes a round value in as few digits as it has.
func siTick(v float64) string {
	if v == 0 {
		return "0"
	}
	for n := 1; n < 5; n++ {
		scale := math.Pow(10, float64(n)-1-math.Floor(math.Log10(math.Abs(v))))
		if math.Abs(math.Round(v*scale)/scale-v) < math.Abs(v)*1e-6 {
			return siDigits(v, n)
		}
	}
	return siDigits(v, 5)
}
