package report

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/knob"
	"mpps/internal/model/reach"
	"mpps/internal/report/words"
)

// Audit draws an audit: the verdict, then what is off, worst first. Values of one knob that are off in the same way
// share a line. Verbose shows what is in order and what does not apply too.
func Audit(t *Text, r audit.Report, verbose bool) {
	t.Wrap("", t.In(Bold, "tier "+string(r.Tier)+": ")+r.Why)
	t.Wrap("", r.Verdict)
	drawTunedProfile(t, r.Tuned)
	n := len(r.LeftOut)
	t.WrapIf(n > 0, "left out: ", "%s not running (%s): --guest NAME judges one", words.Count(n, "guest"),
		strings.Join(r.LeftOut[:min(n, 8)], ", "))
	drawNotJudged(t, r.NotJudged)
	drawFindings(t, r.InState(audit.Off))
	if unknown := r.InState(audit.Unknown); len(unknown) > 0 {
		t.Section("could not be judged")
		drawUnjudged(t, unknown)
	}
	if verbose {
		t.Section("in order")
		drawFindings(t, r.InState(audit.OK))
		t.Section("not applicable")
		drawFindings(t, r.InState(audit.NotApplicable))
	} else if n := r.Counts[audit.OK]; n > 0 {
		t.Blank()
		t.Line("%s in order, %d not applicable (-v shows them)", words.Count(n, "value"), r.Counts[audit.NotApplicable])
	}
	t.LineIf(len(r.InState(audit.Off)) > 0, "'mpps explain ID' says more; 'mpps plan' shows what would be changed")
}

// drawNotJudged says which guests' paths mpps has no rules for.
func drawNotJudged(t *Text, paths []reach.Path) {
	for _, group := range Group(paths, func(p reach.Path) string { return fmt.Sprint(p.Declined()) }) {
		guests := Distinct(group, func(p reach.Path) string { return p.Guest })
		names := strings.Join(guests[:min(len(guests), 8)], ", ") +
			words.If(len(guests) > 8, " and %d more", len(guests)-8)
		t.Wrap(t.In(Yellow, "not judged: "), fmt.Sprintf("%s of %s: their packets go through %s, and nothing that "+
			"serves them is changed", words.Count(len(group), "NIC"), names, reach.Words(group[0].Declined())))
	}
}

// drawFindings draws findings, a paragraph for those of one knob that are equally bad: severity, ID, found and wanted;
// where; why.
func drawFindings(t *Text, all []audit.Finding) {
	const under = "         "
	type key struct {
		id               string
		severity         knob.Severity
		warning, blocked string
	}
	for _, group := range Group(all, func(f audit.Finding) key { return key{f.ID, f.Severity, f.Warning, f.Blocked} }) {
		f := group[0]
		off := f.State == audit.Off
		alike := !slices.ContainsFunc(group, func(o audit.Finding) bool {
			return o.Found != f.Found || o.Wanted != f.Wanted || o.Why != f.Why
		})
		mark := words.Either(off, severity(t, f.Severity), Pad("", 8))
		t.Wrap(mark+" "+t.In(Bold, f.ID)+"  ",
			words.Either(alike, valuesText(f), fmt.Sprintf("%d values", len(group))))
		if alike && brief(f.Found) != words.Or(f.Found) && f.Wanted != "" && !f.Address.Kind.IsText() {
			drawInFull(t, under+"found: ", f.Found)
		}
		for _, member := range group[:min(len(group), 3)] {
			t.Wrap(under, t.In(Faint, member.Address.String())+words.If(!alike, "  %s", valuesText(member)))
		}
		t.LineIf(len(group) > 3, under+"and %d more like these", len(group)-3)
		t.Wrap(under, f.Why)
		t.Field(under+"site: ", f.Site)
		t.Field(under+t.In(Yellow, "careful: "), f.Warning)
		for _, w := range f.GivesWay {
			t.Wrap(under+t.In(Yellow, "gives way: "), w.Words())
		}
		drawRules(t, f.Rules)
		t.Field(under+"not changed: ", words.Either(off, f.Blocked, ""))
	}
}

// severity returns a severity in eight columns.
func severity(t *Text, s knob.Severity) string {
	style := words.Either(s >= knob.High, RedBold, words.Either(s == knob.Medium, Yellow, ""))
	return t.In(style, Pad(s.String(), 8))
}

// drawUnjudged draws what could not be judged, by reason.
func drawUnjudged(t *Text, all []audit.Finding) {
	for _, group := range Group(all, func(f audit.Finding) string { return f.Why }) {
		ids := strings.Join(Distinct(group, func(f audit.Finding) string { return f.ID }), ", ")
		if len(ids) > 60 { // a list that is longer than a line is wrapped by itself
			t.Wrap("  ", ids+":")
			t.Wrap("      ", group[0].Why)
			continue
		}
		t.Wrap("  "+t.In(Bold, ids)+": ", group[0].Why)
	}
}

// valuesText returns the two values of a finding: found and, if it is off, wanted.
func valuesText(f audit.Finding) string {
	return brief(f.Found) + words.If(f.Wanted != "" && f.State == audit.Off, " → %s", brief(f.Wanted))
}

// drawInFull writes what was found where its beginning does not say enough. A word that is longer than a line is cut.
func drawInFull(t *Text, prefix, value string) {
	parts := strings.Fields(Cut(value, 240))
	for i, word := range parts {
		parts[i] = Cut(word, t.Width-Visible(prefix))
	}
	t.Wrap(prefix, strings.Join(parts, " "))
}
