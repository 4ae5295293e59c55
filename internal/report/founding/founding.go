// Package founding renders the founding experiments: what can be repeated, what a repetition would do, and its results.
package founding

import (
	"cmp"
	"fmt"
	"strings"

	"mpps/internal/measure"
	"mpps/internal/measure/acceptance"
	"mpps/internal/report"
	"mpps/internal/words"
)

// DryRun is what an experiment would do.
type DryRun struct {
	Name      string             `json:"name"`
	Title     string             `json:"title"`
	Minutes   float64            `json:"minutes"` // restarts left out
	Lab       bool               `json:"lab"`
	Keep      bool               `json:"keep"`
	Checks    []acceptance.Check `json:"checks"`
	Steps     []acceptance.Step  `json:"steps"`
	Planned   bool               `json:"planned"`             // Changes are what the first plan has, made now
	Unplanned string             `json:"unplanned,omitempty"` // why it could not be made
	Changes   []report.ChangeRow `json:"changes"`
	Restarts  []string           `json:"restarts"` // "restart of guest vm1"
	Consent   int                `json:"needs_consent"`
}

// DryRuns is the answer of acceptance --dry-run.
type DryRuns struct {
	Runs []DryRun `json:"runs"`
}

// stateText returns the state of a run in words.
func stateText(s acceptance.RunState) string {
	return map[acceptance.RunState]string{
		acceptance.Running: "is under way, or was killed", acceptance.Waiting: "waits for you", acceptance.Done: "done",
		acceptance.Failed: "ended early", acceptance.Lacking: "not run: something is missing",
	}[s]
}

// thenText returns what the founding experiment had, and by how much this is worse; empty if that is not known.
func thenText(j acceptance.Judged) string {
	if j.Founding == nil {
		return ""
	}
	text := "then " + figureText(*j.Founding, j.Unit, 0)
	if j.State == acceptance.NotComparable && j.ShortBy != nil && *j.ShortBy > 0 {
		text += fmt.Sprintf(", %s %s now", words.Percent(*j.ShortBy), words.Either(j.Lower, "more", "less"))
	}
	return text
}

// verdictText returns a verdict in words.
func verdictText(j acceptance.Judged) string {
	switch j.State {
	case acceptance.Short:
		return "short by " + words.Percent(*j.ShortBy)
	case acceptance.NotComparable:
		return "not comparable"
	case acceptance.NotMeasured:
		return "not measured"
	}
	return string(j.State)
}

// measuredText returns what was measured, and its interval with the number of samples.
func measuredText(j acceptance.Judged) (value, spread string) {
	m := j.Measured
	switch {
	case m == nil:
		return "–", ""
	case m.None != "":
		return "none", ""
	}
	width := m.Hi - m.Lo
	return words.If(m.AtLeast, "≥ ") + figureText(m.Value, j.Unit, width), words.Join(", ",
		words.If(width > 0, "[%s, %s]", digits(m.Lo, width), digits(m.Hi, width)), words.If(m.N > 0, "n = %d", m.N))
}

// figureText writes a value with its unit, in as many digits as its interval allows.
func figureText(v float64, unit string, width float64) string {
	short := map[string]string{"packet/s": "pps", "×": "×"}[unit]
	return digits(v, width) + cmp.Or(short, " "+unit)
}

func digits(v, width float64) string {
	if width > 0 {
		return strings.TrimSpace(words.SI(v, words.Significant(v, width, 1)))
	}
	return strings.TrimSpace(words.Tick(words.Round(v, 4)))
}

// commandLines returns the command lines of a step.
func commandLines(s acceptance.Step) []string {
	var all []string
	switch {
	case s.Phase == acceptance.Undo:
		all = append(all, "mpps rollback TX, for each transaction")
	case len(s.Argv) > 0:
		all = append(all, Command(s.Argv))
	case s.For == acceptance.Answer:
		all = append(all, "somebody answers at "+cmp.Or(s.At, "an address that is still to be named"))
	}
	if len(s.Beside) > 0 {
		all = append(all, "beside "+Command(s.Beside))
	}
	return all
}

// Command returns a command line of mpps as one can type it.
func Command(argv []string) string {
	line := "mpps"
	for _, w := range argv {
		if w == "" || strings.ContainsAny(w, " \t'\"$\\|&;()<>*?#~`") {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		line += " " + w
	}
	return line
}

// StepAnswer returns a measurement in a line, and what limited it in another.
func StepAnswer(o *acceptance.Outcomes, s *acceptance.StepDone) []string {
	interval := func(e measure.Estimate) string { return words.Interval(e.Value, e.Lo, e.Hi) }
	bounds := func(name string, lower, upper *float64) string {
		if lower == nil {
			return name + ": none"
		}
		return name + ": " + words.SI(*lower, 4) + "pps" +
			words.If(upper != nil, " to %spps", words.SI(*cmp.Or(upper, lower), 4))
	}
	run, found, modes, wakeups := o.Runs[s.ID], o.Searches[s.ID], o.Modes[s.ID], o.Wakeups[s.ID]
	path := o.Paths[s.ID]
	switch {
	case run != nil && s.Gives == acceptance.GivesRun:
		m := run.Median
		return []string{fmt.Sprintf("median %s %s, n = %d, limited by %s", interval(m), run.Kind.Unit(), m.N,
			run.LimitedBy)}
	case found != nil && s.Gives == acceptance.Searched:
		within := bounds("within "+words.Percent(found.PDR.LossRatio)+" of loss", found.PDR.LowerPPS,
			found.PDR.UpperPPS)
		return []string{bounds("without loss", found.NDR.LowerPPS, found.NDR.UpperPPS),
			fmt.Sprintf("%s; %s, limited by %s", within, words.Count(found.Trials, "trial"), found.LimitedBy)}
	case modes != nil && s.Gives == acceptance.Campaign:
		var lines []string
		for _, r := range modes.Rows {
			line := fmt.Sprintf("%s %s: %s %s", r.Mode, r.Workload, interval(r.Median), r.Kind.Unit())
			if r.Percent != nil {
				line += fmt.Sprintf(", %.4g %% of native", r.Percent.Value)
			}
			lines = append(lines, line)
		}
		return lines
	case wakeups != nil && s.Gives == acceptance.Wakeups:
		l := wakeups.Total.Latency
		lines := []string{fmt.Sprintf("%s wake-ups by %s: longest %s, mean %s", words.Grouped(l.Count),
			wakeups.Tool.Name, words.Duration(float64(l.MaxNs)), words.Duration(l.MeanNs))}
		if p, known := l.Percentile(99.99); known {
			lines[0] += ", p99.99 " + words.Duration(float64(p))
		}
		if wakeups.Causes.Verdict != "" {
			lines = append(lines, wakeups.Causes.Verdict)
		}
		return lines
	case path != nil && s.Gives == acceptance.Watched:
		carried, have := acceptance.TapQueues(path)
		return []string{fmt.Sprintf("%d of the %s of the guest's tap carried its packets", carried,
			words.Count(have, "queue"))}
	}
	return nil
}

// Listing is the answer of acceptance --list.
type Listing struct {
	Experiments []Listed `json:"experiments"`
}

// Listed is an experiment that can be repeated.
type Listed struct {
	Name     string   `json:"name"`
	Title    string   `json:"title"`
	Founding string   `json:"founding"`
	Minutes  float64  `json:"minutes"` // with the defaults, without restarts
	Wants    []string `json:"wants"`
	Lab      bool     `json:"lab"` // mpps-lab can repeat it
}

// List returns the answer that lists what can be repeated.
func List(host string) report.Answer {
	var list Listing
	for _, e := range acceptance.All() {
		list.Experiments = append(list.Experiments,
			Listed{e.Name, e.Title, e.Founding, e.Takes.Minutes(), e.Wants, e.NoLab == ""})
	}
	return report.Answer{Verb: "acceptance-list", Host: host, Result: list, Text: func(t *report.Text) {
		for i, e := range acceptance.All() {
			if i > 0 {
				t.Blank()
			}
			t.Line("%s  %s", t.In(report.Bold, e.Name), e.Title)
			t.Wrap("  then  ", e.Founding)
			t.Wrap("  takes ", lengthText(e.Takes.Minutes()))
			t.Each("  wants ", e.Wants)
			t.Wrap("  lab   ", words.Either(e.NoLab != "", "no: "+e.NoLab, "mpps-lab acceptance "+e.Name))
		}
	}}
}

func lengthText(minutes float64) string {
	return fmt.Sprintf("about %.0f minutes, restarts left out", minutes)
}

// Answer returns the answer that shows what would be run, with all changes if it is verbose.
func (d DryRuns) Answer(host string, verbose bool) report.Answer {
	return report.Answer{Verb: "acceptance-dry-run", Host: host, Result: d,
		Text: func(t *report.Text) { drawDryRuns(t, d.Runs, verbose) }}
}

func drawDryRuns(t *report.Text, all []DryRun, verbose bool) {
	for i, d := range all {
		if i > 0 {
			t.Blank()
		}
		t.Line("%s: %s", t.In(report.Bold, d.Name), d.Title)
		t.Wrap("  ", words.Either(d.Lab, "shortened, in the lab: EMULATION",
			lengthText(d.Minutes))+"; nothing was run or changed")
		drawChecks(t, d.Checks)
		t.Blank()
		t.Line("  would be run, in this order")
		for n, s := range d.Steps {
			t.Wrap(fmt.Sprintf("  %2d %s", n+1, effectWord(s)), s.Does)
			t.Each("       ", commandLines(s))
			t.Field("       ", s.Condition())
		}
		drawDryChanges(t, d, verbose)
	}
}

// effectWord returns what a step does to the machine, in a word of fixed width.
func effectWord(s acceptance.Step) string {
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
		word := words.Either(c.Soft, t.In(report.Yellow, "without  "), t.In(report.Red, "missing  "))
		word = words.Either(c.OK, t.In(report.Green, "ok       "), word)
		t.Wrap("     "+word, c.What+": "+c.Why)
		t.Field("       hint: ", c.Hint)
	}
}

func drawDryChanges(t *report.Text, d DryRun, verbose bool) {
	if d.Unplanned != "" || d.Planned || d.Keep {
		t.Blank()
	}
	switch {
	case d.Unplanned != "":
		t.Wrap("  what the plan would change could not be determined: ", d.Unplanned)
	case d.Planned:
		t.Wrap("  ", "the first plan would make "+words.Count(len(d.Changes), "change")+" now"+
			words.If(!verbose && len(d.Changes) > 0, " (-v lists them)"))
		if verbose {
			for _, c := range d.Changes {
				t.Wrap("     "+c.ID+" ", c.Address)
				t.Diff("       ", c.From, c.To)
			}
		}
		t.Each("     waits for: ", words.Each(d.Restarts, func(r string) string { return r + ", by you" }))
		t.WrapIf(d.Consent > 0, "     ", "%s left out: --consent names the risk", words.Count(d.Consent, "change"))
	}
	t.WrapIf(d.Keep, "  ", "with --keep what is changed stays; 'mpps rollback' puts it back")
}

// Text draws what came out of runs.
func Text(t *report.Text, p *acceptance.Report, dir string) {
	for _, r := range p.Runs {
		t.Line("%s: %s", t.In(report.Bold, r.Name), r.Title)
		t.Wrap("  ", stateText(r.State)+words.If(r.Seconds > 0, ", %s of steps", words.Seconds(r.Seconds))+
			words.If(r.Machine != nil && r.Machine.Emulated, " · EMULATION")+words.If(r.Inputs.Short, " · short form"))
		switch {
		case r.State == acceptance.Lacking:
			drawChecks(t, r.Checks)
		case r.Why != "":
			t.Wrap("  "+string(r.State)+": ", r.Why)
			t.Field("  hint: ", r.Hint)
		}
		t.WrapIf(len(r.Standing) > 0 && r.State != acceptance.Done, "  on this host: ",
			"transactions %s stand; 'mpps rollback TX', the last one first, puts them back",
			strings.Join(r.Standing, ", "))
		t.Blank()
		for _, j := range r.Figures {
			drawFigure(t, j)
		}
		t.Each("  note: ", r.Notes)
		if len(r.Figures)+len(r.Notes) > 0 {
			t.Blank()
		}
	}
	t.Wrap("report: ", dir+"/acceptance.html")
}

// drawFigure draws a figure with its verdict.
func drawFigure(t *report.Text, j acceptance.Judged) {
	style := map[acceptance.State]report.Style{acceptance.Reached: report.Green,
		acceptance.Short: report.Yellow}[j.State]
	word := verdictText(j)
	t.Wrap("  "+t.In(style, word)+strings.Repeat(" ", max(16-report.Visible(word), 1)), j.What)
	const under = "                  "
	value, spread := "", ""
	if j.Measured != nil {
		value, spread = measuredText(j)
	}
	t.Field(under, words.Join("; ", words.Join(" ", value, spread), thenText(j)))
	if j.State != acceptance.NotMeasured { // it is said already
		t.Each(under, words.Each(j.Reasons, func(r acceptance.Reason) string { return r.Text }))
	}
	t.List(under+"look  ", j.Look)
}
