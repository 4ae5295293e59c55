package report

import (
	"fmt"
	"strings"

	"mpps/internal/bottleneck"
	"mpps/internal/goal"
	"mpps/internal/tune"
)

// outcomeStyle is the style of an outcome.
func outcomeStyle(o tune.Outcome) Style {
	switch o {
	case tune.Kept:
		return Green
	case tune.Hurts:
		return RedBold
	}
	return Faint
}

// Tune draws a run of the closed loop.
func Tune(t *Text, r *tune.Result, saved []string) {
	style := Bold
	switch r.Verdict {
	case tune.Met, tune.Good:
		style = Green
	case tune.NotDevice, tune.Interrupted, tune.Failed:
		style = RedBold
	}
	t.Heading("tune: " + string(r.Verdict))
	t.Wrapped("  ", t.In(style, r.Why))
	t.Blank()
	t.Wrapped("  as found: ", tunedRate(r.Baseline))
	if len(r.Kept) > 0 {
		t.Wrapped("  now: ", tunedRate(r.Final))
	}
	if len(r.Added) > 0 {
		t.Wrapped("  proof: ", fmt.Sprintf("everything that was kept against the beginning, in turns: %s (%d pairs)",
			r.Whole, len(r.Whole.Pairs)))
	}
	drawLimit(t, "  held back by: ", r.Before)
	if r.After != nil {
		drawLimit(t, "  now by: ", r.After)
	}
	if len(r.Attempts) > 0 {
		t.Blank()
		t.Line("%s", t.In(Bold, "tried, in this order"))
	}
	for _, a := range r.Attempts {
		t.Line("  %2d %s %s", a.N, t.In(outcomeStyle(a.Outcome), fmt.Sprintf("%-9s", a.Outcome)), a.Name())
		if len(a.Parts) > 2 {
			t.Wrapped("       ", strings.Join(a.Parts, ", "))
		}
		t.Wrapped("       ", a.Why)
	}
	if len(r.Untried) > 0 {
		t.Blank()
		t.Line("%s", t.In(Bold, "not tried"))
	}
	for _, u := range r.Untried {
		t.Wrapped("  "+u.Key+": ", u.Why)
	}
	for _, w := range r.Waits {
		before := "  behind a " + w.For + ": "
		if w.Undo != "" {
			before = "  not proven, and stands until a " + w.For + ": "
		}
		t.Wrapped(before, strings.Join(w.Keys, ", "))
	}
	if len(r.Advice) > 0 {
		t.Blank()
		t.Line("%s", t.In(Bold, "what would help"))
	}
	for _, a := range r.Advice {
		t.Wrapped("  ", a.Text)
	}
	t.Blank()
	for _, text := range nextTexts(r) {
		t.Wrapped("  ", t.In(Bold, text))
	}
	if text := standingText(r); text != "" {
		t.Wrapped("  ", text)
	}
	t.Wrapped("  ", fmt.Sprintf("%d trials and %d searches in %.0f s", r.Trials, r.Searches, r.Seconds))
	for _, file := range saved {
		t.Line("  saved as %s", file)
	}
}

// nextTexts are what is to be done next: a restart behind which the run goes on, and what is to be taken back as
// nothing proves it.
func nextTexts(r *tune.Result) []string {
	var all []string
	for _, w := range r.Waits {
		if w.Undo != "" {
			all = append(all, fmt.Sprintf("to take back what is not proven to help: 'mpps rollback --with-later "+
				"%s', then the restart again", w.Undo))
		}
	}
	if r.RestartTX != "" {
		all = append([]string{fmt.Sprintf("next: %s, then 'mpps tune --resume'; what takes effect then is "+
			"transaction %s", r.RestartFor, r.RestartTX)}, all...)
	}
	return all
}

// standingText says what of a run stands, and how it and what stood before is undone; empty where the verdict says it.
func standingText(r *tune.Result) string {
	var parts []string
	if text := standingOfRun(r); text != "" {
		parts = append(parts, text)
	}
	if len(r.UndoEarlier) > 0 {
		parts = append(parts, fmt.Sprintf("what stood before the %s is undone by '%s', and that restart again",
			r.Restarted, strings.Join(r.UndoEarlier, "', then '")))
	}
	return strings.Join(parts, "; ")
}

// standingOfRun is standingText without what an earlier run left.
func standingOfRun(r *tune.Result) string {
	undo := "'" + r.UndoCommand() + "' undoes it"
	kept := "kept as transaction " + r.TX
	if len(r.Chain) > 1 {
		kept = fmt.Sprintf("kept as %d transactions, each on top of the one before (%s)", len(r.Chain),
			strings.Join(r.Chain, ", "))
	}
	switch {
	case r.TX != "" && r.RestartTX != "":
		return kept + "; " + undo + ", with what waits for the restart"
	case r.TX != "":
		return kept + "; " + undo
	case r.RestartTX != "":
		return "nothing was kept; what waits for the restart is made: " + undo
	case len(r.Kept) > 0 && r.Proposed:
		return "proposed only: everything is as it was found"
	case len(r.Kept) == 0 && r.Verdict != tune.Interrupted && r.Verdict != tune.Failed:
		return "nothing was changed"
	}
	return ""
}

// tunedRate is a rate with its bounds and what limited it.
func tunedRate(r tune.Rate) string {
	text := r.None
	if text == "" {
		text = goal.FormatRate(r.PPS) + " packets/s without loss"
		if r.Loss > 0 {
			text = fmt.Sprintf("%s packets/s with a loss of up to %.3g %%", goal.FormatRate(r.PPS), 100*r.Loss)
		}
		if r.UpperPPS != nil {
			text += ", less than " + goal.FormatRate(*r.UpperPPS)
		}
	}
	if r.Loaded > 0 {
		text += fmt.Sprintf("; %s came through under the trial load", goal.FormatRate(r.Loaded))
	}
	return text + "; limited by " + r.LimitedBy
}

func drawLimit(t *Text, prefix string, d *bottleneck.Diagnosis) {
	switch {
	case d == nil:
		t.Wrapped(prefix, "could not be told")
	case d.Bottleneck == nil:
		t.Wrapped(prefix, "nothing that could be seen: "+d.Why)
	default:
		t.Wrapped(prefix, fmt.Sprintf("%s (%s, confidence %.0f %%)", d.Bottleneck.Say, d.Bottleneck.Kind,
			100*d.Bottleneck.Confidence))
	}
	if d != nil && d.Next != nil && d.Next.Say != "" {
		t.Wrapped("    then: ", d.Next.Say)
	}
}
