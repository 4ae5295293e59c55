package plan

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// Again judges the changes of a plan by what the host is now: rules that were added since, another way in, another
// bridge make the same value a different risk. It returns a *Stale that names every change that is now riskier than the
// plan says, needs consent that its goal does not give, or stops other rules from matching. Changes of which the
// catalogue does not speak (a plan made by hand), and values that are as wanted already, are passed over. The host's
// readings at all addresses of the catalogue must be fresh.
//
// cuts reports whether a change that is still to be made has risk connectivity, by the plan or by what the host is now.
func Again(p *Plan, h *facts.Host, catalogue []*knob.Knob) (cuts bool, err error) {
	now := map[spot]audit.Finding{}
	for _, f := range audit.Run(h, p.Goal, catalogue).In(audit.Off) {
		if f.Blocked == "" {
			now[spot{f.ID, f.Address}] = f
		}
	}
	stale := &Stale{Digest: p.Digest}
	differs := func(what, then, now string) { stale.Changed = append(stale.Changed, Difference{what, then, now}) }
	ways := map[string]bool{} // said already
	for _, c := range p.Changes {
		if c.Want.Met(h.Readings.At(c.Address)) {
			continue
		}
		f, known := now[spot{c.ID, c.Address}]
		cuts = cuts || c.Risk == goal.Connectivity || known && f.Risk == goal.Connectivity
		switch {
		case known && !p.Goal.Consents(f.Risk):
			differs("risk of "+c.Address.String(), string(c.Risk), string(f.Risk)+", which needs --consent "+
				string(f.Risk)+rulesOf(f.Rules))
		case known && worse(f.Risk, c.Risk):
			differs("risk of "+c.Address.String(), string(c.Risk), string(f.Risk)+rulesOf(f.Rules))
		case known && !slices.Equal(f.Rules, c.Rules):
			then, is := otherRules(c.Rules, f.Rules)
			differs("what stops matching with "+c.Address.String(), then, is)
		}
		if way := wayIn(h, c.Address); way != nil && !ways[way.Name] && !p.knows(way.Name) {
			ways[way.Name] = true
			differs("nic "+way.Name, "not the way in", "the way in ("+way.Management+")")
		}
	}
	if len(stale.Changed) > 0 {
		return cuts, stale
	}
	return cuts, nil
}

// worse reports whether one risk is worse than another; one that is not known is the worst.
func worse(now, then goal.Risk) bool {
	rank := func(r goal.Risk) int {
		if i := slices.Index(goal.Risks(), r); i >= 0 {
			return i
		}
		return len(goal.Risks())
	}
	return rank(now) > rank(then)
}

// wayIn is the NIC on which a value is set, where that is the operator's way in.
func wayIn(h *facts.Host, a setting.Address) *facts.NIC {
	name := nicOf(a)
	if name == "" {
		return nil
	}
	for i := range h.NICs {
		if h.NICs[i].Name == name && h.NICs[i].Management != "" {
			return &h.NICs[i]
		}
	}
	return nil
}

// knows reports whether a NIC was a way in when the plan was made.
func (p *Plan) knows(nic string) bool {
	return slices.ContainsFunc(p.Management, func(m Management) bool { return m.NIC == nic })
}

// rulesOf names the first of some rules.
func rulesOf(rules []string) string {
	switch len(rules) {
	case 0:
		return ""
	case 1:
		return " (stops matching: " + rules[0] + ")"
	}
	return fmt.Sprintf(" (stops matching: %s, and %d more)", rules[0], len(rules)-1)
}

// otherRules words the difference of two lists of rules: the first that only the one or the other has.
func otherRules(then, now []string) (was, is string) {
	only := func(list, other []string) string {
		var names []string
		for _, rule := range list {
			if !slices.Contains(other, rule) {
				names = append(names, rule)
			}
		}
		switch {
		case len(names) == 0:
			return fmt.Sprintf("%d rules", len(list))
		case len(names) > 2:
			names = append(names[:2], fmt.Sprintf("and %d more", len(names)-2))
		}
		return fmt.Sprintf("%d rules with %s", len(list), strings.Join(names, ", "))
	}
	return only(then, now), only(now, then)
}
