package measure

import (
	"fmt"
	"slices"
	"strings"
)

// warn adds the warnings about the campaign as a whole, and those of its runs, each once.
func (c *ModesCampaign) warn(m *Modes) {
	add := func(w Warning) { m.Warnings = append(m.Warnings, w) }
	if m.Environment.Emulated {
		add(emulatedWarning)
	}
	if m.Partial {
		add(Warning{Code: "partial", Text: fmt.Sprintf("not complete: %d samples, at least %d more were planned",
			m.Samples, m.Missing)})
	}
	for _, mode := range m.Modes {
		if c.GivenUp(mode.Name) {
			add(Warning{Code: "mode-failed", Text: "mode " + mode.Name + " failed several times in a row and was " +
				"given up: " + lastFailure(m.Failures, mode.Name),
				Hint: "is its guest running, and 'mpps agent' in it?"})
		}
	}
	m.Warnings = append(m.Warnings, c.Before.Warnings()...)
	if c.After != nil {
		m.Warnings = append(m.Warnings, c.Before.Between(*c.After)...)
	}
	if m.Native == "" {
		add(Warning{Code: "no-native", Text: "there is no native mode to be 100 %",
			Hint: "name the mode without virtualization with --native"})
	}
	for _, limit := range []struct {
		by   Limit
		text string
	}{
		{ByGenerator, "the generator, not the mode, set the result of %s: it is a lower bound, and so is its " +
			"percentage"},
		{ByReceiver, "the receiver, not the mode, set the result of %s: it is a lower bound, and so is its percentage"},
	} {
		var of []string
		for _, row := range m.Rows {
			if row.LimitedBy == limit.by {
				of = append(of, row.name())
			}
		}
		if len(of) > 0 {
			add(Warning{Code: "limited-by-" + string(limit.by), Text: fmt.Sprintf(limit.text, strings.Join(of, ", ")),
				Hint: "give the generator more CPUs (--cpus), or larger --frame"})
		}
	}
	if c.Plan.Width > 0 && c.Ended {
		var wide []string
		for _, row := range m.Rows {
			if len(row.Samples) > 0 && (row.Median.Level < c.Plan.Level ||
				row.Median.Hi-row.Median.Lo > c.Plan.Width*row.Median.Value) {
				wide = append(wide, row.name())
			}
		}
		if len(wide) > 0 {
			add(Warning{Code: "not-settled", Text: fmt.Sprintf("after %d samples the interval is still wider than %s "+
				"of the median: %s", c.Plan.Max, percent(c.Plan.Width), strings.Join(wide, ", ")),
				Hint: "use a longer --duration, or a larger maximum of --repeat"})
		}
	}
	c.gather(m)
}

func (row *ModeRow) name() string { return row.Mode + " (" + row.Workload + ")" }

func lastFailure(failures []ModeFault, mode string) string {
	for _, f := range slices.Backward(failures) {
		if f.Mode == mode {
			return f.Error
		}
	}
	return "no reason is known"
}

// gather adds each warning of the runs once, with the rows that it applies to.
func (c *ModesCampaign) gather(m *Modes) {
	have := map[string]bool{}
	for _, w := range m.Warnings {
		have[w.Code] = true
	}
	for i := range m.Runs {
		for _, w := range m.Runs[i].Warnings {
			if have[w.Code] || w.Code == "partial" {
				continue
			}
			have[w.Code] = true
			var of []string
			for j := range m.Runs {
				if slices.ContainsFunc(m.Runs[j].Warnings, func(x Warning) bool { return x.Code == w.Code }) {
					of = append(of, m.Rows[j].name())
				}
			}
			switch {
			case len(of) == len(m.Runs):
			case len(of) > 3:
				w.Text = fmt.Sprintf("%s and %d more: %s", of[0], len(of)-1, w.Text)
			default:
				w.Text = strings.Join(of, ", ") + ": " + w.Text
			}
			m.Warnings = append(m.Warnings, w)
		}
	}
}
