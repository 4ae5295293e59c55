package report

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// Plan draws a plan as a diff that an operator would sign.
func Plan(t *Text, p *plan.Plan) {
	t.Wrap("", t.In(Bold, "tier "+string(p.Tier)+": ")+p.Why)
	drawPhases(t, p.Phases)
	for _, note := range p.Notes {
		t.Blank()
		t.Wrap(t.In(Yellow, "note: "), note)
	}
	if len(p.Phases) > 1 || len(p.Notes) > 0 {
		t.Blank()
	}
	t.Line("%s", words.Either(p.Empty(), "nothing to change", words.Count(len(p.Changes), "change")+", in this order:"))
	number := 1
	for _, group := range Runs(p.Changes, SameTerms) {
		t.Blank()
		last := number + len(group) - 1
		drawChanges(t, fmt.Sprintf("%2d%s ", number, words.If(len(group) > 1, "-%d", last)), group)
		number = last + 1
	}
	if len(p.Consent) > 0 {
		t.Section("planned only with consent")
		for _, group := range Runs(p.Consent, SameTerms) {
			drawChanges(t, "   ", group)
			t.Line("   %s", t.In(Yellow, "add --consent "+string(group[0].Risk)))
		}
	}
	drawHandover(t, p.Handover)
	drawSkipped(t, p.Skipped)
	drawFooting(t, p)
}

// drawSkipped draws what is left alone: each reason once, with the values that it covers.
func drawSkipped(t *Text, all []plan.Skipped) {
	if len(all) == 0 {
		return
	}
	t.Section("left alone")
	for _, reason := range Group(all, func(s plan.Skipped) string { return s.Why }) {
		t.Wrap("   ", reason[0].Why+":")
		values := func(s plan.Skipped) plan.Skipped {
			s.Address = setting.Address{}
			return s
		}
		for _, alike := range Group(reason, values) {
			s := alike[0]
			places := facts.Map(alike, func(s plan.Skipped) string { return s.Address.String() })
			found, wanted := words.Or(s.Found), words.Or(s.Wanted)
			if s.Address.Kind.IsText() { // --json has the whole
				found, wanted = brief(s.Found), brief(s.Wanted)
			}
			t.Wrap("     "+t.In(Bold, s.ID)+"  ", Few(places, mostBlocks)+": "+found+" → "+wanted)
		}
	}
}

// drawHandover draws what only the platforms of guests can change, once where it is alike for several guests.
func drawHandover(t *Text, all []plan.Handed) {
	if len(all) == 0 {
		return
	}
	t.Section("for the guests' platform to set ('mpps handover' has its words)")
	alike := func(h plan.Handed) plan.Handed {
		return plan.Handed{ID: h.ID, Platform: h.Platform, Title: h.Title, Effect: h.Effect}
	}
	for _, group := range Group(all, alike) {
		h := group[0]
		t.Wrap("   "+t.In(Bold, h.ID)+"  ", h.Title)
		for _, h := range group[:min(len(group), mostFolded)] {
			t.Wrap("   ", t.In(Faint, h.Address.String()))
			drawValues(t, "   ", h.Address, h.From.String(), h.Value.String())
		}
		t.LineIf(len(group) > mostFolded, "   + %d more (--json lists all)", len(group)-mostFolded)
		t.Field("   why: ", h.Why)
		t.Field("   takes effect ", h.Effect)
	}
}

// SameTerms reports whether two changes differ only in address and values, as those of a NIC's queues do, or in the
// guest that must be restarted.
func SameTerms(a, b plan.Change) bool {
	return a.ID == b.ID && a.Risk == b.Risk && a.Lasts == b.Lasts && a.Needs.Kind == b.Needs.Kind &&
		a.Needs.Words == b.Needs.Words && a.Kept == b.Kept && a.Warning == b.Warning &&
		slices.Equal(a.Rules, b.Rules) && slices.Equal(a.GivesWay, b.GivesWay)
}

// Needs says what must happen before changes of the same terms take effect, "" for nothing.
func Needs(group []plan.Change) string {
	need := group[0].Needs
	if slices.ContainsFunc(group, func(c plan.Change) bool { return c.Needs != need }) {
		return "restart of the guest that each belongs to"
	}
	return need.String()
}

// drawPhases draws what the changes need (a reboot, a guest's restart), if the plan has more than one phase.
func drawPhases(t *Text, all []plan.Phase) {
	if len(all) < 2 {
		return
	}
	t.Section("what needs what")
	for _, alike := range Runs(all, samePhase) {
		f := alike[0]
		events := facts.Map(alike, func(f plan.Phase) string { return f.What })
		t.Wrap("   ", t.In(Bold, Few(events, mostFolded)))
		t.Field("      "+words.Count(f.Changes, "change")+words.If(len(alike) > 1, " each")+": ",
			words.Either(f.Changes > 0, strings.Join(f.IDs, ", "), ""))
		t.Field("      yours to do: ", strings.Join(f.ByHand, ", "))
		t.Field("      to attest ('mpps attest'): ",
			words.Either(f.Name == plan.PhaseFirmware, strings.Join(f.Unseen, ", "), ""))
	}
}

// samePhase reports whether two phases differ only in what must happen, as the restarts of guests do.
func samePhase(a, b plan.Phase) bool {
	return a.Name == b.Name && a.Changes == b.Changes && slices.Equal(a.IDs, b.IDs) &&
		slices.Equal(a.ByHand, b.ByHand) && slices.Equal(a.Unseen, b.Unseen)
}

// mostBlocks is how many changes of a group have their values below each other, as in a diff. Of more, each takes a
// line.
const mostBlocks = 3

func drawChanges(t *Text, number string, group []plan.Change) {
	c := group[0]
	t.Wrap(number+t.In(Bold, c.ID)+"  ", c.Title)
	all := foldChanges(group)
	for _, c := range all {
		address, from, to := t.In(Faint, c.where), c.From.String(), c.To.String()
		if len(all) > mostBlocks && !c.Address.Kind.IsText() {
			t.Row("   "+address+"  ", t.In(Red, words.Or(from))+" → "+t.In(Green, words.Or(to)))
		} else {
			t.Wrap("   ", address)
			drawValues(t, "   ", c.Address, from, to)
		}
		t.Each("   "+t.In(Yellow, "also: "), c.Owners)
	}
	reasons := Distinct(group, func(c plan.Change) string { return c.Because })
	t.Each("   why: ", reasons[:min(len(reasons), 2)])
	t.LineIf(len(reasons) > 2, "        and alike for the others (--json has each)")
	lasts := "lasts " + string(c.Lasts) + words.If(c.Kept != "", " (%s)", c.Kept)
	t.Wrap("   ", words.Join(" · ", "risk "+string(c.Risk), lasts,
		words.If(!c.Needs.IsZero(), "takes effect after %s", Needs(group))))
	t.Field("   "+t.In(Yellow, "careful: "), c.Warning)
	for _, w := range c.GivesWay {
		t.Wrap("   "+t.In(Yellow, "gives way: "), w.Words())
	}
	drawRules(t, c.Rules)
}

// drawRules lists rules that would stop matching: the operator must see them before consenting, and before applying.
func drawRules(t *Text, lines []string) {
	if len(lines) == 0 {
		return
	}
	t.Line("   these rules would stop matching:")
	t.Each("     ", lines[:min(len(lines), 12)])
	t.LineIf(len(lines) > 12, "     … and %d more (--json lists all)", len(lines)-12)
}

func drawFooting(t *Text, p *plan.Plan) {
	if len(p.Restarts) > 0 || len(p.Later) > 0 || len(p.Management) > 0 {
		t.Blank()
	}
	for _, alike := range Group(p.Restarts, func(r plan.Restart) int { return len(r.Addresses) }) {
		events := facts.Map(alike, func(r plan.Restart) string { return r.What.String() })
		n, each := len(alike[0].Addresses), words.If(len(alike) > 1, " each")
		t.Wrap("needs ", fmt.Sprintf("%s: %s%s %s effect then; mpps does not do it", Few(events, mostFolded),
			words.Count(n, "change"), each, words.Either(n == 1 && each == "", "takes", "take")))
	}
	terms := func(l plan.Later) [2]string { return [2]string{strings.Join(l.IDs, ", "), l.Why} }
	for _, alike := range Group(p.Later, terms) {
		events := facts.Map(alike, func(l plan.Later) string { return l.After })
		t.Wrap("later ", fmt.Sprintf("after %s: %s; %s", Few(events, mostFolded), strings.Join(alike[0].IDs, ", "),
			alike[0].Why))
	}
	cuts := slices.ContainsFunc(p.Changes, func(c plan.Change) bool { return c.Risk == goal.Connectivity })
	for _, m := range p.Management {
		style, touched := Style(""), "not touched"
		switch {
		case m.Touched && cuts:
			style, touched = RedBold, "this plan changes it, apply undoes itself unless 'mpps confirm' follows"
		case m.Touched:
			style, touched = Yellow, "this plan changes it, nothing that could cut it"
		}
		t.Wrap(t.In(style, "management path "), m.NIC+": "+m.Why+"; "+touched)
	}
	risks := map[goal.Risk]int{}
	for _, c := range p.Changes {
		risks[c.Risk]++
	}
	all := words.Join(", ", words.Each(goal.Risks(),
		func(r goal.Risk) string { return words.If(risks[r] > 0, "%s %d", r, risks[r]) })...)
	t.LineIf(all != "", "risks: %s", all)
	t.Line("digest %s", p.Digest)
}

// ChangeRow is one change in words.
type ChangeRow struct {
	ID      string `json:"id"`
	Title   string `json:"title"`
	Stage   string `json:"stage"`
	Address string `json:"address"`
	From    string `json:"from"`
	To      string `json:"to"`
	Because string `json:"because"`
	Risk    string `json:"risk,omitempty"`
	Lasts   string `json:"lasts,omitempty"`
	Needs   string `json:"needs,omitempty"`
	Undo    string `json:"undo,omitempty"`
}

// Rows returns planned changes in words.
func Rows(changes []plan.Change) []ChangeRow {
	rows := make([]ChangeRow, 0, len(changes))
	for _, c := range changes {
		rows = append(rows, ChangeRow{
			ID: c.ID, Title: c.Title, Stage: c.Stage.String(), Address: c.Address.String(),
			From: words.Or(c.From.String()),
			To:   words.Or(c.To.String()), Because: c.Because, Risk: string(c.Risk), Lasts: string(c.Lasts),
			Needs: c.Needs.String(), Undo: "mpps rollback",
		})
	}
	return rows
}

// SkippedRows returns what a plan left alone, with the reason: values that cannot be set, and risks nobody consented
// to.
func SkippedRows(p *plan.Plan) []ChangeRow {
	var rows []ChangeRow
	for _, s := range p.Skipped {
		rows = append(rows, ChangeRow{ID: s.ID, Title: s.ID, Address: s.Address.String(), From: s.Found,
			To: s.Wanted, Because: s.Why})
	}
	for _, row := range Rows(p.Consent) {
		row.Because = fmt.Sprintf("needs --consent %s: %s", row.Risk, row.Because)
		rows = append(rows, row)
	}
	return rows
}
