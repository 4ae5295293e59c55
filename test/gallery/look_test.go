package gallery

import (
	"slices"
	"sync"
	"testing"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// look is what the tests of all hosts keep of one. Its verdicts are not kept: those of all hosts take 1.3 GiB, and each
// collection of garbage a second of the CPU time that an audit is held to.
type look struct {
	problems problems
	has      map[string]bool // what the properties of all hosts are about
	row      string          // of the table in docs/hosts.md
}

// looks are those of the hosts that were looked at, by name.
var looks = struct {
	sync.Mutex
	of map[string]look
}{of: map[string]look{}}

// lookAt looks at a host once: number is its place among all.
func lookAt(t *testing.T, s *Spec, number int) look {
	t.Helper()
	looks.Lock()
	defer looks.Unlock()
	l, found := looks.of[s.Name]
	if found {
		return l
	}
	all, err := judged(s)
	must.Need(t, err == nil, "%s: %v", s.Name, err)
	l = look{problems: problems{}, has: cases(s, all)}
	s.check(all, l.problems)
	m := must.Get(s.Machine())(t)
	one, err := judge(m, moreGoals[number%len(moreGoals)])
	must.Do(t, err)
	s.checkProperties(append(slices.Clone(all), one), number, l.problems)
	if l.row, err = s.row(all); err != nil {
		t.Fatal(err)
	}
	looks.of[s.Name] = l
	return l
}

// cases says what of that which the properties of all hosts are about a host has.
func cases(s *Spec, all []verdict) map[string]bool {
	has := map[string]bool{"tuned by a guide": s.Guide != ""}
	for _, v := range all {
		for _, p := range v.paths {
			declined := p.Active && !p.Judged()
			has["a path that is not judged"] = has["a path that is not judged"] || declined
			has["such a path of a NIC"] = has["such a path of a NIC"] || declined && len(p.NICs) > 0
		}
		for _, c := range v.plan.Changes {
			has["a plan with changes"] = true
			switch c.Address.Kind {
			case setting.ThreadAffinity, setting.DomainLive:
				has["threads that move"] = true
			case setting.IRQAffinity:
				has["interrupts that move"] = true
			}
		}
		has["refused guests"] = has["refused guests"] || v.report.Place != nil && len(v.report.Place.Refused) > 0
		has["polling processes"] = has["polling processes"] || len(v.polled) > 0
	}
	return has
}
