// Package tuning makes the page of a tuning run: what limited the path, what was tried, and what was kept.
package tuning

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"mpps/internal/bottleneck"
	"mpps/internal/report"
	"mpps/internal/report/page"
	"mpps/internal/report/words"
	"mpps/internal/tune"
)

//go:embed tuning.html.tmpl style.css
var files embed.FS

var write = page.New(files, template.FuncMap{"evidence": report.Evidence, "gain": gainText, "rate": rateText})

// HTML writes a tuning run as a page.
func HTML(w io.Writer, r *tune.Result, version string, made time.Time) error {
	b := body{Result: r, Limits: []limit{{"as it was found", r.Before}}, Stops: stops(r), Waterfall: waterfall(r), Forest: forest(r),
		Proof: proof(r)}
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
	return write(w, page.Page{Title: words.Join(" · ", "mpps tune", r.Host), Verdict: headline(r), Lead: r.Why + ".", Body: b,
		Warnings: r.Warnings, Version: version, Made: made, Data: r})
}

// body is a result with everything that its template shows besides.
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

// rateOf is the rate that a search found, or where no rate is without loss what came through.
func rateOf(r tune.Rate) float64 {
	if r.PPS > 0 {
		return r.PPS
	}
	return r.Loaded
}

// pps writes a rate as it stands in a sentence.
func pps(v float64) string { return words.NoBreak(words.SI(v, 3)) }

// headline is the verdict in a sentence.
func headline(r *tune.Result) string {
	from, to := rateOf(r.Baseline), rateOf(r.Final)
	wanted := words.If(r.Goal.PPS > 0, "; %s were asked for", pps(r.Goal.PPS)) + "."
	found := pps(from) + " packets per second" + wanted
	rates := pps(from) + " → " + pps(to)
	kept := found
	if from > 0 && to > 0 && to != from {
		switch ratio := to / from; {
		case ratio >= 1.5:
			kept = fmt.Sprintf("%s× more packets: %s per second%s", words.Times(ratio), rates, wanted)
		case ratio > 1:
			kept = fmt.Sprintf("%.2g\u00a0%% more packets: %s per second%s", (ratio-1)*100, rates, wanted)
		default:
			kept = rates + " packets per second" + wanted
		}
	}
	switch r.Verdict {
	case tune.Met:
		return "The target holds. " + kept
	case tune.Good:
		return "Good as it was: " + found + " Nothing was changed."
	case tune.NoGain:
		return "Nothing helped: " + found
	case tune.OutOfBudget:
		return "Out of time. " + kept
	case tune.Waiting:
		return "More needs a restart. " + kept
	case tune.NotDevice:
		if len(r.Added) > 0 {
			return fmt.Sprintf("The %s is the limit by now, not this host. %s", r.Final.LimitedBy, kept)
		}
		return fmt.Sprintf("The %s is the limit at %s packets per second, not this host.", r.Final.LimitedBy, pps(from))
	case tune.Interrupted:
		return "Ended early."
	case tune.Failed:
		return "Ended by an error."
	}
	return kept
}

// gainText is a ratio with its interval.
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
	Stage, Name                 string
	Before, After               string
	Limited, Limits, Changed    bool
	BeforePercent, AfterPercent int // of its use; −1: not known
}

// stops are the stages that either diagnosis has, in path order.
func stops(r *tune.Result) []stop {
	if r.Before == nil {
		return nil
	}
	after := r.After
	if after == nil {
		after = &bottleneck.Diagnosis{}
	}
	changed := map[string]bool{}
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if a.Outcome != tune.Kept {
			continue
		}
		changed[a.Stage] = true
		for j := range r.Attempts { // each part was tried alone before
			if one := &r.Attempts[j]; slices.Contains(a.Parts, one.Key) && slices.Contains(r.Kept, one.Key) {
				changed[one.Stage] = true
			}
		}
	}
	var stops []stop
	for _, name := range bottleneck.StageNames() {
		s := stop{Stage: name, Changed: changed[name], Limited: limitsAt(r.Before, name), Limits: limitsAt(after, name)}
		s.Name, s.Before, s.BeforePercent = useOf(r.Before, name)
		object, text, percent := useOf(after, name)
		if s.After, s.AfterPercent = text, percent; object != "" {
			s.Name = object
		}
		if s.Name != "" {
			stops = append(stops, s)
		}
	}
	return stops
}

func limitsAt(d *bottleneck.Diagnosis, stage string) bool {
	return d.Bottleneck != nil && d.Bottleneck.Stage == stage
}

// useOf is the object of a stage, how busy it is, in words and in percent; −1 where that is not known.
func useOf(d *bottleneck.Diagnosis, stage string) (object, text string, percent int) {
	at := slices.IndexFunc(d.Stages, func(s bottleneck.Stage) bool { return s.Name == stage })
	if at < 0 {
		return "", "", -1
	}
	s, percent := &d.Stages[at], -1
	if s.Use >= 0 {
		percent = int(min(s.Use, 1)*100 + 0.5)
	}
	busy := words.If(percent >= 0, "%d\u00a0%% busy", percent)
	return s.Object, words.Join(", ", append([]string{busy}, report.Waits(s)...)...), percent
}

// attemptView is one candidate that was tried.
type attemptView struct {
	*tune.Attempt
	Word, Class, Gained, Bet string
	Diff                     []tune.Change
	More                     int // changes that are not shown
}

// outcomes are the outcomes in words, with the class of their colour.
var outcomes = map[tune.Outcome]struct{ word, class string }{
	tune.Kept: {"kept", "good"}, tune.Hurts: {"hurts", "bad"}, tune.Useless: {"no gain", ""}, tune.NotShown: {"not shown to help", ""},
	tune.Refused: {"refused by the machine", "bad"}, tune.Cut: {"cut short", ""}, tune.Overcome: {"taken back later", ""},
}

// revisitOf is a repeated measurement of what was kept before, and what came of it.
func revisitOf(a *tune.Attempt, kept []string) attemptView {
	v := attemptOf(a, kept)
	switch stands := slices.Contains(kept, a.Key); {
	case stands && a.Outcome == tune.Kept:
		v.Word = "stays"
	case stands:
		v.Word, v.Class = "stays, not measured to the end", ""
	case a.Outcome == tune.Hurts, a.Outcome == tune.Cut:
		v.Word, v.Class = "taken out", "bad"
	default:
		v.Word, v.Class = "taken back with the rest", ""
	}
	return v
}

// attemptOf is an attempt; of one that was kept without what was taken out again.
func attemptOf(a *tune.Attempt, kept []string) attemptView {
	o, known := outcomes[a.Outcome]
	if !known {
		o.word = string(a.Outcome)
	}
	v := attemptView{Attempt: a, Word: o.word, Class: o.class, Gained: gainText(a.Gain), Diff: a.Changes}
	if a.Outcome == tune.Kept && len(a.Parts) > 0 {
		var out []string // IDs
		// A part may be several knobs that belong together, or found later of one: nic.rings#2.
		for _, key := range strings.Split(strings.Join(a.TakenOut(kept), "+"), "+") {
			id, _, _ := strings.Cut(key, "#")
			out = append(out, id)
		}
		v.Diff = slices.DeleteFunc(slices.Clone(a.Changes), func(c tune.Change) bool { return slices.Contains(out, c.ID) })
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

// rateText is what a search found.
func rateText(r tune.Rate) string {
	text := r.None
	if text == "" {
		text = words.SI(r.PPS, 4) + " packets per second without loss"
		if r.Loss > 0 {
			text = words.SI(r.PPS, 4) + " packets per second with a loss of up to " + words.Loss(r.Loss)
		}
		if r.UpperPPS != nil {
			text += ", less than " + words.SI(*r.UpperPPS, 4)
		}
	}
	return fmt.Sprintf("%s%s; limited by: %s; %s in %s", text,
		words.If(r.Loaded > 0, "; %s came through under the trial load", words.SI(r.Loaded, 3)),
		r.LimitedBy, words.Count(r.Trials, "trial"), words.Seconds(r.Seconds))
}
