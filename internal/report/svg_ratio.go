package report

import (
	"fmt"
	"html/template"
	"math"

	"mpps/internal/measure"
)

// ratios draws after/before of all that was compared as intervals on one axis around 1.
func ratios(c *Compared) template.HTML {
	type row struct {
		name, better string
		*measure.Comparison
	}
	rows := []row{{nameOf(c.Kind), "more is better", &c.Throughput}}
	if c.RoundTrips != nil {
		rows = append(rows, row{"transactions", "more is better", c.RoundTrips})
	}
	if c.Cost != nil {
		rows = append(rows, row{"CPU time of each " + oneOf(c.Kind), "less is better", c.Cost})
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
	const left, right, height = 12, svgWidth - 12, 46
	d := &drawing{height: float64(len(rows)*height) + 34}
	bottom := d.height - 28
	// Room on both sides, and never so little that noise fills the picture.
	x := linear(math.Min(math.Log(lo), -0.05)*1.12, math.Max(math.Log(hi), 0.05)*1.12, left, right)
	for _, tick := range ratioTicks(math.Exp(x.from), math.Exp(x.to)) {
		at := x.at(math.Log(tick))
		d.line("grid", at, 4, at, bottom)
		d.text("tick", edge(at, left, right), at, bottom+14, "×"+times(tick))
	}
	d.line("one", x.at(0), 4, x.at(0), bottom)
	for i, r := range rows {
		y := float64(i*height) + 34
		verdict := measure.Same
		if r.Significant {
			verdict = "p = " + fmt.Sprintf("%.2g", r.P)
		}
		text := fmt.Sprintf("%s: no ratio, a value is 0", r.name)
		if q := r.Ratio; q.N > 0 {
			text = fmt.Sprintf("%s: ×%s [%s, %s], %s, %s", r.name, times(q.Value), times(q.Lo), times(q.Hi), verdict, r.better)
			class := "s1"
			if !r.Significant {
				class = "s2"
			}
			d.line("interval "+class, x.at(math.Log(q.Lo)), y, x.at(math.Log(q.Hi)), y)
			d.line("median "+class, x.at(math.Log(q.Value)), y-8, x.at(math.Log(q.Value)), y+8)
		}
		d.text("label", "start", left, y-14, text)
	}
	return d.svg("ratio of after to before, with interval")
}

// ratioTicks are round ratios within two bounds, three to eight of them, 1 always.
func ratioTicks(lo, hi float64) []float64 {
	for _, steps := range [][]float64{
		{0.001, 0.01, 0.1, 1, 10, 100, 1000}, {0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100},
		{0.2, 0.4, 0.6, 0.8, 1, 1.5, 2, 3, 4, 5}, {0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.4, 1.6, 1.8},
		{0.85, 0.9, 0.95, 1, 1.05, 1.1, 1.15},
	} {
		var within []float64
		for _, s := range steps {
			if s >= lo && s <= hi {
				within = append(within, s)
			}
		}
		if len(within) >= 3 {
			return within
		}
	}
	return []float64{1}
}

// nameOf is what a kind counts, in plural, and oneOf one of them.
func nameOf(k measure.Kind) string {
	if k == measure.Stream {
		return "throughput"
	}
	return oneOf(k) + "s"
}

func oneOf(k measure.Kind) string {
	switch {
	case k == measure.Stream:
		return "byte"
	case k != "" && transactional(k):
		return "transaction"
	}
	return "packet"
}
