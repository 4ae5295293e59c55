package report

import (
	"fmt"
	"html/template"
	"math"

	"mpps/internal/tune"
)

// waterfall draws how the rate came from the baseline to the result: a step for each change that was kept, as long as it was
// measured to be on its own beside what stood already, and what a last search found with all of them.
func waterfall(r *tune.Result) template.HTML {
	from, to := rateOfSearch(&r.Baseline), rateOfSearch(&r.Final)
	if from <= 0 {
		return ""
	}
	type step struct {
		name, text, class string
		a, b              float64 // bar
		lo, hi            float64 // whisker; 0: none
	}
	steps := []step{{name: "as it was found", text: siDigits(from, 3), class: "bar s2", b: from}}
	at := from
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if a.Outcome != tune.Kept || a.Gain.Ratio <= 0 {
			continue
		}
		s := step{name: a.Name(), text: gainText(&a.Gain), class: "bar s1", a: at, b: at * a.Gain.Ratio, lo: at * a.Gain.Lo, hi: at * a.Gain.Hi}
		if a.Gain.Ratio < 1 {
			s.class = "bar s0"
		}
		steps = append(steps, s)
		at = s.b
	}
	if len(steps) > 1 && to > 0 {
		if beside := to / at; beside < 0.98 || beside > 1.02 {
			name := "more beside each other than alone"
			if beside < 1 {
				name = "less beside each other than alone"
			}
			steps = append(steps, step{name: name, text: "×" + times(beside), class: "pale s2", a: at, b: to})
		}
		last := step{name: "a last search, with all of it", text: siDigits(to, 3), class: "bar s3", b: to}
		if u := r.Final.UpperPPS; u != nil && r.Final.PPS > 0 && *u > to {
			last.lo, last.hi = to, *u
		}
		steps = append(steps, last)
	}
	most := r.Goal.PPS
	if most > 4*math.Max(from, to) { // so far away that the steps could not be seen
		most = 0
	}
	for _, s := range steps {
		most = math.Max(most, math.Max(s.b, math.Min(s.hi, 1.5*s.b)))
	}
	const left, right, row = 4, svgWidth - 12, 38
	d := &drawing{height: float64(len(steps)*row) + 58}
	bottom := d.height - 34
	x := linear(0, most*1.06, left, right)
	d.ticks(x, 18, bottom, left, right, siTick)
	d.text("unit", "end", right, d.height-3, "packets/s")
	if r.Goal.PPS > 0 && r.Goal.PPS <= most {
		at := x.at(r.Goal.PPS)
		d.line("target", at, 16, at, bottom)
		d.text("tick bad", edge(at, left, right), at, 11, "target "+siDigits(r.Goal.PPS, 3))
	}
	for i, s := range steps {
		y := float64(i*row) + 36
		d.text("label", "start", left, y-4, cut(s.name, 34))
		d.text("label strong", "end", right, y-4, s.text)
		d.rect(s.class, x.at(math.Min(s.a, s.b)), y+1, math.Abs(x.at(s.b)-x.at(s.a)), 13, s.name+": "+s.text)
		if s.hi > s.lo && s.lo > 0 {
			d.whisker(x.at(s.lo), math.Min(x.at(s.hi), right), y+7.5)
		}
		if i+1 < len(steps) { // from the end of a step to the beginning of the next
			d.line("one", x.at(s.b), y+14, x.at(s.b), y+row+1)
		}
	}
	return d.svg("rate from the baseline to the result, a step for each change that was kept")
}

// forest draws every attempt on one axis: the ratio after to before with its interval, and each pair of measurements as a dot.
func forest(r *tune.Result) template.HTML {
	lo, hi, n := 1.0, 1.0, 0
	for i := range r.Attempts {
		if g := &r.Attempts[i].Gain; g.Ratio > 0 {
			lo, hi, n = math.Min(lo, g.Ratio), math.Max(hi, g.Ratio), n+1
			for _, p := range g.Pairs {
				if p.Before > 0 && p.After > 0 {
					lo, hi = math.Min(lo, p.After/p.Before), math.Max(hi, p.After/p.Before)
				}
			}
		}
	}
	if n == 0 {
		return ""
	}
	const left, right, row = 8, svgWidth - 10, 36
	d := &drawing{height: float64(n*row) + 36}
	bottom := d.height - 28
	x := linear(math.Max(math.Min(math.Log(lo), -0.05)*1.1, math.Log(0.1)), math.Min(math.Max(math.Log(hi), 0.05)*1.1, math.Log(20)), left, right)
	for _, tick := range ratioTicks(math.Exp(x.from), math.Exp(x.to)) {
		at := x.at(math.Log(tick))
		d.line("grid", at, 4, at, bottom)
		d.text("tick", edge(at, left, right), at, bottom+14, "×"+times(tick))
	}
	d.line("one", x.at(0), 4, x.at(0), bottom)
	if m := math.Log(1 + r.Method.MinEffect); m > 0 && m < x.to {
		d.line("least", x.at(m), 4, x.at(m), bottom)
	}
	place := func(ratio float64) float64 {
		if ratio <= 0 {
			return left
		}
		return math.Min(math.Max(x.at(math.Log(ratio)), left), right)
	}
	y := 26.0
	for i := range r.Attempts {
		a := &r.Attempts[i]
		g := &a.Gain
		if g.Ratio <= 0 {
			continue
		}
		class := map[tune.Outcome]string{tune.Kept: "s1", tune.Hurts: "s0"}[a.Outcome]
		if class == "" {
			class = "s2"
		}
		far := float64(right) // not bounded by so few pairs
		if g.Hi > 0 {
			far = place(g.Hi)
		}
		d.text("label", "start", left, y-9, cut(fmt.Sprintf("%d %s", a.N, a.Name()), 30))
		d.text("label", "end", right, y-9, fmt.Sprintf("%s %s", gainText(g), outcomeWords[a.Outcome].word))
		if g.Lo > 0 || g.Hi > 0 {
			d.line("interval "+class, place(g.Lo), y+3, far, y+3)
		}
		for j, p := range g.Pairs {
			if p.Before > 0 && p.After > 0 {
				d.dot("dot "+class, place(p.After/p.Before), y+3+float64(j%3-1)*3, 2.6, fmt.Sprintf("%s, pair %d: %s → %s packets/s", a.Name(), j+1, siDigits(p.Before, 3), siDigits(p.After, 3)))
			}
		}
		d.line("median "+class, place(g.Ratio), y-4, place(g.Ratio), y+10)
		y += row
	}
	return d.svg("each attempt: ratio after to before, with interval and every pair")
}

// proof draws the measurements of everything that was kept against the beginning.
func proof(r *tune.Result) template.HTML {
	if len(r.Whole.Pairs) == 0 || len(r.Kept) == 0 {
		return ""
	}
	var before, after []float64
	most := 0.0
	for _, p := range r.Whole.Pairs {
		before, after = append(before, p.Before), append(after, p.After)
		most = math.Max(most, math.Max(p.Before, p.After))
	}
	if most <= 0 {
		return ""
	}
	const left, right, row = 12, svgWidth - 12, 50
	d := &drawing{height: 2*row + 38}
	bottom := d.height - 32
	x := linear(0, most*1.06, left, right)
	d.ticks(x, 4, bottom, left, right, siTick)
	d.text("unit", "end", right, d.height-3, "packets/s")
	for i, side := range []struct {
		name, class string
		values      []float64
	}{{"the beginning", "s2", before}, {"everything that was kept", "s1", after}} {
		y := float64(i*row) + 32
		d.text("label", "start", left, y-14, side.name)
		for n, v := range side.values {
			d.dot("dot "+side.class, x.at(v), y+float64(n%3-1)*4, 4, fmt.Sprintf("%s, trial %d: %s packets/s", side.name, n+1, siDigits(v, 3)))
		}
	}
	return d.svg("trials of the beginning and of everything that was kept, in turns")
}
