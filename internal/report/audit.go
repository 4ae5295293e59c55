package report

import (
	"fmt"
	"strings"

	"mpps/internal/audit"
	"mpps/internal/knob"
)

// Audit draws an audit: the verdict, then what is off, worst first. Values of one knob that are off in the same way
// share a line. Verbose shows what is in order and what does not apply too.
func Audit(t *Text, r audit.Report, verbose bool) {
	t.Wrapped("", t.In(Bold, "tier "+string(r.Tier)+": ")+r.Why)
	t.Wrapped("", r.Verdict)
	findings(t, r.In(audit.Off))
	if unknown := r.In(audit.Unknown); len(unknown) > 0 {
		t.Blank()
		t.Heading("could not be judged")
		findings(t, unknown)
	}
	if verbose {
		t.Blank()
		t.Heading("in order")
		findings(t, r.In(audit.OK))
		t.Blank()
		t.Heading("not applicable")
		findings(t, r.In(audit.NotApplicable))
	} else if r.Counts[audit.OK] > 0 {
		t.Blank()
		t.Line("%s in order, %d not applicable (-v shows them)", count(r.Counts[audit.OK], "value"), r.Counts[audit.NotApplicable])
	}
	if len(r.In(audit.Off)) > 0 {
		t.Line("'mpps explain ID' says more; 'mpps plan' shows what would be changed")
	}
}

// findings draws findings, one group a paragraph: severity, ID, found and wanted; where; why.
func findings(t *Text, all []audit.Finding) {
	for _, group := range groupFindings(all) {
		f := group[0]
		mark := fmt.Sprintf("%-8s", f.Severity)
		switch {
		case f.State != audit.Off:
			mark = fmt.Sprintf("%-8s", "")
		case f.Severity >= knob.High:
			mark = t.In(RedBold, mark)
		case f.Severity == knob.Medium:
			mark = t.In(Yellow, mark)
		}
		values := f.Found
		if f.Wanted != "" && f.State == audit.Off {
			values += " → " + f.Wanted
		}
		t.Line("%s %s  %s", mark, t.In(Bold, f.ID), values)
		t.Wrapped("         ", t.In(Faint, where(group)))
		t.Wrapped("         ", f.Why)
		if f.Warning != "" {
			t.Wrapped("         "+t.In(Yellow, "careful: "), f.Warning)
		}
		if f.Blocked != "" && f.State == audit.Off {
			t.Wrapped("         not changed: ", f.Blocked)
		}
	}
}

// where names the addresses of a group: one in full, several by their number and objects.
func where(group []audit.Finding) string {
	if len(group) == 1 {
		return group[0].Address.String()
	}
	shown := make([]string, 0, 4)
	for _, f := range group[:min(len(group), 3)] {
		shown = append(shown, f.Address.String())
	}
	text := strings.Join(shown, ", ")
	if rest := len(group) - len(shown); rest > 0 {
		text += fmt.Sprintf(" and %d more", rest)
	}
	return text
}

// groupFindings puts findings together that say the same of different addresses, in the order of the first of each.
func groupFindings(all []audit.Finding) [][]audit.Finding {
	type key struct{ id, found, wanted, why, warning, blocked string }
	at := map[key]int{}
	var groups [][]audit.Finding
	for _, f := range all {
		k := key{f.ID, f.Found, f.Wanted, f.Why, f.Warning, f.Blocked}
		i, ok := at[k]
		if !ok {
			i = len(groups)
			at[k] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], f)
	}
	return groups
}
