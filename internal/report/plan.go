package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/advise/plan"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/report/words"
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
	if len(p.Skipped) > 0 {
		t.Section("left alone")
		for _, s := range p.Skipped {
			t.Wrap("   "+s.ID+"  ", fmt.Sprintf("%s (found %s, wanted %s): %s",
				s.Address, brief(s.Found), brief(s.Wanted), s.Why))
		}
	}
	drawFooting(t, p)
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

// SameTerms reports whether two changes differ only in address and values, as those of a NIC's queues do.
func SameTerms(a, b plan.Change) bool {
	return a.ID == b.ID && a.Risk == b.Risk && a.Lasts == b.Lasts && a.Needs == b.Needs && a.Kept == b.Kept &&
		a.Warning == b.Warning && slices.Equal(a.Rules, b.Rules) &&
		slices.Equal(a.GivesWay, b.GivesWay)
}

// drawPhases draws what the changes need (a reboot, a guest's restart), if the plan has more than one phase.
func drawPhases(t *Text, all []plan.Phase) {
	if len(all) < 2 {
		return
	}
	t.Section("what needs what")
	for _, f := range all {
		t.Line("   %s", t.In(Bold, f.What))
		t.Field("      "+words.Count(f.Changes, "change")+": ", words.Either(f.Changes > 0, strings.Join(f.IDs, ", "),
			""))
		t.Field("      yours to do: ", strings.Join(f.ByHand, ", "))
		t.Field("      to attest ('mpps attest'): ",
			words.Either(f.Name == plan.PhaseFirmware, strings.Join(f.Unseen, ", "), ""))
	}
}

func drawChanges(t *Text, number string, group []plan.Change) {
	c := group[0]
	t.Wrap(number+t.In(Bold, c.ID)+"  ", c.Title)
	for _, equal := range Group(group, exceptCPU) {
		c := equal[0]
		t.Wrap("   ", t.In(Faint, addressesText(equal)))
		drawValues(t, "   ", c.Address, c.From.String(), c.To.String())
		t.Each("   "+t.In(Yellow, "also: "), c.Owners)
	}
	reasons := Distinct(group, func(c plan.Change) string { return c.Because })
	t.Each("   why: ", reasons[:min(len(reasons), 2)])
	t.LineIf(len(reasons) > 2, "        and alike for the others (--json has each)")
	lasts := "lasts " + string(c.Lasts) + words.If(c.Kept != "", " (%s)", c.Kept)
	needs := words.If(!c.Needs.IsZero(), "takes effect after %s", c.Needs)
	t.Wrap("   ", words.Join(" · ", "risk "+string(c.Risk), lasts, needs))
	t.Field("   "+t.In(Yellow, "careful: "), c.Warning)
	for _, w := range c.GivesWay {
		t.Wrap("   "+t.In(Yellow, "gives way: "), w.Words())
	}
	drawRules(t, c.Rules)
}

// cpuFolders has a folder cpuN of each CPU (Documentation/ABI/testing/sysfs-devices-system-cpu).
const cpuFolders = "devices/system/cpu/cpu"

// cpuOf returns the CPU whose file an address of sysfs names, and the file; false for other addresses.
func cpuOf(a setting.Address) (cpu int, file string, is bool) {
	number, file, is := strings.Cut(strings.TrimPrefix(a.Path, cpuFolders), "/")
	cpu, err := strconv.Atoi(number)
	return cpu, file, is && err == nil && a.Kind == setting.Sysfs && strings.HasPrefix(a.Path, cpuFolders)
}

// equalChange is what changes have in common that are one for the reader.
type equalChange struct{ address, from, to, owners string }

// exceptCPU returns a change without the CPU whose file it sets: on a host of 64 CPUs there are 64 of it.
func exceptCPU(c plan.Change) equalChange {
	address := c.Address.String()
	if _, file, is := cpuOf(c.Address); is {
		address = file
	}
	return equalChange{address, c.From.String(), c.To.String(), strings.Join(c.Owners, "\n")}
}

// addressesText returns the address of changes that are equal except for the CPU, with all CPUs.
func addressesText(equal []plan.Change) string {
	if len(equal) == 1 {
		return equal[0].Address.String()
	}
	var cpus []int
	file := ""
	for _, c := range equal {
		cpu, of, _ := cpuOf(c.Address)
		cpus, file = append(cpus, cpu), of
	}
	return string(setting.Sysfs) + ":" + cpuFolders + "N/" + file + "  " + setting.CPUs(cpus...).Words()
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
	for _, r := range p.Restarts {
		changes := words.Count(len(r.Addresses), "change takes effect", "changes take effect")
		t.Wrap("needs ", fmt.Sprintf("%s: %s then; mpps does not do it", r.What, changes))
	}
	for _, l := range p.Later {
		t.Wrap("later ", fmt.Sprintf("after %s: %s; %s", l.After, strings.Join(l.IDs, ", "), l.Why))
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
			Needs: c.Needs.String(),
			Undo:  "mpps rollback",
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
