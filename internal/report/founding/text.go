package founding

import (
	"fmt"
	"strings"

	"mpps/internal/acceptance"
	"mpps/internal/report"
	"mpps/internal/report/words"
)

// List lists what can be repeated.
func List(t *report.Text, all []*acceptance.Experiment) {
	for i, e := range all {
		if i > 0 {
			t.Blank()
		}
		t.Line("%s  %s", t.In(report.Bold, e.Name), e.Title)
		t.Wrapped("  then  ", e.Founding)
		t.Wrapped("  takes ", length(e.Takes.Minutes()))
		t.Each("  wants ", e.Wants)
		lab := "mpps acceptance " + e.Name + " --lab"
		if e.NoLab != "" {
			lab = "no: " + e.NoLab
		}
		t.Wrapped("  lab   ", lab)
	}
}

func length(minutes float64) string {
	return fmt.Sprintf("about %.0f minutes, restarts left out", minutes)
}

// Dry draws what would be run.
func Dry(t *report.Text, all []DryRun, verbose bool) {
	for i, d := range all {
		if i > 0 {
			t.Blank()
		}
		t.Line("%s: %s", t.In(report.Bold, d.Name), d.Title)
		takes := length(d.Minutes)
		if d.Lab {
			takes = "shortened, in the lab: EMULATION"
		}
		t.Wrapped("  ", takes+"; nothing was run or changed")
		drawChecks(t, d.Checks)
		t.Blank()
		t.Line("  would be run, in this order")
		for n, s := range d.Steps {
			t.Wrapped(fmt.Sprintf("  %2d %s", n+1, effect(s)), s.Does)
			t.Each("       ", commandLines(s))
			t.Field("       ", s.Condition())
		}
		dryChanges(t, d, verbose)
	}
}

// effect is what a step does to the machine, in a word of fixed width.
func effect(s acceptance.Step) string {
	switch {
	case s.For != "":
		return "waits    "
	case s.Changes():
		return "changes  "
	case s.Phase == acceptance.Before || s.Phase == acceptance.After:
		return "measures "
	}
	return "reads    "
}

func drawChecks(t *report.Text, checks []acceptance.Check) {
	if len(checks) == 0 {
		return
	}
	t.Blank()
	t.Line("  looked at")
	for _, c := range checks {
		word := t.In(report.Green, "ok       ")
		switch {
		case !c.OK && c.Soft:
			word = t.In(report.Yellow, "without  ")
		case !c.OK:
			word = t.In(report.Red, "missing  ")
		}
		t.Wrapped("     "+word, c.What+": "+c.Why)
		t.Field("       hint: ", c.Hint)
	}
}

func dryChanges(t *report.Text, d DryRun, verbose bool) {
	if d.Unplanned != "" || d.Planned || d.Keep {
		t.Blank()
	}
	switch {
	case d.Unplanned != "":
		t.Wrapped("  what the plan would change could not be told: ", d.Unplanned)
	case d.Planned:
		t.Wrapped("  ", "the first plan would make "+words.Count(len(d.Changes), "change")+" now"+
			words.If(!verbose && len(d.Changes) > 0, " (-v lists them)"))
		if verbose {
			for _, c := range d.Changes {
				t.Wrapped("     "+c.ID+" ", c.Address)
				t.Diff("       ", c.From, c.To)
			}
		}
		for _, r := range d.Restarts {
			t.Wrapped("     waits for: ", r+", by you")
		}
		if d.Consent > 0 {
			t.Wrapped("     ", words.Count(d.Consent, "change")+" left out: --consent names the risk")
		}
	}
	if d.Keep {
		t.Wrapped("  ", "with --keep what is changed stays; 'mpps rollback' puts it back")
	}
}

// Text draws what came out of runs.
func Text(t *report.Text, p *acceptance.Report, dir string) {
	for _, r := range p.Runs {
		t.Line("%s: %s", t.In(report.Bold, r.Name), r.Title)
		t.Wrapped("  ", stateText(r.State)+words.If(r.Seconds > 0, ", %s of steps", words.Seconds(r.Seconds))+
			words.If(r.Machine != nil && r.Machine.Emulated, " · EMULATION")+words.If(r.Inputs.Short, " · short form"))
		switch {
		case r.State == acceptance.Lacking:
			drawChecks(t, r.Checks)
		case r.Why != "":
			t.Wrapped("  "+string(r.State)+": ", r.Why)
			t.Field("  hint: ", r.Hint)
		}
		if len(r.Standing) > 0 && r.State != acceptance.Done {
			t.Wrapped("  on this host: ", "transactions "+strings.Join(r.Standing, ", ")+
				" stand; 'mpps rollback TX', the last one first, puts them back")
		}
		t.Blank()
		for _, j := range r.Figures {
			drawFigure(t, j)
		}
		t.Each("  note: ", r.Notes)
		if len(r.Figures)+len(r.Notes) > 0 {
			t.Blank()
		}
	}
	t.Wrapped("report: ", dir+"/acceptance.html")
}

// drawFigure draws a figure with its verdict.
func drawFigure(t *report.Text, j acceptance.Judged) {
	style := map[acceptance.State]report.Style{acceptance.Reached: report.Green, acceptance.Short: report.Yellow}[j.State]
	word := verdict(j)
	t.Wrapped("  "+t.In(style, word)+strings.Repeat(" ", max(16-report.Visible(word), 1)), j.What)
	const under = "                  "
	value, spread := "", ""
	if j.Measured != nil {
		value, spread = measured(j)
	}
	t.Field(under, words.Join("; ", words.Join(" ", value, spread), then(j)))
	if j.State != acceptance.NotMeasured { // it is said already
		for _, why := range j.Reasons {
			t.Wrapped(under, why.Text)
		}
	}
	t.List(under+"look  ", j.Look)
}
