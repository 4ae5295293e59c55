// Package tuning renders a tuning run as text and as a page: what limited the path, what was tried, and what was kept.
package tuning

import (
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/advise/tune"
	"mpps/internal/report"
	"mpps/internal/report/page"
	"mpps/internal/report/svg"
	"mpps/internal/words"
)

//go:embed tuning.html.tmpl style.css
var files embed.FS

var write = page.New(files, template.FuncMap{
	"busy": busyText, "evidence": report.Evidence, "gain": gainText, "percentOf": percent, "rate": rateText,
})

// HTML writes a tuning run as a page.
func HTML(w io.Writer, r *tune.Result, version string, made time.Time) error {
	b := body{Result: r, Limits: []limit{{"as it was found", r.Before}}, Stops: stops(r), Waterfall: drawWaterfall(r),
		Forest: drawForest(r), Proof: drawProof(r)}
	if len(r.Kept) > 0 {
		b.Limits = append(b.Limits, limit{"with what was kept", r.After})
	}
	for i := range r.Attempts {
		if a := attemptOf(&r.Attempts[i], r.Kept); a.Outcome == tune.Kept {
			b.Standing = append(b.Standing, a)
		} else {
			b.Dropped = append(b.Dropped, a)
		}
	}
	for i := range r.Revisits {
		b.Revisited = append(b.Revisited, revisitOf(&r.Revisits[i], r.Kept))
	}
	return write(w, page.Page{Title: words.Join(" · ", "mpps tune", r.Host), Verdict: headline(r), Body: b,
		Warnings: r.Warnings, Version: version, Made: made, Data: r})
}

// body is a result with the derived values that its template shows.
type body struct {
	*tune.Result
	Limits                       []limit
	Stops                        []stop
	Waterfall, Forest, Proof     template.HTML
	Standing, Dropped, Revisited []attemptView
}

// limit is what limited the path at one time; without a diagnosis that is not known.
type limit struct {
	When string
	*bottleneck.Diagnosis
}

// Reached reports whether the target was reached, and Missed whether the run shows that it was not.
func (b body) Reached() bool { return b.Verdict == tune.Met || b.Verdict == tune.Good }

func (b body) Missed() bool {
	shows := b.Verdict != tune.NotDevice && b.Verdict != tune.Interrupted && b.Verdict != tune.Failed
	return !b.Reached() && b.Goal.PPS > 0 && shows
}

// rateOf returns the rate that a search found, or where no rate is without loss what came through.
func rateOf(r tune.Rate) float64 { return words.Either(r.PPS > 0, r.PPS, r.Loaded) }

// pps writes a rate for use in a sentence, without line breaks.
func pps(v float64) string { return words.NoBreak(words.SI(v, 3)) }

// headline returns the verdict in a sentence.
func headline(r *tune.Result) string {
	from, to := rateOf(r.Baseline), rateOf(r.Final)
	if r.Baseline.PPS == 0 || r.Final.PPS == 0 { // a rate without loss is compared with no other kind
		from, to = r.Baseline.Loaded, r.Final.Loaded
	}
	wanted := words.If(r.Goal.PPS > 0, "; %s were asked for", pps(r.Goal.PPS)) + "."
	found := pps(from) + " packets per second" + wanted
	rates := pps(from) + " → " + pps(to)
	kept := found
	switch gain, shown := r.Shown(); { // two searches show no gain by themselves
	case shown && gain.Lost != nil:
		kept = fmt.Sprintf("%s: %s packets per second%s", gain, rates, wanted)
	case shown && gain.Ratio >= 1.5:
		kept = fmt.Sprintf("%s× more packets: %s per second%s", words.Times(gain.Ratio), rates, wanted)
	case shown:
		kept = fmt.Sprintf("%.2g\u00a0%% more packets: %s per second%s", (gain.Ratio-1)*100, rates, wanted)
	case r.Restarted != "" && to > 0:
		kept = pps(to) + " packets per second, not shown to be more than before the " + r.Restarted + wanted
	}
	other := words.Either(len(r.Added) > 0,
		fmt.Sprintf("The %s is the limit by now, not this host. %s", r.Final.LimitedBy, kept),
		fmt.Sprintf("The %s is the limit at %s packets per second, not this host.", r.Final.LimitedBy, pps(to)))
	return cmp.Or(map[tune.Verdict]string{
		tune.Met: "The target holds. " + kept, tune.Good: "Good as it was: " + found + " Nothing was changed.",
		tune.NoGain: "Nothing helped: " + found, tune.OutOfBudget: "Out of time. " + kept, tune.NotDevice: other,
		tune.Waiting: "More needs a restart. " + kept, tune.Interrupted: "Ended early.",
		tune.Failed: "Ended by an error.",
	}[r.Verdict], kept)
}

// gainText returns a ratio with its interval.
func gainText(g tune.Gain) string {
	ratio := "×" + words.Times(g.Ratio)
	switch {
	case g.Ratio == 0:
		return "not measured"
	case g.Lost != nil:
		return g.String()
	case g.Hi == 0 && g.Lo == 0: // nothing bounds it: its trials were not in turns
		return ratio
	case g.Hi == 0:
		return fmt.Sprintf("%s [%s, …]", ratio, words.Times(g.Lo))
	}
	return fmt.Sprintf("%s [%s, %s]", ratio, words.Times(g.Lo), words.Times(g.Hi))
}

// stop is one station of the path, before and after.
type stop struct {
	Stage                    string
	Before, After            *bottleneck.Stage // nil: not seen
	Limited, Limits, Changed bool
}

// stops returns the stages that either diagnosis has, in path order.
func stops(r *tune.Result) []stop {
	if r.Before == nil {
		return nil
	}
	after := cmp.Or(r.After, &bottleneck.Diagnosis{})
	changed := map[string]bool{}
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if a.Outcome != tune.Kept {
			continue
		}
		changed[a.Stage] = true
		for _, one := range slices.Concat(r.Attempts, r.Revisits) { // parts, tried alone before or after
			if slices.Contains(a.Parts, one.Key) && slices.Contains(r.Kept, one.Key) {
				changed[one.Stage] = true
			}
		}
	}
	var stops []stop
	for _, name := range bottleneck.StageNames() {
		s := stop{Stage: name, Changed: changed[name]}
		s.Before, s.Limited = stageOf(r.Before, name)
		if s.After, s.Limits = stageOf(after, name); s.Before != nil || s.After != nil {
			stops = append(stops, s)
		}
	}
	return stops
}

// stageOf returns a stage of a diagnosis, and whether it is the limit.
func stageOf(d *bottleneck.Diagnosis, name string) (stage *bottleneck.Stage, limits bool) {
	if at := slices.IndexFunc(d.Stages, func(s bottleneck.Stage) bool { return s.Name == name }); at >= 0 {
		stage = &d.Stages[at]
	}
	return stage, d.Bottleneck != nil && d.Bottleneck.Stage == name
}

// busyText says how busy a stage is and what waits there.
func busyText(s *bottleneck.Stage) string {
	use := words.If(s.Use >= 0, "%.0f\u00a0%% busy", percent(s.Use))
	return words.Join(", ", append([]string{use}, report.Waits(s)...)...)
}

func percent(use float64) float64 { return 100 * min(use, 1) }

// attemptView is one candidate that was tried.
type attemptView struct {
	*tune.Attempt
	Word, Class, Gained, Bet string
	Diff                     []tune.Change
	More                     int // changes that are not shown
}

// outcomes are the outcomes in words, with the class of their colour.
var outcomes = map[tune.Outcome]struct{ word, class string }{
	tune.Kept: {"kept", "good"}, tune.Hurts: {"hurts", "bad"},
	tune.Useless: {"no gain", ""}, tune.NotShown: {"not shown to help", ""},
	tune.Refused: {"refused by the machine", "bad"}, tune.Cut: {"cut short", ""},
	tune.Overcome: {"taken back later", ""},
}

// revisitOf returns a repeated measurement of what was kept before, and its outcome.
func revisitOf(a *tune.Attempt, kept []string) attemptView {
	v := attemptOf(a, kept)
	switch stands := a.Stands(kept); {
	case stands && a.Outcome == tune.Kept:
		v.Word = "stays"
	case stands:
		v.Word, v.Class = "stays, not measured to the end", ""
	case a.Outcome == tune.Hurts, a.Outcome == tune.Cut:
		v.Word, v.Class = "taken out", "bad"
	case a.Outcome == tune.Useless:
		v.Word, v.Class = "taken out: it carries nothing", ""
	default:
		v.Word, v.Class = "taken back with the rest", ""
	}
	return v
}

// attemptOf returns an attempt; of one that was kept without what was taken out again.
func attemptOf(a *tune.Attempt, kept []string) attemptView {
	o := outcomes[a.Outcome]
	v := attemptView{Attempt: a, Word: cmp.Or(o.word, string(a.Outcome)), Class: o.class,
		Gained: gainText(a.Gain), Diff: a.Changes}
	if a.Outcome == tune.Kept && len(a.Parts) > 0 {
		var out []string // IDs
		// A part may be several knobs that belong together, or found later of one: nic.rings#2.
		for _, key := range strings.Split(strings.Join(a.DroppedParts(kept), "+"), "+") {
			id, _, _ := strings.Cut(key, "#")
			out = append(out, id)
		}
		v.Diff = slices.DeleteFunc(slices.Clone(a.Changes),
			func(c tune.Change) bool { return slices.Contains(out, c.ID) })
	}
	const most = 12
	v.Diff, v.More = v.Diff[:min(len(v.Diff), most)], max(len(v.Diff)-most, 0)
	if n := len(a.Gain.Pairs); a.Needed > 0 && n > 0 {
		length := slices.MaxFunc(a.Gain.Pairs, func(a, b tune.Pair) int { return a.Length - b.Length }).Length
		v.Bet = words.Count(n, "pair") + words.If(length > 1, " with trials up to %d times as long", length) +
			fmt.Sprintf("; e-value %s of the %s needed", words.SI(a.Evidence, 2), words.SI(a.Needed, 2))
	}
	return v
}

// rateText returns what a search found.
func rateText(r tune.Rate) string {
	text := words.SI(r.PPS, 4) + " packets per second " +
		words.Either(r.Loss > 0, "with a loss of up to "+words.Loss(r.Loss), "without loss")
	if r.UpperPPS != nil {
		text += ", less than " + words.SI(*r.UpperPPS, 4)
	}
	return fmt.Sprintf("%s%s; limited by: %s; %s in %s", cmp.Or(r.None, text),
		words.If(r.Loaded > 0, "; %s came through under the trial load", words.SI(r.Loaded, 3)),
		r.LimitedBy, words.Count(r.Trials, "trial"), words.Seconds(r.Seconds))
}

// step is a bar of the waterfall, with its interval if it has one.
type step struct {
	name, text, class string
	from, to, lo, hi  float64
}

// drawWaterfall draws how the rate rose from the baseline to the result: a step for each kept change, of the size
// measured when it was added to the earlier ones, and the result of the last search with all of them.
func drawWaterfall(r *tune.Result) template.HTML {
	from, to := rateOf(r.Baseline), rateOf(r.Final)
	if from <= 0 {
		return ""
	}
	steps, at := []step{{name: "as it was found", text: words.SI(from, 3), class: "bar s2", to: from}}, from
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if g := a.Gain; a.Outcome == tune.Kept && g.Ratio > 0 {
			class := words.Either(g.Ratio < 1, "bar s0", "bar s1")
			steps = append(steps, step{a.Name(), gainText(g), class, at, at * g.Ratio, at * g.Lo, at * g.Hi})
			at *= g.Ratio
		}
	}
	if len(steps) > 1 && to > 0 {
		if together := to / at; together < 0.98 || together > 1.02 {
			name := words.Either(together < 1, "less", "more") + " together than alone"
			steps = append(steps, step{name: name, text: "×" + words.Times(together), class: "pale s2", from: at,
				to: to})
		}
		last := step{name: "a last search, with all of it", text: words.SI(to, 3), class: "bar s3", to: to}
		if u := r.Final.UpperPPS; u != nil && r.Final.PPS > 0 && *u > to {
			last.lo, last.hi = to, *u
		}
		steps = append(steps, last)
	}
	// no mark for a target so far away that the steps could not be seen
	most := words.Either(r.Goal.PPS <= 4*max(from, to), r.Goal.PPS, 0)
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
	d.AxisX(x, 18, "packets/s", words.Tick)
	return d.HTML("rate from the baseline to the result, a step for each change that was kept")
}

// drawForest draws every attempt on one axis: the ratio after to before with its interval, and each pair as a dot.
func drawForest(r *tune.Result) template.HTML {
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
	x := d.Ratios(max(lo, 0.1), min(hi, 20)) // what is further away is drawn at the edge
	for _, a := range measured {
		g, y := &a.Gain, d.Y+29
		class := cmp.Or(map[tune.Outcome]string{tune.Kept: "s1", tune.Hurts: "s0"}[a.Outcome], "s2")
		d.Text("label", "start", d.Left, d.Y+17, report.Cut(fmt.Sprintf("%d %s", a.N, a.Name()), 30))
		d.Text("label", "end", d.Right, d.Y+17, gainText(*g)+" "+outcomes[a.Outcome].word)
		both := pairs(g)
		d.Samples(class, x, y, 2.6, ratios(both), func(j int) string {
			p := both[j]
			return fmt.Sprintf("%s, pair %d: %s → %s packets/s", a.Name(), j+1, words.SI(p.Before, 3),
				words.SI(p.After, 3))
		})
		most := words.Either(g.Hi == 0 && g.Lo > 0, math.Inf(1), g.Hi) // few pairs do not bound it
		d.Estimate(class, x, g.Lo, g.Ratio, most, y, 14)
		d.Y += 36
	}
	d.Y += 8
	d.Rule("one", x.At(1), 4)
	if least := 1 + r.Method.MinEffect; least > 1 && x.At(least) < d.Right {
		d.Rule("least", x.At(least), 4)
	}
	d.AxisX(x, 4, "", func(v float64) string { return "×" + words.Times(v) })
	return d.HTML("each attempt: ratio after to before, with interval and every pair")
}

// pairs returns those of which both values are known.
func pairs(g *tune.Gain) []tune.Pair {
	return slices.DeleteFunc(slices.Clone(g.Pairs), func(p tune.Pair) bool { return p.Before <= 0 || p.After <= 0 })
}

func ratios(pairs []tune.Pair) []float64 {
	all := make([]float64, len(pairs))
	for i, p := range pairs {
		all[i] = p.After / p.Before
	}
	return all
}

// drawProof draws the measurements of everything that was kept against the beginning.
func drawProof(r *tune.Result) template.HTML {
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
	d.AxisX(x, 4, "packets/s", words.Tick)
	return d.HTML("trials of the beginning and of everything that was kept, in turns")
}
