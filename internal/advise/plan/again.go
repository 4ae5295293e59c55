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

// Recheck judges the changes of a plan against the host as it is now: new rules, another way in or another bridge can
// change the risk of the same value. It returns a *Stale that names every change that is now riskier than the plan
// says, needs consent that the goal does not give, or stops other rules from matching. Changes that are not in the
// catalogue (a plan made by hand) and values that already are as wanted are passed over. h must have fresh readings of
// all addresses of the catalogue.
//
// cuts reports whether a change still to be made has risk connectivity, by the plan or by the host as it is now.
func Recheck(p *Plan, h *facts.Host, catalogue []*knob.Knob) (cuts bool, err error) {
	now := map[spot]audit.Finding{}
	for _, f := range audit.Run(h, p.Goal, catalogue).InState(audit.Off) {
		if f.Blocked == "" {
			now[spot{f.ID, f.Address}] = f
		}
	}
	stale := &Stale{}
	differs := func(what, then, now string) { stale.Changed = append(stale.Changed, Difference{what, then, now}) }
	ways := map[string]bool{} // already reported
	for _, c := range p.Changes {
		if c.Want.Met(h.Readings.At(c.Address)) {
			continue
		}
		f, known := now[spot{c.ID, c.Address}]
		cuts = cuts || c.Risk == goal.Connectivity || known && f.Risk == goal.Connectivity
		switch {
		case known && !p.Goal.Consents(f.Risk):
			differs("risk of "+c.Address.String(), string(c.Risk), string(f.Risk)+", which needs --consent "+
				string(f.Risk)+rulesSuffix(f.Rules))
		case known && worse(f.Risk, c.Risk):
			differs("risk of "+c.Address.String(), string(c.Risk), string(f.Risk)+rulesSuffix(f.Rules))
		case known && !slices.Equal(f.Rules, c.Rules):
			then, is := rulesDiff(c.Rules, f.Rules)
			differs("what stops matching with "+c.Address.String(), then, is)
		}
		if way := wayIn(h, c.Address); way != nil && !ways[way.Name] && !p.knewWayIn(way.Name) {
			ways[way.Name] = true
			differs("nic "+way.Name, "not the way in", "the way in ("+way.Management+")")
		}
	}
	if len(stale.Changed) > 0 {
		return cuts, stale
	}
	return cuts, nil
}

// worse reports whether one risk is worse than another; an unknown one is the worst.
func worse(now, then goal.Risk) bool {
	rank := func(r goal.Risk) int {
		if i := slices.Index(goal.Risks(), r); i >= 0 {
			return i
		}
		return len(goal.Risks())
	}
	return rank(now) > rank(then)
}

// wayIn returns the NIC of an address if it is the operator's way in, otherwise nil.
func wayIn(h *facts.Host, a setting.Address) *facts.NIC {
	name := a.Device()
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

// knewWayIn reports whether a NIC was a way in when the plan was made.
func (p *Plan) knewWayIn(nic string) bool {
	return slices.ContainsFunc(p.Management, func(m Management) bool { return m.NIC == nic })
}

// rulesSuffix names the first of some rules, in parentheses.
func rulesSuffix(rules []string) string {
	switch len(rules) {
	case 0:
		return ""
	case 1:
		return " (stops matching: " + rules[0] + ")"
	}
	return fmt.Sprintf(" (stops matching: %s, and %d more)", rules[0], len(rules)-1)
}

// rulesDiff describes how two lists of rules differ: the first rules that only one of them has.
func rulesDiff(then, now []string) (was, is string) {
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
