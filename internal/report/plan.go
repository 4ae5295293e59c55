package report

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/goal"
	"mpps/internal/plan"
)

// Plan draws a plan as a diff that an operator would sign.
func Plan(t *Text, p *plan.Plan) {
	t.Wrapped("", t.In(Bold, "tier "+string(p.Tier)+": ")+p.Why)
	phases(t, p.Phases)
	for _, note := range p.Notes {
		t.Blank()
		t.Wrapped(t.In(Yellow, "note: "), note)
	}
	if len(p.Phases) > 1 || len(p.Notes) > 0 {
		t.Blank()
	}
	if p.Empty() {
		t.Line("nothing to change")
	} else {
		t.Line("%s, in this order:", count(len(p.Changes), "change"))
	}
	number := 1
	for _, group := range groupChanges(p.Changes) {
		t.Blank()
		span := fmt.Sprintf("%2d ", number)
		if number += len(group); len(group) > 1 {
			span = fmt.Sprintf("%2d-%d ", number-len(group), number-1)
		}
		planned(t, span, group)
	}
	if len(p.Consent) > 0 {
		t.Blank()
		t.Heading("planned only with consent")
		for _, group := range groupChanges(p.Consent) {
			planned(t, "   ", group)
			t.Line("   %s", t.In(Yellow, "add --consent "+string(group[0].Risk)))
		}
	}
	if len(p.Skipped) > 0 {
		t.Blank()
		t.Heading("left alone")
		for _, s := range p.Skipped {
			t.Wrapped("   "+s.ID+"  ", fmt.Sprintf("%s (found %s, wanted %s): %s", s.Address, brief(s.Found), brief(s.Wanted), s.Why))
		}
	}
	footing(t, p)
}

// groupChanges puts changes together that follow each other and differ only in address and values: the queues of a NIC.
// Those that stop other rules from matching are never put together.
func groupChanges(all []plan.Change) [][]plan.Change {
	var groups [][]plan.Change
	for _, c := range all {
		if n := len(groups); n > 0 {
			last := groups[n-1][0]
			if last.ID == c.ID && last.Risk == c.Risk && last.Lasts == c.Lasts && last.Needs == c.Needs && last.Kept == c.Kept && last.Warning == c.Warning && slices.Equal(last.Rules, c.Rules) {
				groups[n-1] = append(groups[n-1], c)
				continue
			}
		}
		groups = append(groups, []plan.Change{c})
	}
	return groups
}

// phases is what needs what, where the plan has more than one such thing.
func phases(t *Text, all []plan.Phase) {
	if len(all) < 2 {
		return
	}
	t.Blank()
	t.Heading("what needs what")
	for _, f := range all {
		t.Line("   %s", t.In(Bold, f.What))
		if f.Changes > 0 {
			t.Wrapped("      "+count(f.Changes, "change")+": ", strings.Join(f.IDs, ", "))
		}
		if len(f.ByHand) > 0 {
			t.Wrapped("      yours to do: ", strings.Join(f.ByHand, ", "))
		}
		if len(f.Unseen) > 0 && f.Name == plan.PhaseFirmware {
			t.Wrapped("      to attest ('mpps attest'): ", strings.Join(f.Unseen, ", "))
		}
	}
}

func planned(t *Text, number string, group []plan.Change) {
	c := group[0]
	t.Wrapped(number+t.In(Bold, c.ID)+"  ", c.Title)
	var reasons []string
	for _, c := range group {
		t.Wrapped("   ", t.In(Faint, c.Address.String()))
		values(t, "   ", c.Address, c.From.String(), c.To.String())
		for _, owner := range c.Owners {
			t.Wrapped("   "+t.In(Yellow, "also: "), owner)
		}
		if !slices.Contains(reasons, c.Because) {
			reasons = append(reasons, c.Because)
		}
	}
	for _, because := range reasons[:min(len(reasons), 2)] {
		t.Wrapped("   why: ", because)
	}
	if len(reasons) > 2 {
		t.Line("        and alike for the others (--json has each)")
	}
	terms := []string{"risk " + string(c.Risk), "lasts " + string(c.Lasts)}
	if c.Kept != "" {
		terms[1] += " (" + c.Kept + ")"
	}
	if !c.Needs.IsZero() {
		terms = append(terms, "takes effect after "+c.Needs.String())
	}
	t.Wrapped("   ", strings.Join(terms, " · "))
	if c.Warning != "" {
		t.Wrapped("   "+t.In(Yellow, "careful: "), c.Warning)
	}
	rules(t, c.Rules)
}

// rules lists rules that would stop matching: the operator must see them before consenting, and before applying.
func rules(t *Text, lines []string) {
	if len(lines) == 0 {
		return
	}
	t.Line("   these rules would stop matching:")
	for _, line := range lines[:min(len(lines), 12)] {
		t.Wrapped("     ", line)
	}
	if rest := len(lines) - 12; rest > 0 {
		t.Line("     … and %d more (--json lists all)", rest)
	}
}

func footing(t *Text, p *plan.Plan) {
	if len(p.Restarts) > 0 || len(p.Later) > 0 || len(p.Management) > 0 {
		t.Blank()
	}
	for _, r := range p.Restarts {
		t.Wrapped("needs ", fmt.Sprintf("%s: %s then; mpps does not do it", r.What, count(len(r.Addresses), "change takes effect", "changes take effect")))
	}
	for _, l := range p.Later {
		t.Wrapped("later ", fmt.Sprintf("after %s: %s; %s", l.After, strings.Join(l.IDs, ", "), l.Why))
	}
	cuts := slices.ContainsFunc(p.Changes, func(c plan.Change) bool { return c.Risk == goal.Connectivity })
	for _, m := range p.Management {
		switch {
		case m.Touched && cuts:
			t.Wrapped(t.In(RedBold, "way in "), m.NIC+": "+m.Why+"; this plan changes it, apply undoes itself unless 'mpps confirm' follows")
		case m.Touched:
			t.Wrapped(t.In(Yellow, "way in "), m.NIC+": "+m.Why+"; this plan changes it, nothing that could cut it")
		default:
			t.Wrapped("way in ", m.NIC+": "+m.Why+"; not touched")
		}
	}
	risks := map[goal.Risk]int{}
	for _, c := range p.Changes {
		risks[c.Risk]++
	}
	var parts []string
	for _, r := range goal.Risks() {
		if risks[r] > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", r, risks[r]))
		}
	}
	if len(parts) > 0 {
		t.Line("risks: %s", strings.Join(parts, ", "))
	}
	t.Line("digest %s", p.Digest)
}
