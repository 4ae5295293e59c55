package report

import (
	"fmt"
	"html/template"
	"math"
)

// goals are a search's goals that have bounds.
func (r *Rates) goals() []goalBounds {
	var all []goalBounds
	if r.NDR != nil {
		all = append(all, goalBounds{"NDR", "no loss", "s1", r.NDR})
	}
	if r.PDR != nil {
		all = append(all, goalBounds{"PDR", "loss up to " + lossText(r.PDRLoss), "s0", r.PDR})
	}
	return all
}

type goalBounds struct {
	name, means, class string
	*RateBounds
}

func (g goalBounds) text() string {
	if g.UpperPPS <= 0 {
		return fmt.Sprintf("%s, %s: at least %s packets/s", g.name, g.means, siDigits(g.LowerPPS, 4))
	}
	n := 1 + int(math.Ceil(math.Log10(g.UpperPPS/math.Max(g.UpperPPS-g.LowerPPS, g.UpperPPS/1e4))))
	n = min(max(n, 3), 5)
	return fmt.Sprintf("%s, %s: [%s, %s] packets/s", g.name, g.means, siDigits(g.LowerPPS, n), siDigits(g.UpperPPS, n))
}

func lossText(ratio float64) string {
	if ratio == 0 {
		return "none"
	}
	return fmt.Sprintf("%.2g %%", ratio*100)
}

// rateBounds draws, for each search and goal, the rate that is carried for certain and the bounds around it.
func rateBounds(all []Rates) template.HTML {
	var lo, hi float64 = math.Inf(1), 0
	n := 0
	for i := range all {
		for _, g := range all[i].goals() {
			n++
			hi = math.Max(hi, math.Max(g.LowerPPS, g.UpperPPS))
			if g.LowerPPS > 0 {
				lo = math.Min(lo, g.LowerPPS)
			}
		}
	}
	if hi <= 0 {
		return ""
	}
	const left, right = 4, svgWidth - 12
	x := linear(0, hi*1.05, left, right)
	if lo > 0 && hi/lo > 20 {
		x = logarithmic(lo, hi, left, right)
	}
	d := &drawing{height: 6}
	type row struct {
		y     float64
		goals []goalBounds
		*Rates
	}
	var rows []row
	for i := range all {
		r := row{d.height, all[i].goals(), &all[i]}
		d.height += 18 + float64(len(r.goals))*32
		if r.Floor > 0 {
			d.height += 18
		}
		rows = append(rows, r)
	}
	bottom := d.height + 2
	d.height += 34
	d.ticks(x, 2, bottom, left, right, siTick)
	d.text("unit", "end", right, d.height-2, "packets/s")
	for _, r := range rows {
		y := r.y + 12
		name := short(r.Label)
		if r.Caveat != "" {
			name += " · " + r.Caveat
		}
		d.text("label strong", "start", left, y, name)
		if r.Floor > 0 {
			y += 18
			d.text("tick", "start", left, y, "no rate without loss: floor "+lossText(r.Floor))
		}
		for _, g := range r.goals {
			d.text("tick", "start", left, y+16, g.text())
			d.rect("bar "+g.class, left, y+20, x.at(g.LowerPPS)-left, 10, g.text())
			if g.UpperPPS > g.LowerPPS {
				d.rect("pale "+g.class, x.at(g.LowerPPS), y+20, x.at(g.UpperPPS)-x.at(g.LowerPPS), 10, g.text())
				d.whisker(x.at(g.LowerPPS), x.at(g.UpperPPS), y+25)
			}
			y += 32
		}
	}
	return d.svg("bounds of the rates without loss and within a loss")
}

// lossOverLoad draws the trials of a search: loss against the rate offered, with the bounds of the goals.
func lossOverLoad(r *Rates) template.HTML {
	if len(r.Trials) == 0 {
		return ""
	}
	lo, hi, longest, least, most := math.Inf(1), 0.0, 0.0, 1.0, 0.0
	for _, t := range r.Trials {
		lo, hi, longest = math.Min(lo, t.OfferedPPS), math.Max(hi, t.OfferedPPS), math.Max(longest, t.Seconds)
		if t.LossRatio > 0 {
			least, most = math.Min(least, t.LossRatio), math.Max(most, t.LossRatio)
		}
	}
	for _, g := range r.goals() {
		hi = math.Max(hi, g.UpperPPS)
	}
	if hi <= 0 {
		return ""
	}
	const left, right, top, bottom, none = 46, svgWidth - 12, 8, 168, 192
	d := &drawing{height: 238}
	x := linear(math.Max(0, lo-(hi-lo)*0.08-hi*0.01), hi*1.02, left, right)
	if lo > 0 && hi/lo > 20 {
		x = logarithmic(lo, hi, left, right)
	}
	y := logarithmic(math.Max(least, 1e-7), math.Max(most, 1e-2), bottom, top)
	for _, tick := range y.ticks() {
		d.line("grid", left, y.at(tick), right, y.at(tick))
		d.text("tick", "end", left-5, y.at(tick)+4, fmt.Sprintf("%.3g %%", tick*100))
	}
	d.line("grid", left, none, right, none)
	d.text("tick", "end", left-5, none+4, "none")
	d.ticks(x, top, none+8, left, right, siTick)
	d.text("unit", "end", right, d.height-3, "packets/s offered")
	for i, g := range r.goals() {
		from, to := x.at(g.LowerPPS), x.at(math.Max(g.UpperPPS, g.LowerPPS))
		d.rect("pale "+g.class, from, top, to-from, none+8-top, g.text())
		d.line("bound "+g.class, from, top, from, none+8)
		anchor, at := "end", from-4 // the lower goal's name on the left of its line, the higher one's on the right
		if g.name == "PDR" && to < right-30 || from < left+30 {
			anchor, at = "start", to+4
		}
		d.text("label", anchor, at, 18+float64(14*i), g.name)
	}
	for _, t := range r.Trials {
		at := float64(none)
		if t.LossRatio > 0 {
			at = y.at(t.LossRatio)
		}
		radius := 3.0
		if longest > 0 {
			radius = 2.5 + 3.5*math.Sqrt(t.Seconds/longest)
		}
		d.dot("trial", x.at(t.OfferedPPS), at, radius, fmt.Sprintf("%s packets/s for %s: loss %s", siDigits(t.OfferedPPS, 4), seconds(t.Seconds), lossText(t.LossRatio)))
	}
	return d.svg("loss against the rate offered, trial by trial")
}
