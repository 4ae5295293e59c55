package tuning

import (
	"cmp"
	"fmt"
	"strings"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/advise/tune"
	"mpps/internal/model/goal"
	"mpps/internal/report"
	"mpps/internal/words"
)

var (
	outcomeStyles = map[tune.Outcome]report.Style{tune.Kept: report.Green, tune.Hurts: report.RedBold}
	verdictStyles = map[tune.Verdict]report.Style{tune.Met: report.Green, tune.Good: report.Green,
		tune.NotDevice: report.RedBold, tune.Interrupted: report.RedBold, tune.Failed: report.RedBold}
)

// Text draws a run of the closed loop.
func Text(t *report.Text, r *tune.Result, saved []string) {
	t.Heading("tune: " + string(r.Verdict))
	t.Wrap("  ", t.In(cmp.Or(verdictStyles[r.Verdict], report.Bold), r.Why))
	t.Blank()
	t.Wrap("  as found: ", tunedRate(r.Baseline))
	t.WrapIf(len(r.Kept) > 0, "  now: ", "%s", tunedRate(r.Final))
	t.WrapIf(len(r.Added) > 0, "  proof: ", "everything that was kept against the beginning, in turns: %s (%d pairs)",
		r.Whole, len(r.Whole.Pairs))
	drawLimit(t, "  held back by: ", r.Before)
	if r.After != nil {
		drawLimit(t, "  now by: ", r.After)
	}
	sectionIf(t, len(r.Attempts), "tried, in this order")
	for _, a := range r.Attempts {
		style := cmp.Or(outcomeStyles[a.Outcome], report.Faint)
		t.Line("  %2d %s %s", a.N, t.In(style, fmt.Sprintf("%-9s", a.Outcome)), a.Name())
		t.WrapIf(len(a.Parts) > 2, "       ", "%s", strings.Join(a.Parts, ", "))
		t.Wrap("       ", a.Why)
	}
	sectionIf(t, len(r.Untried), "not tried")
	for _, u := range r.Untried {
		t.Wrap("  "+u.Key+": ", u.Why)
	}
	for _, w := range r.Waits {
		when := words.Either(w.Undo == "", "  after a ", "  not proven, and stands until a ")
		t.Wrap(when+w.For+": ", strings.Join(w.Keys, ", "))
	}
	sectionIf(t, len(r.Advice), "what would help")
	t.Each("  ", words.Each(r.Advice, func(a tune.Advice) string { return a.Text }))
	t.Blank()
	for _, text := range nextTexts(r) {
		t.Wrap("  ", t.In(report.Bold, text))
	}
	t.Field("  ", standingText(r))
	t.Wrap("  ", fmt.Sprintf("%d trials and %d searches in %.0f s%s", r.Trials, r.Searches, r.Seconds,
		words.If(r.Measured > 0, ", %.0f %% of it measured", 100*r.Measured/max(r.Seconds, r.Measured))))
	t.SavedFiles(saved)
}

// sectionIf begins a section that has something in it.
func sectionIf(t *report.Text, n int, title string) {
	if n > 0 {
		t.Blank()
		t.Heading(title)
	}
}

// nextTexts returns the next steps: the restart after which the run continues, and what to roll back because it was not
// proven.
func nextTexts(r *tune.Result) []string {
	var all []string
	if r.RestartTX != "" {
		all = append(all, fmt.Sprintf("next: %s, then 'mpps tune --resume'; what takes effect then is transaction %s",
			r.RestartFor, r.RestartTX))
	}
	for _, w := range r.Waits {
		if w.Undo != "" {
			all = append(all, fmt.Sprintf("to take back what is not proven to help: 'mpps rollback --with-later "+
				"%s', then the restart again", w.Undo))
		}
	}
	return all
}

// standingText says what of a run remains applied and how to undo it, and what an earlier run left; empty if the
// verdict says it.
func standingText(r *tune.Result) string {
	return words.Join("; ", standingOfRun(r), words.If(len(r.UndoEarlier) > 0,
		"what stood before the %s is undone by '%s', and that restart again",
		r.Restarted, strings.Join(r.UndoEarlier, "', then '")))
}

// standingOfRun returns standingText without what an earlier run left.
func standingOfRun(r *tune.Result) string {
	undo := "'" + r.UndoCommand() + "' undoes it"
	kept := words.Either(len(r.Chain) < 2, "kept as transaction "+r.TX,
		fmt.Sprintf("kept as %d transactions, each on top of the one before (%s)", len(r.Chain),
			strings.Join(r.Chain, ", ")))
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

// tunedRate returns a rate with its bounds and what limited it.
func tunedRate(r tune.Rate) string {
	text := goal.FormatRate(r.PPS) + " packets/s " +
		words.Either(r.Loss > 0, fmt.Sprintf("with a loss of up to %.3g %%", 100*r.Loss), "without loss")
	if r.UpperPPS != nil {
		text += ", less than " + goal.FormatRate(*r.UpperPPS)
	}
	return cmp.Or(r.None, text) +
		words.If(r.Loaded > 0, "; %s came through under the trial load", goal.FormatRate(r.Loaded)) +
		"; limited by " + r.LimitedBy
}

func drawLimit(t *report.Text, prefix string, d *bottleneck.Diagnosis) {
	switch {
	case d == nil:
		t.Wrap(prefix, "could not be determined")
	case d.Bottleneck == nil:
		t.Wrap(prefix, "nothing that could be seen: "+d.Why)
	default:
		t.Wrap(prefix, fmt.Sprintf("%s (%s, confidence %.0f %%)", d.Bottleneck.Say, d.Bottleneck.Kind,
			100*d.Bottleneck.Confidence))
	}
	if d != nil && d.Next != nil && d.Next.Say != "" {
		t.Wrap("    then: ", d.Next.Say)
	}
}
