package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/knob"
	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/reach"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// worst is how many findings an audit shows where not all are asked for.
const worst = 5

// Audit draws an audit: the verdict, then what is off, worst first. Unless verbose it fits on one screen: the worst
// findings with a line each, how many there are at each stage, and the causes for which values were not judged.
func Audit(t *Text, r audit.Report, verbose bool) {
	t.Wrap("", t.In(Bold, "tier "+string(r.Tier)+": ")+r.Why)
	t.Wrap("", r.Verdict)
	drawTunedProfile(t, r.Tuned)
	n := len(r.LeftOut)
	t.WrapIf(n > 0, "left out: ", "%s not running (%s): --guest NAME judges one", words.Count(n, "guest"),
		strings.Join(r.LeftOut[:min(n, 8)], ", "))
	drawNotJudged(t, r.NotJudged)
	drawUnseen(t, r.Coverage.Unseen, verbose)
	off, unknown := r.InState(audit.Off), r.InState(audit.Unknown)
	if !verbose {
		drawWorst(t, off)
		drawCauses(t, unknown)
		t.Blank()
		t.LineIf(len(off) > 0, "'mpps explain ID' says more; 'mpps plan' shows what would be changed")
		t.Wrap("", fmt.Sprintf("-v shows all: %s off, %d in order, %d not applicable, %d not judged",
			words.Count(len(off), "setting"), r.Counts[audit.OK], r.Counts[audit.NotApplicable], len(unknown)))
		return
	}
	drawFindings(t, off)
	if len(unknown) > 0 {
		t.Section("could not be judged")
		drawUnjudged(t, unknown)
	}
	t.Section("in order")
	drawFindings(t, r.InState(audit.OK))
	t.Section("not applicable")
	drawFindings(t, r.InState(audit.NotApplicable))
}

// alikeFindings are the findings of one knob that are equally bad.
func alikeFindings(all []audit.Finding) [][]audit.Finding {
	type key struct {
		id               string
		severity         knob.Severity
		warning, blocked string
	}
	return Group(all, func(f audit.Finding) key { return key{f.ID, f.Severity, f.Warning, f.Blocked} })
}

// sameValues reports whether findings have the same values for the same reason.
func sameValues(all []audit.Finding) bool {
	return !slices.ContainsFunc(all, func(f audit.Finding) bool {
		return f.Found != all[0].Found || f.Wanted != all[0].Wanted || f.Why != all[0].Why
	})
}

// drawWorst draws the first findings, a line for those of one knob, and the stages of all.
func drawWorst(t *Text, all []audit.Finding) {
	if len(all) == 0 {
		return
	}
	t.Blank()
	type key struct {
		id       string
		severity knob.Severity
	}
	groups := Group(all, func(f audit.Finding) key { return key{f.ID, f.Severity} })
	shown := groups[:min(len(groups), worst)]
	var width int
	for _, group := range shown {
		width = max(width, len(group[0].ID))
	}
	for _, group := range shown {
		f := group[0]
		values := words.Either(sameValues(group), valuesText(f), words.Count(len(group), "value"))
		line := Pad(f.ID, width) + "  " + Cut(values, t.Width-width-11)
		if room := t.Width - Visible(line) - 11; room >= 12 {
			line += "  " + t.In(Faint, whose(group, room))
		}
		t.Line("%s %s", severity(t, f.Severity), line)
		drawChinese(t, f)
	}
	if len(groups) <= worst {
		return
	}
	var stages []string
	for _, stage := range Group(all, func(f audit.Finding) datapath.Stage { return f.Stage }) {
		stages = append(stages, fmt.Sprintf("%s %d", stage[0].Stage, len(stage)))
	}
	t.Blank()
	t.Wrap("by stage: ", strings.Join(stages, ", "))
}

// whose returns what findings are about, in as many columns as there is room for: CPUs, and the first guests, devices
// or addresses.
func whose(group []audit.Finding, room int) string {
	var names []string
	var cpus []int
	named := map[string]bool{}
	for _, f := range group {
		if cpu, is := f.Address.CPU(); is {
			cpus = append(cpus, cpu)
			continue
		}
		name := words.Either(f.Address.Kind == setting.Fact, f.Address.Object(),
			cmp.Or(f.Address.Guest(), f.Address.Device()))
		if name = cmp.Or(name, f.Address.String()); !named[name] {
			named[name], names = true, append(names, name)
		}
	}
	if len(cpus) > 0 {
		names = slices.Insert(names, 0, words.Either(len(cpus) == 1, "CPU ", "CPUs ")+setting.CPUs(cpus...).String())
	}
	for most := min(len(names), room); most > 1; most-- { // a name has a column at least
		if text := Few(names, most); Visible(text) <= room {
			return Cut(text, room)
		}
	}
	rest := words.If(len(names) > 1, ", and %d more", len(names)-1)
	return Cut(Cut(names[0], max(room-len(rest), 1))+rest, room)
}

// drawCauses says why values could not be judged: how many for each of the commonest reasons, a line each.
func drawCauses(t *Text, unknown []audit.Finding) {
	if len(unknown) == 0 {
		return
	}
	const most = 3
	groups := Group(unknown, func(f audit.Finding) string { return f.Why })
	slices.SortStableFunc(groups, func(a, b []audit.Finding) int { return len(b) - len(a) })
	t.Blank()
	t.Line("not judged:")
	for _, group := range groups[:min(len(groups), most)] {
		t.Wrap(fmt.Sprintf("%4d  ", len(group)), group[0].Why)
	}
	rest := 0
	for _, group := range groups[min(len(groups), most):] {
		rest += len(group)
	}
	others := len(groups) - most
	t.LineIf(rest > 0 && others == 1, "%4d  for another reason", rest)
	t.LineIf(rest > 0 && others > 1, "%4d  for %d other reasons", rest, others)
}

// drawNotJudged says which guests' paths mpps has no rules for.
func drawNotJudged(t *Text, paths []reach.Path) {
	for _, group := range Group(paths, func(p reach.Path) string { return fmt.Sprint(p.Declined()) }) {
		guests := Distinct(group, func(p reach.Path) string { return p.Guest })
		names := Few(guests, mostFolded)
		t.Wrap(t.In(Yellow, "not judged: "), fmt.Sprintf("%s of %s: their packets go through %s, and nothing that "+
			"serves them is changed", words.Count(len(group), "NIC"), names, reach.Words(group[0].Declined())))
	}
}

// drawUnseen says which guests could not be seen or verified: what --fail-on does not pass over.
func drawUnseen(t *Text, all []facts.Unseen, verbose bool) {
	const most = 5
	shown := all[:fold(len(all), most, verbose)]
	for _, u := range shown {
		t.Wrap(t.In(Yellow, "not seen: "), u.What+": "+u.Why)
	}
	t.WrapIf(len(shown) < len(all), "", "… and %d more that could not be seen", len(all)-len(shown))
}

// drawFindings draws findings, a paragraph for those of one knob that are equally bad: severity, ID, found and wanted;
// where; why.
func drawFindings(t *Text, all []audit.Finding) {
	const under = "         "
	for _, group := range alikeFindings(all) {
		f := group[0]
		off := f.State == audit.Off
		alike := sameValues(group)
		mark := words.Either(off, severity(t, f.Severity), Pad("", 8))
		t.Wrap(mark+" "+t.In(Bold, f.ID)+"  ", words.Either(alike, valuesText(f), fmt.Sprintf("%d values", len(group))))
		drawChinese(t, f)
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

// drawChinese says in Chinese what a finding is about and what the value should be, where the reader's locale asks.
func drawChinese(t *Text, f audit.Finding) {
	if k := knob.Find(f.ID); k != nil && t.Chinese {
		if said, found := k.Chinese(); found {
			t.Wrap(Pad("", 9), said.Title+"；应为："+said.Want)
		}
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
