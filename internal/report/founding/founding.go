// Package founding shows the founding experiments: what can be repeated, what a repetition would do, and what came out.
package founding

import (
	"fmt"
	"strings"

	"mpps/internal/acceptance"
	"mpps/internal/measure"
	"mpps/internal/report"
	"mpps/internal/report/words"
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

// stateText is the state of a run in words.
func stateText(s acceptance.RunState) string {
	return map[acceptance.RunState]string{
		acceptance.Running: "is under way, or was killed", acceptance.Waiting: "waits for you", acceptance.Done: "done",
		acceptance.Failed: "ended early", acceptance.Lacking: "not run: something is missing",
	}[s]
}

// then is what the founding experiment had, and by how much this is worse; empty where that is not known.
func then(j acceptance.Judged) string {
	if j.Founding == nil {
		return ""
	}
	text := "then " + figure(*j.Founding, j.Unit, 0)
	if j.State == acceptance.NotComparable && j.ShortBy != nil && *j.ShortBy > 0 {
		worse := " less"
		if j.Lower {
			worse = " more"
		}
		text += ", " + words.Percent(*j.ShortBy) + worse + " now"
	}
	return text
}

// verdict is a verdict in words.
func verdict(j acceptance.Judged) string {
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

// measured are what was measured, and its interval with the number of samples.
func measured(j acceptance.Judged) (value, spread string) {
	m := j.Measured
	switch {
	case m == nil:
		return "–", ""
	case m.None != "":
		return "none", ""
	}
	width := m.Hi - m.Lo
	return words.If(m.AtLeast, "≥ ") + figure(m.Value, j.Unit, width), words.Join(", ",
		words.If(width > 0, "[%s, %s]", digits(m.Lo, width), digits(m.Hi, width)), words.If(m.N > 0, "n = %d", m.N))
}

// figure writes a value with its unit, in as many digits as its interval allows.
func figure(v float64, unit string, width float64) string {
	switch unit {
	case "packet/s":
		return digits(v, width) + "pps"
	case "×":
		return digits(v, width) + "×"
	}
	return digits(v, width) + " " + unit
}

func digits(v, width float64) string {
	if width > 0 {
		return strings.TrimSpace(words.SI(v, words.Significant(v, width, 1)))
	}
	return strings.TrimSpace(words.Tick(words.Round(v, 4)))
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
	line := "mpps"
	for _, w := range argv {
		if w == "" || strings.ContainsAny(w, " \t'\"$\\|&;()<>*?#~`") {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		line += " " + w
	}
	return line
}

// StepAnswer is a measurement in a line, and what limited it in another.
func StepAnswer(o *acceptance.Outcomes, s *acceptance.StepDone) []string {
	interval := func(e measure.Estimate) string { return words.Interval(e.Value, e.Lo, e.Hi) }
	bounds := func(name string, lower, upper *float64) string {
		switch {
		case lower == nil:
			return name + ": none"
		case upper == nil:
			return name + ": " + words.SI(*lower, 4) + "pps"
		}
		return name + ": " + words.SI(*lower, 4) + "pps to " + words.SI(*upper, 4) + "pps"
	}
	run, found, modes, wakeups := o.Runs[s.ID], o.Searches[s.ID], o.Modes[s.ID], o.Wakeups[s.ID]
	switch {
	case run != nil && s.Gives == acceptance.GivesRun:
		m := run.Median
		return []string{fmt.Sprintf("median %s %s, n = %d, limited by %s", interval(m), run.Kind.Unit(), m.N, run.LimitedBy)}
	case found != nil && s.Gives == acceptance.Searched:
		within := bounds("within "+words.Percent(found.PDR.LossRatio)+" of loss", found.PDR.LowerPPS, found.PDR.UpperPPS)
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
		lines := []string{fmt.Sprintf("%s wake-ups by %s: longest %s, mean %s", words.Grouped(l.Count), wakeups.Tool.Name,
			words.Duration(float64(l.MaxNs)), words.Duration(l.MeanNs))}
		if p, known := l.Percentile(99.99); known {
			lines[0] += ", p99.99 " + words.Duration(float64(p))
		}
		if wakeups.Causes.Verdict != "" {
			lines = append(lines, wakeups.Causes.Verdict)
		}
		return lines
	}
	return nil
}
