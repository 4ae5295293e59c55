package report

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"mpps/internal/bottleneck"
	"mpps/internal/facts"
	"mpps/internal/tune"
)

//go:embed tune.html.tmpl
var tuneTemplate string

//go:embed tune.css
var tuneStyle string

var tunePage = template.Must(template.New("tune").Parse(tuneTemplate))

// TuneHTML writes a run of the closed loop as one file that needs no network and no script, with the result embedded as JSON.
func TuneHTML(w io.Writer, r *tune.Result, version string, made time.Time) error {
	data, err := json.Marshal(facts.Whole(r)) // escapes <, > and &: safe inside a script element
	if err != nil {
		return fmt.Errorf("embed the result in the page: %w", err)
	}
	v := tuneView{
		Result: r, Headline: tuneHeadline(r), Together: gainText(&r.Whole), Chips: tuneChips(r), Held: heldRows(r), Stops: tuneStops(r),
		Waterfall: waterfall(r), Forest: forest(r), Proof: proof(r), Facts: tuneFacts(r),
		Style: template.CSS(pageStyle + tuneStyle), Data: template.JS(data), Version: version, Date: made.UTC().Format("2 January 2006, 15:04 MST"),
	}
	for i := range r.Attempts {
		row := attemptRow(&r.Attempts[i], r.Kept)
		switch r.Attempts[i].Outcome {
		case tune.Kept:
			v.Standing = append(v.Standing, row)
		default:
			v.Dropped = append(v.Dropped, row)
		}
	}
	for i := range r.Revisits {
		v.Revisited = append(v.Revisited, revisitRow(&r.Revisits[i], r.Kept))
	}
	return tunePage.Execute(w, v)
}

// tuneView is a result with everything that the template needs worked out.
type tuneView struct {
	*tune.Result
	Headline, Together       string
	Chips                    []chip
	Held                     []heldRow
	Stops                    []tuneStop
	Waterfall, Forest, Proof template.HTML
	Standing, Dropped        []attemptView
	Revisited                []attemptView
	Facts                    []factRow
	Style                    template.CSS
	Data                     template.JS
	Version, Date            string
}

// rateOfSearch is the rate that a search found, or where no rate is without loss what came through.
func rateOfSearch(r *tune.Rate) float64 {
	if r.PPS > 0 {
		return r.PPS
	}
	return r.Loaded
}

// pps writes a rate as it stands in a sentence.
func pps(v float64) string { return strings.ReplaceAll(siDigits(v, 3), " ", "\u00a0") }

// tuneHeadline is what a reader must take away who stops after one sentence.
func tuneHeadline(r *tune.Result) string {
	from, to := rateOfSearch(&r.Baseline), rateOfSearch(&r.Final)
	grown := ""
	if from > 0 && to > 0 && to != from {
		switch ratio := to / from; {
		case ratio >= 1.5:
			grown = fmt.Sprintf("%s× more packets: %s → %s per second", times(ratio), pps(from), pps(to))
		case ratio > 1:
			grown = fmt.Sprintf("%.2g\u00a0%% more packets: %s → %s per second", (ratio-1)*100, pps(from), pps(to))
		default:
			grown = fmt.Sprintf("%s → %s packets per second", pps(from), pps(to))
		}
	}
	missed := ""
	if r.Goal.PPS > 0 {
		missed = fmt.Sprintf("; %s were asked for", pps(r.Goal.PPS))
	}
	kept := grown + missed + "."
	if grown == "" {
		kept = fmt.Sprintf("%s packets per second%s.", pps(from), missed)
	}
	switch r.Verdict {
	case tune.Met:
		return "The target holds. " + strings.TrimSuffix(kept, ".") + "."
	case tune.Good:
		return fmt.Sprintf("Good as it was: %s packets per second%s. Nothing was changed.", pps(from), missed)
	case tune.NoGain:
		return fmt.Sprintf("Nothing helped: %s packets per second%s.", pps(from), missed)
	case tune.OutOfBudget:
		return "The time was over. " + kept
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

func tuneChips(r *tune.Result) []chip {
	var chips []chip
	add := func(class, format string, args ...any) {
		chips = append(chips, chip{fmt.Sprintf(format, args...), class})
	}
	switch {
	case r.Verdict == tune.Met || r.Verdict == tune.Good:
		add("good", "target reached")
	case r.Goal.PPS > 0 && r.Verdict != tune.NotDevice && r.Verdict != tune.Interrupted && r.Verdict != tune.Failed:
		add("bad", "target missed")
	}
	add("", "%s tried, %d kept", count(len(r.Attempts), "candidate"), len(r.Kept))
	if w := r.Whole; len(w.Pairs) > 0 && len(r.Added) > 0 {
		add("good", "together %s", gainText(&w))
	}
	if r.Emulated {
		add("bad", "emulated host: only ratios carry over")
	}
	switch {
	case r.Proposed && len(r.Kept) > 0:
		add("", "proposed only: everything is as it was found")
	case r.TX != "":
		add("", "undone by %s", r.UndoCommand())
	}
	if r.RestartTX != "" {
		add("bad", "waits for a restart, then mpps tune --resume")
	}
	return chips
}

// gainText is a ratio with its interval.
func gainText(g *tune.Gain) string {
	switch {
	case g.Ratio == 0:
		return "not measured"
	case g.Lost != nil:
		return g.String()
	case g.Hi == 0 && g.Lo == 0: // nothing bounds it: its trials were not in turns
		return "×" + times(g.Ratio)
	case g.Hi == 0:
		return fmt.Sprintf("×%s [%s, …]", times(g.Ratio), times(g.Lo))
	}
	return fmt.Sprintf("×%s [%s, %s]", times(g.Ratio), times(g.Lo), times(g.Hi))
}

// heldRow is what held the path back at one time.
type heldRow struct {
	When, Say, Advice, Then string
	Sure                    string
	Knobs                   []string
	Evidence                []string
	None                    bool
}

func heldRows(r *tune.Result) []heldRow {
	rows := []heldRow{heldOf("as it was found", r.Before)}
	if len(r.Kept) > 0 {
		rows = append(rows, heldOf("with what was kept", r.After))
	}
	return rows
}

func heldOf(when string, d *bottleneck.Diagnosis) heldRow {
	row := heldRow{When: when}
	switch {
	case d == nil:
		row.Say, row.None = "could not be told", true
		return row
	case d.Bottleneck == nil:
		row.Say, row.None = d.Why, true
	default:
		b := d.Bottleneck
		row.Say, row.Advice, row.Knobs = b.Say, b.Advice, b.Knobs
		row.Sure = fmt.Sprintf("%.0f\u00a0%% sure", b.Confidence*100)
		for _, e := range b.Evidence {
			row.Evidence = append(row.Evidence, evidenceLine(e))
		}
	}
	if d.Next != nil {
		row.Then = d.Next.Say
	}
	return row
}

// tuneStop is one station of the path, before and after.
type tuneStop struct {
	Stage, Name             string
	Before, After           string
	Held, Holds, Changed    bool
	BeforeShare, AfterShare int // of its use, percent
}

// tuneStops are the stages that either diagnosis has, in path order.
func tuneStops(r *tune.Result) []tuneStop {
	after := r.After
	if after == nil {
		after = &bottleneck.Diagnosis{}
	}
	if r.Before == nil {
		return nil
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
	find := func(d *bottleneck.Diagnosis, name string) *bottleneck.Stage {
		if at := slices.IndexFunc(d.Stages, func(s bottleneck.Stage) bool { return s.Name == name }); at >= 0 {
			return &d.Stages[at]
		}
		return nil
	}
	var stops []tuneStop
	for _, name := range bottleneck.StageNames() {
		was, is := find(r.Before, name), find(after, name)
		if was == nil && is == nil {
			continue
		}
		s := tuneStop{BeforeShare: -1, AfterShare: -1, Stage: name, Changed: changed[name], Held: holdsAt(r.Before, name), Holds: holdsAt(after, name)}
		if was != nil {
			s.Name, s.Before, s.BeforeShare = was.Object, useText(was), sharePercent(was.Use)
		}
		if is != nil {
			s.Name, s.After, s.AfterShare = is.Object, useText(is), sharePercent(is.Use)
		}
		stops = append(stops, s)
	}
	return stops
}

func holdsAt(d *bottleneck.Diagnosis, stage string) bool {
	return d.Bottleneck != nil && d.Bottleneck.Stage == stage
}

// sharePercent is a use in percent, −1 where it is not known.
func sharePercent(use float64) int {
	if use < 0 {
		return -1
	}
	return int(min(use, 1)*100 + 0.5)
}

func useText(s *bottleneck.Stage) string {
	var words []string
	if s.Use >= 0 {
		words = append(words, fmt.Sprintf("%d\u00a0%% busy", sharePercent(s.Use)))
	}
	for _, e := range append(slices.Clone(s.Saturation), s.Errors...) {
		words = append(words, quantity(e.Value, e.Unit)+" "+e.What)
	}
	return strings.Join(words, ", ")
}

// attemptView is one candidate that was tried.
type attemptView struct {
	*tune.Attempt
	Word, Class, Gained, Bet string
	Diff                     []tune.Change
	More                     int // changes that are not shown
}

// outcomeWords are the outcomes in words.
var outcomeWords = map[tune.Outcome]struct{ word, class string }{
	tune.Kept: {"kept", "good"}, tune.Hurts: {"hurts", "bad"}, tune.Useless: {"no gain", ""}, tune.NotShown: {"not shown to help", ""},
	tune.Refused: {"refused by the machine", "bad"}, tune.Cut: {"cut short", ""}, tune.Overcome: {"taken back later", ""},
}

// revisitRow is a measurement of what was kept before, and what came of it.
func revisitRow(a *tune.Attempt, kept []string) attemptView {
	v := attemptRow(a, kept)
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

// attemptRow is an attempt; of one that was kept without what was taken out of it.
func attemptRow(a *tune.Attempt, kept []string) attemptView {
	const most = 12
	w, known := outcomeWords[a.Outcome]
	if !known {
		w.word = string(a.Outcome)
	}
	v := attemptView{Attempt: a, Word: w.word, Class: w.class, Gained: gainText(&a.Gain), Diff: a.Changes}
	if a.Outcome == tune.Kept && len(a.Parts) > 0 {
		out := strings.Join(a.TakenOut(kept), "+") // a part may be several knobs that belong together, or found later of one: nic.rings#2
		v.Diff = slices.DeleteFunc(slices.Clone(a.Changes), func(c tune.Change) bool {
			return slices.ContainsFunc(strings.Split(out, "+"), func(key string) bool { id, _, _ := strings.Cut(key, "#"); return id == c.ID })
		})
	}
	v.Diff, v.More = v.Diff[:min(len(v.Diff), most)], max(len(v.Diff)-most, 0)
	if a.Needed > 0 && len(a.Gain.Pairs) > 0 {
		v.Bet = fmt.Sprintf("%s%s; evidence %s of %s that it needed", count(len(a.Gain.Pairs), "pair"), longer(a.Gain.Pairs), siDigits(a.Evidence, 2), siDigits(a.Needed, 2))
	}
	return v
}

// longer says that pairs had trials of more than the usual length.
func longer(pairs []tune.Pair) string {
	most := 1
	for _, p := range pairs {
		most = max(most, p.Length)
	}
	if most == 1 {
		return ""
	}
	return fmt.Sprintf(" with trials up to %d times as long", most)
}

func tuneFacts(r *tune.Result) []factRow {
	rows := []factRow{
		{"host", r.Host}, {"began", r.Started.UTC().Format("2 January 2006, 15:04:05 MST")}, {"took", seconds(r.Seconds)},
		{"as it was found", searchedText(&r.Baseline)},
	}
	if len(r.Kept) > 0 {
		rows = append(rows, factRow{"with what was kept", searchedText(&r.Final)})
	}
	if r.Restarted != "" {
		rows = append(rows, factRow{"goes on behind", r.Restarted})
	}
	m := r.Method
	rows = append(rows, factRow{"trials", fmt.Sprintf("%d in pairs and checks, and %s", r.Trials, count(r.Searches, "search for the highest rate", "searches for the highest rate"))})
	if m.TrialSecs > 0 {
		load := "as fast as possible"
		if m.LoadPPS > 0 {
			load = siDigits(m.LoadPPS, 3) + " packets per second"
		}
		rows = append(rows, factRow{"a trial", fmt.Sprintf("%s at %s", seconds(m.TrialSecs), load)})
	}
	if r.Budget > 0 {
		rows = append(rows, factRow{"budget", seconds(r.Budget)})
	}
	rows = append(rows, factRow{"test", m.Test},
		factRow{"", fmt.Sprintf("alpha %.3g, least gain that counts %.3g %%, at most %s a candidate, order by seed %d", m.Alpha, m.MinEffect*100, count(m.MaxPairs, "pair"), m.Seed)})
	if r.Plan != "" {
		rows = append(rows, factRow{"final plan", r.Plan})
	}
	return rows
}

// searchedText is what a search found.
func searchedText(r *tune.Rate) string {
	text := r.None
	if text == "" {
		text = siDigits(r.PPS, 4) + " packets per second without loss"
		if r.Loss > 0 {
			text = fmt.Sprintf("%s packets per second with a loss of up to %s", siDigits(r.PPS, 4), lossText(r.Loss))
		}
		if r.UpperPPS != nil {
			text += ", less than " + siDigits(*r.UpperPPS, 4)
		}
	}
	if r.Loaded > 0 {
		text += fmt.Sprintf("; %s came through under the trial load", siDigits(r.Loaded, 3))
	}
	return fmt.Sprintf("%s; limited by: %s; %s in %s", text, r.LimitedBy, count(r.Trials, "trial"), seconds(r.Seconds))
}
