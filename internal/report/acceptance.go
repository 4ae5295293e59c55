package report

import (
	"fmt"
	"strings"

	"mpps/internal/acceptance"
	"mpps/internal/measure"
)

// Experiments lists what can be repeated.
func Experiments(t *Text, all []*acceptance.Experiment) {
	for i, e := range all {
		if i > 0 {
			t.Blank()
		}
		t.Line("%s  %s", t.In(Bold, e.Name), e.Title)
		t.Wrapped("  then  ", e.Founding)
		t.Wrapped("  takes ", fmt.Sprintf("about %.0f minutes, restarts left out", e.Takes.Minutes()))
		for _, want := range e.Wants {
			t.Wrapped("  wants ", want)
		}
		if e.NoLab != "" {
			t.Wrapped("  lab   ", "no: "+e.NoLab)
		} else {
			t.Wrapped("  lab   ", "mpps-lab acceptance "+e.Name)
		}
	}
}

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
	Changes   []ChangeRow        `json:"changes"`
	Restarts  []string           `json:"restarts"` // "restart of guest vm1"
	Consent   int                `json:"needs_consent"`
}

// DryRuns is the answer of acceptance --dry-run.
type DryRuns struct {
	Runs []DryRun `json:"runs"`
}

// Answer is the answer that shows what would be run, with all changes where it is verbose.
func (d DryRuns) Answer(host string, verbose bool) Answer {
	return Answer{Verb: "acceptance-dry-run", Host: host, Result: d, Text: func(t *Text) { drawDryRuns(t, d.Runs, verbose) }}
}

func drawDryRuns(t *Text, all []DryRun, verbose bool) {
	for i, d := range all {
		if i > 0 {
			t.Blank()
		}
		t.Line("%s: %s", t.In(Bold, d.Name), d.Title)
		length := fmt.Sprintf("about %.0f minutes, restarts left out", d.Minutes)
		if d.Lab {
			length = "shortened, in the lab: EMULATION"
		}
		t.Wrapped("  ", length+"; nothing was run or changed")
		drawChecks(t, d.Checks)
		t.Blank()
		t.Line("  would be run, in this order")
		for n, s := range d.Steps {
			t.Wrapped(fmt.Sprintf("  %2d %s", n+1, marked(s)), s.Does)
			for _, line := range commandLines(s) {
				t.Wrapped("       ", line)
			}
			if c := s.Condition(); c != "" {
				t.Wrapped("       ", c)
			}
		}
		dryChanges(t, d, verbose)
	}
}

// marked is what a step does to the machine, in a word of fixed width.
func marked(s acceptance.Step) string {
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

// commandLines are the commands of a step.
func commandLines(s acceptance.Step) []string {
	var all []string
	switch {
	case s.Phase == acceptance.Undo:
		all = append(all, "mpps rollback TX, for each transaction")
	case len(s.Argv) > 0:
		all = append(all, Command(s.Argv))
	case s.For == acceptance.Answer && s.At == "":
		all = append(all, "somebody answers at an address that is still to be named")
	case s.For == acceptance.Answer:
		all = append(all, "somebody answers at "+s.At)
	}
	if len(s.Beside) > 0 {
		all = append(all, "beside "+Command(s.Beside))
	}
	return all
}

// Command is a command line of mpps as one can type it.
func Command(argv []string) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		if words[i] = w; w == "" || strings.ContainsAny(w, " \t'\"$\\|&;()<>*?#~`") {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return "mpps " + strings.Join(words, " ")
}

func drawChecks(t *Text, checks []acceptance.Check) {
	if len(checks) == 0 {
		return
	}
	t.Blank()
	t.Line("  looked at")
	for _, c := range checks {
		word := t.In(Green, "ok       ")
		switch {
		case !c.OK && c.Soft:
			word = t.In(Yellow, "without  ")
		case !c.OK:
			word = t.In(Red, "missing  ")
		}
		t.Wrapped("     "+word, c.What+": "+c.Why)
		if c.Hint != "" {
			t.Wrapped("       hint: ", c.Hint)
		}
	}
}

func dryChanges(t *Text, d DryRun, verbose bool) {
	if d.Unplanned != "" || d.Planned || d.Keep {
		t.Blank()
	}
	switch {
	case d.Unplanned != "":
		t.Wrapped("  what the plan would change could not be told: ", d.Unplanned)
	case d.Planned:
		t.Wrapped("  ", "the first plan would make "+count(len(d.Changes), "change")+" now"+map[bool]string{false: " (-v lists them)", true: ""}[verbose || len(d.Changes) == 0])
		if verbose {
			for _, c := range d.Changes {
				t.Wrapped("     "+c.ID+" ", c.Address)
				t.Value(Red, "       - ", c.From)
				t.Value(Green, "       + ", c.To)
			}
		}
		for _, r := range d.Restarts {
			t.Wrapped("     waits for: ", r+", by you")
		}
		if d.Consent > 0 {
			t.Wrapped("     ", count(d.Consent, "change")+" left out: --consent names the risk")
		}
	}
	if d.Keep {
		t.Wrapped("  ", "with --keep what is changed stays; 'mpps rollback' puts it back")
	}
}

// Accepted draws what came out of runs.
func Accepted(t *Text, p *acceptance.Report, dir string) {
	for _, r := range p.Runs {
		t.Line("%s: %s", t.In(Bold, r.Name), r.Title)
		state := standsAs(r.State)
		if r.Seconds > 0 {
			state += ", " + seconds(r.Seconds) + " of steps"
		}
		if r.Machine != nil && r.Machine.Emulated {
			state += " · EMULATION"
		}
		if r.Inputs.Short {
			state += " · short form"
		}
		t.Wrapped("  ", state)
		if r.State == acceptance.Lacking {
			drawChecks(t, r.Checks)
		}
		if r.Why != "" && r.State != acceptance.Lacking {
			t.Wrapped("  "+string(r.State)+": ", r.Why)
			if r.Hint != "" {
				t.Wrapped("  hint: ", r.Hint)
			}
		}
		if len(r.Standing) > 0 && r.State != acceptance.Done {
			t.Wrapped("  on this host: ", "transactions "+strings.Join(r.Standing, ", ")+" stand; 'mpps rollback TX', the last one first, puts them back")
		}
		t.Blank()
		for _, j := range r.Figures {
			drawFigure(t, j)
		}
		for _, n := range r.Notes {
			t.Wrapped("  note: ", n)
		}
		if len(r.Figures)+len(r.Notes) > 0 {
			t.Blank()
		}
	}
	t.Wrapped("report: ", dir+"/acceptance.html")
}

// StepAnswer is a measurement in a line, and what limited it in another.
func StepAnswer(o *acceptance.Outcomes, s *acceptance.StepDone) []string {
	bounds := func(name string, lower, upper *float64) string {
		if lower == nil {
			return name + ": none"
		}
		text := name + ": " + siDigits(*lower, 4) + "pps"
		if upper != nil {
			text += " to " + siDigits(*upper, 4) + "pps"
		}
		return text
	}
	switch {
	case o.Runs[s.ID] != nil && s.Gives == acceptance.GivesRun:
		r := o.Runs[s.ID]
		return []string{fmt.Sprintf("median %s %s, n = %d, limited by %s", withInterval(r.Median.Value, r.Median.Lo, r.Median.Hi), r.Kind.Unit(), r.Median.N, r.LimitedBy)}
	case o.Searches[s.ID] != nil && s.Gives == acceptance.Searched:
		f := o.Searches[s.ID]
		return []string{bounds("without loss", f.NDR.LowerPPS, f.NDR.UpperPPS),
			bounds("within "+percentOf(f.PDR.LossRatio)+" of loss", f.PDR.LowerPPS, f.PDR.UpperPPS) + fmt.Sprintf("; %s, limited by %s", count(f.Trials, "trial"), f.LimitedBy)}
	case o.Modes[s.ID] != nil && s.Gives == acceptance.Campaign:
		var lines []string
		for _, r := range o.Modes[s.ID].Rows {
			line := r.Mode + " " + r.Workload + ": " + withInterval(r.Median.Value, r.Median.Lo, r.Median.Hi) + " " + measure.Kind(r.Kind).Unit()
			if r.Percent != nil {
				line += fmt.Sprintf(", %.4g %% of native", r.Percent.Value)
			}
			lines = append(lines, line)
		}
		return lines
	case o.Wakeups[s.ID] != nil && s.Gives == acceptance.Wakeups:
		w := o.Wakeups[s.ID]
		l := w.Total.Latency
		lines := []string{fmt.Sprintf("%s wake-ups by %s: longest %s, mean %s", grouped(l.Count), w.Tool.Name, duration(float64(l.MaxNs)), duration(l.MeanNs))}
		if p, told := l.Percentile(99.99); told {
			lines[0] += ", p99.99 " + duration(float64(p))
		}
		if w.Causes.Verdict != "" {
			lines = append(lines, w.Causes.Verdict)
		}
		return lines
	}
	return nil
}
