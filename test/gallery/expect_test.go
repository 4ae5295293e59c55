package gallery

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// expectation is a key of Says, SaysNot or PlansNot: "ID", "ID STATE", "ID STATE ADDRESS" or, of plans, also a kind or
// an address alone. * stands for any text; the state is off if none is named.
type expectation struct {
	id, address string
	state       audit.State
}

func parseExpectation(key string) (expectation, error) {
	e := expectation{id: "*", address: "*", state: audit.Off}
	for i, word := range strings.Fields(key) {
		kind, _, isAddress := strings.Cut(word, ":")
		isKind := word != "*" && slices.ContainsFunc(slices.Collect(maps.Keys(setting.Kinds)),
			func(k setting.Kind) bool { return fits(word, string(k)) })
		switch {
		case isAddress && strings.Trim(kind, "*") == kind && setting.Kinds[setting.Kind(kind)].What == "":
			return e, fmt.Errorf("%q: there is no kind %s", key, kind)
		case isAddress:
			e.address = word
		case isKind:
			e.address = word + ":*"
		case slices.Contains([]string{"off", "ok", "unknown", "not-applicable"}, word):
			e.state = audit.State(word)
		case i == 0:
			e.id = word
		case strings.HasPrefix(word, "*"):
			e.address = word
		default:
			return e, fmt.Errorf("%q: expected ID, state and address", key)
		}
	}
	if !slices.ContainsFunc(knob.Catalogue(), func(k *knob.Knob) bool { return fits(e.id, k.ID) }) {
		return e, fmt.Errorf("%q: there is no knob %s", key, e.id)
	}
	return e, nil
}

func (e expectation) is(id string, a setting.Address) bool {
	return fits(e.id, id) && fits(e.address, a.String())
}

// problems are what is wrong with hosts, by host and check; of each the first.
type problems map[string]string

func (p problems) add(key, format string, args ...any) {
	if _, known := p[key]; !known {
		p[key] = fmt.Sprintf(format, args...)
	}
}

// check compares what is said of a host and planned for it with what its file expects.
func (s *Spec) check(all []verdict, p problems) {
	s.checkPaths(p)
	for _, v := range all {
		if want := cmp.Or(facts.Role(s.Role), facts.RoleHost); v.report.Role != want {
			p.add(s.Name+" role", "found %q, expected %q", v.report.Role, want)
		}
	}
	s.each("says", s.Says, p, func(e expectation, key, why string) {
		for _, v := range all {
			if slices.Contains(s.ownGoals(), v.flags) && !v.says(e) {
				p.add(key, "not said with %q, although %s", v.flags, why)
			}
		}
	})
	s.each("says-not", s.SaysNot, p, func(e expectation, key, why string) {
		for _, v := range all {
			for _, f := range v.report.InState(e.state) {
				if e.is(f.ID, f.Address) {
					p.add(key, "with %q: %s at %s is %s, although %s", v.flags, f.ID, f.Address, f.State, why)
				}
			}
		}
	})
	s.each("plans-not", s.PlansNot, p, func(e expectation, key, why string) {
		for _, v := range all {
			for _, c := range v.plan.Changes {
				if e.is(c.ID, c.Address) {
					p.add(key, "with %q: %s at %s from %s to %s, although %s", v.flags, c.ID, c.Address, c.From, c.To, why)
				}
			}
		}
	})
}

// each calls a function with every expectation of a kind, the key of its problem, and the reason.
func (s *Spec) each(kind string, of map[string]string, p problems, check func(e expectation, key, why string)) {
	for text, why := range of {
		key := s.Name + " " + kind + " " + text
		e, err := parseExpectation(text)
		if err != nil {
			p.add(key, "%v", err)
			continue
		}
		check(e, key, why)
	}
}

// says reports whether a finding is as expected.
func (v *verdict) says(e expectation) bool {
	for _, f := range v.report.InState(e.state) {
		if e.is(f.ID, f.Address) {
			return true
		}
	}
	return false
}

// TestHosts holds every host to what its file expects and to the properties of all hosts, these with one more goal.
func TestHosts(t *testing.T) {
	for i, s := range allHosts(t) {
		t.Run(s.Name, func(t *testing.T) {
			p := problems{}
			all := must.Get(judged(s))(t)
			s.check(all, p)
			m := must.Get(s.Machine())(t)
			one := must.Get(judge(m, moreGoals[i%len(moreGoals)]))(t)
			s.checkProperties(append(slices.Clone(all), one), i, p)
			for _, key := range sorted(p) {
				t.Errorf("%s: %s", key, p[key])
			}
		})
	}
}
