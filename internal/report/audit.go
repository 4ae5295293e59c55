package report

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/audit"
	"mpps/internal/knob"
)

// Audit draws an audit: the verdict, then what is off, worst first. Values of one knob that are off in the same way
// share a line. Verbose shows what is in order and what does not apply too.
func Audit(t *Text, r audit.Report, verbose bool) {
	t.Wrapped("", t.In(Bold, "tier "+string(r.Tier)+": ")+r.Why)
	t.Wrapped("", r.Verdict)
	tunedProfile(t, r.Tuned)
	if n := len(r.LeftOut); n > 0 {
		t.Wrapped("left out: ", fmt.Sprintf("%s not running (%s): --guest NAME judges one", count(n, "guest"), strings.Join(r.LeftOut[:min(n, 8)], ", ")))
	}
	findings(t, r.In(audit.Off))
	if unknown := r.In(audit.Unknown); len(unknown) > 0 {
		t.Blank()
		t.Heading("could not be judged")
		unjudged(t, unknown)
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
		values := fmt.Sprintf("%d values", len(group))
		alike := allAlike(group)
		if alike {
			values = bothValues(f)
		}
		t.Wrapped(fmt.Sprintf("%s %s  ", mark, t.In(Bold, f.ID)), values)
		if alike && brief(f.Found) != shown(f.Found) && f.Wanted != "" && !f.Address.Kind.Whole() {
			inFull(t, "         found: ", f.Found)
		}
		for _, member := range group[:min(len(group), 3)] {
			line := t.In(Faint, member.Address.String())
			if !alike {
				line += "  " + bothValues(member)
			}
			t.Wrapped("         ", line)
		}
		if rest := len(group) - 3; rest > 0 {
			t.Line("         and %d more like these", rest)
		}
		t.Wrapped("         ", f.Why)
		if f.Site != "" {
			t.Wrapped("         site: ", f.Site)
		}
		if f.Warning != "" {
			t.Wrapped("         "+t.In(Yellow, "careful: "), f.Warning)
		}
		rules(t, f.Rules)
		if f.Blocked != "" && f.State == audit.Off {
			t.Wrapped("         not changed: ", f.Blocked)
		}
	}
}

// unjudged draws what could not be judged, by reason.
func unjudged(t *Text, all []audit.Finding) {
	var reasons []string
	ids := map[string][]string{}
	for _, f := range all {
		if len(ids[f.Why]) == 0 {
			reasons = append(reasons, f.Why)
		}
		if !slices.Contains(ids[f.Why], f.ID) {
			ids[f.Why] = append(ids[f.Why], f.ID)
		}
	}
	for _, why := range reasons {
		all := strings.Join(ids[why], ", ")
		if len(all) > 60 { // a list that is longer than a line is wrapped by itself
			t.Wrapped("  ", all+":")
			t.Wrapped("      ", why)
			continue
		}
		t.Wrapped("  "+t.In(Bold, all)+": ", why)
	}
}

// bothValues are the two values of a finding: found and, where it is off, wanted.
func bothValues(f audit.Finding) string {
	if f.Wanted != "" && f.State == audit.Off {
		return brief(f.Found) + " → " + brief(f.Wanted)
	}
	return brief(f.Found)
}

// brief is a value in at most 32 columns; the JSON has all of it.
func brief(value string) string { return cut(shown(value), 32) }

// inFull writes what was found where its beginning does not say enough. A word that is longer than a line is cut.
func inFull(t *Text, prefix, value string) {
	words := strings.Fields(cut(value, 240))
	for i, word := range words {
		words[i] = cut(word, t.Width-visible(prefix))
	}
	t.Wrapped(prefix, strings.Join(words, " "))
}

func cut(value string, columns int) string {
	value = tame(value, false)
	if r := []rune(value); len(r) > columns {
		return string(r[:max(columns-1, 0)]) + "…"
	}
	return value
}

// shown is a value for people: an empty one (a CPU mask without CPUs) is visible too.
func shown(value string) string {
	if value == "" {
		return "none"
	}
	return value
}

func allAlike(group []audit.Finding) bool {
	for _, f := range group[1:] {
		if f.Found != group[0].Found || f.Wanted != group[0].Wanted || f.Why != group[0].Why {
			return false
		}
	}
	return true
}

// groupFindings puts the findings of one knob together that are equally bad, in the order of the first of each.
func groupFindings(all []audit.Finding) [][]audit.Finding {
	type key struct {
		id               string
		severity         knob.Severity
		warning, blocked string
	}
	at := map[key]int{}
	var groups [][]audit.Finding
	for _, f := range all {
		k := key{f.ID, f.Severity, f.Warning, f.Blocked}
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
