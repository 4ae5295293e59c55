package tuning

import (
	"fmt"
	"html/template"
	"math"
	"slices"

	"mpps/internal/report"
	"mpps/internal/report/svg"
	"mpps/internal/report/words"
	"mpps/internal/tune"
)

// step is a bar of the waterfall, with its interval where it has one.
type step struct {
	name, text, class string
	from, to, lo, hi  float64
}

// waterfall draws how the rate came from the baseline to the result: a step for each change that was kept, as long as it
// was measured on its own on top of the earlier ones, and what a last search found with all of them.
func waterfall(r *tune.Result) template.HTML {
	from, to := rateOf(r.Baseline), rateOf(r.Final)
	if from <= 0 {
		return ""
	}
	steps, at := []step{{name: "as it was found", text: words.SI(from, 3), class: "bar s2", to: from}}, from
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if g := a.Gain; a.Outcome == tune.Kept && g.Ratio > 0 {
			s := step{a.Name(), gainText(g), "bar s1", at, at * g.Ratio, at * g.Lo, at * g.Hi}
			if g.Ratio < 1 {
				s.class = "bar s0"
			}
			steps, at = append(steps, s), s.to
		}
	}
	if len(steps) > 1 && to > 0 {
		if together := to / at; together < 0.98 || together > 1.02 {
			name := "more together than alone"
			if together < 1 {
				name = "less together than alone"
			}
			steps = append(steps, step{name: name, text: "×" + words.Times(together), class: "pale s2", from: at, to: to})
		}
		last := step{name: "a last search, with all of it", text: words.SI(to, 3), class: "bar s3", to: to}
		if u := r.Final.UpperPPS; u != nil && r.Final.PPS > 0 && *u > to {
			last.lo, last.hi = to, *u
		}
		steps = append(steps, last)
	}
	most := r.Goal.PPS
	if most > 4*max(from, to) { // so far away that the steps could not be seen
		most = 0
	}
	for _, s := range steps {
		most = max(most, s.to, min(s.hi, 1.5*s.to))
	}
	d := svg.New(4, 12)
	d.Y = 20
	x := svg.Linear(0, most*1.06, d.Left, d.Right)
	for i, s := range steps {
		if i > 0 { // from the end of a step to the beginning of the next
			at := x.At(steps[i-1].to)
			d.Line("one", at, d.Y-8, at, d.Y+17)
		}
		d.Text("label", "start", d.Left, d.Y+12, report.Cut(s.name, 34))
		d.Text("label strong", "end", d.Right, d.Y+12, s.text)
		left := x.At(min(s.from, s.to))
		d.Rect(s.class, left, d.Y+17, x.At(max(s.from, s.to))-left, 13, s.name+": "+s.text)
		if s.lo > 0 {
			d.Whisker(x, s.lo, s.hi, d.Y+23.5)
		}
		d.Y += 38
	}
	if r.Goal.PPS > 0 && r.Goal.PPS <= most {
		at := x.At(r.Goal.PPS)
		d.Rule("target", at, 16)
		d.Text("tick bad", d.Edge(at), at, 11, "target "+words.SI(r.Goal.PPS, 3))
	}
	d.Below(x, 18, "packets/s", words.Tick)
	return d.HTML("rate from the baseline to the result, a step for each change that was kept")
}

// forest draws every attempt on one axis: the ratio after to before with its interval, and each pair as a dot.
func forest(r *tune.Result) template.HTML {
	lo, hi := 1.0, 1.0
	var measured []*tune.Attempt
	for i := range r.Attempts {
		g := &r.Attempts[i].Gain
		if g.Ratio <= 0 {
			continue
		}
		measured = append(measured, &r.Attempts[i])
		lo, hi = min(lo, g.Ratio), max(hi, g.Ratio)
		for _, ratio := range ratios(pairs(g)) {
			lo, hi = min(lo, ratio), max(hi, ratio)
		}
	}
	if len(measured) == 0 {
		return ""
	}
	d := svg.New(8, 10)
	x := d.Ratios(lo, hi)
	for _, a := range measured {
		g, class := &a.Gain, "s2"
		switch a.Outcome {
		case tune.Kept:
			class = "s1"
		case tune.Hurts:
			class = "s0"
		}
		y := d.Y + 29
		d.Text("label", "start", d.Left, d.Y+17, report.Cut(fmt.Sprintf("%d %s", a.N, a.Name()), 30))
		d.Text("label", "end", d.Right, d.Y+17, gainText(*g)+" "+outcomes[a.Outcome].word)
		both := pairs(g)
		d.Samples(class, x, y, 2.6, ratios(both), func(j int) string {
			p := both[j]
			return fmt.Sprintf("%s, pair %d: %s → %s packets/s", a.Name(), j+1, words.SI(p.Before, 3), words.SI(p.After, 3))
		})
		most := g.Hi
		if g.Hi == 0 && g.Lo > 0 { // not bounded by so few pairs
			most = math.Inf(1)
		}
		d.Estimate(class, x, g.Lo, g.Ratio, most, y, 14)
		d.Y += 36
	}
	d.Y += 8
	d.Rule("one", x.At(1), 4)
	if least := 1 + r.Method.MinEffect; least > 1 && x.At(least) < d.Right {
		d.Rule("least", x.At(least), 4)
	}
	d.Below(x, 4, "", func(v float64) string { return "×" + words.Times(v) })
	return d.HTML("each attempt: ratio after to before, with interval and every pair")
}

// pairs are those of which both values are known.
func pairs(g *tune.Gain) []tune.Pair {
	return slices.DeleteFunc(slices.Clone(g.Pairs), func(p tune.Pair) bool { return p.Before <= 0 || p.After <= 0 })
}

func ratios(pairs []tune.Pair) []float64 {
	var all []float64
	for _, p := range pairs {
		all = append(all, p.After/p.Before)
	}
	return all
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
		most = max(most, p.Before, p.After)
	}
	if most <= 0 {
		return ""
	}
	d := svg.New(12, 12)
	x := svg.Linear(0, most*1.06, d.Left, d.Right)
	for _, side := range []struct {
		name, class string
		values      []float64
	}{{"the beginning", "s2", before}, {"everything that was kept", "s1", after}} {
		d.Text("label", "start", d.Left, d.Y+18, side.name)
		d.Samples(side.class, x, d.Y+32, 4, side.values, func(i int) string {
			return fmt.Sprintf("%s, trial %d: %s packets/s", side.name, i+1, words.SI(side.values[i], 3))
		})
		d.Y += 50
	}
	d.Below(x, 4, "packets/s", words.Tick)
	return d.HTML("trials of the beginning and of everything that was kept, in turns")
}
