package gallery

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// host returns the host of a name, with another file's keys laid over it.
func host(t *testing.T, name string) *Spec {
	t.Helper()
	all := allHosts(t)
	i := slices.IndexFunc(all, func(s *Spec) bool { return s.Name == name })
	must.Need(t, i >= 0, "no host %s", name)
	s := *all[i]
	return &s
}

// TestChecksCanFail: an expectation that does not hold is a problem, each kind of its own.
func TestChecksCanFail(t *testing.T) {
	s := host(t, "intel-bridge")
	all := must.Get(judged(s))(t)
	s.Role, s.Paths, s.Guide = "idle", []string{"routed"}, "none"
	s.Says = map[string]string{"domain.queues ok": "it is off", "domain.queus": "there is no such knob"}
	s.SaysNot = map[string]string{"domain.queues off *:web1/*": "it is off"}
	s.PlansNot = map[string]string{"domain *:web1/*": "it is planned"}
	p := problems{}
	s.check(all, p)
	for _, v := range all {
		s.checkGuide(v, p)
	}
	for _, key := range []string{"role", "paths", "says domain.queues ok", "says domain.queus",
		"says-not domain.queues off *:web1/*", "plans-not domain *:web1/*", "guide domain.vcpupin"} {
		if p["intel-bridge "+key] == "" {
			t.Errorf("no problem %q among %q", key, slices.Sorted(maps.Keys(p)))
		}
	}
}

// TestBreaches: a vCPU moved to the sibling of another one, and a vhost thread onto a vCPU's CPU, break rules.
func TestBreaches(t *testing.T) {
	m := must.Get(host(t, "tuned-well").Machine())(t)
	before := breaches(m.Host, nil, threads(m.Host))
	g := &m.Guests[0]
	for i := range g.Threads {
		switch th := &g.Threads[i]; {
		case th.Role == "vcpu" && th.Index == 0:
			th.Affinity = []int{34} // sibling of vCPU 1's
		case th.Role == "vhost" && th.Queue == 0:
			th.Affinity = []int{3}
		}
	}
	after := breaches(m.Host, nil, threads(m.Host))
	for rule, more := range map[string]int{"vcpu on core, fw": 2, "vhost on CPU, fw": 1} {
		must.Hold(t, after[rule]-before[rule] == more,
			"%s: %d, then %d; expected %d more", rule, before[rule], after[rule], more)
	}
}

// TestSnapshots: the hosts are snapshots that mpps reads.
func TestSnapshots(t *testing.T) {
	for _, s := range allHosts(t) {
		m, err := s.build()
		if err != nil {
			t.Errorf("%s: %v", s.Name, err)
			continue
		}
		var text bytes.Buffer
		if err := facts.Write(&text, m.Host, "test"); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		if _, err := facts.ReadSnapshot(&text); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
	}
}

// TestReadings: a host that can be read has a value for every address that the catalogue asks for.
func TestReadings(t *testing.T) {
	missing := map[string]string{}
	for _, s := range allHosts(t) {
		m, err := s.Machine()
		if err != nil {
			t.Errorf("%s: %v", s.Name, err)
			continue
		}
		for a, r := range m.Readings {
			if r.Why == noValue && missing[a.String()] == "" {
				missing[a.String()] = s.Name
			}
		}
	}
	for _, a := range slices.Sorted(maps.Keys(missing)) {
		t.Errorf("%s of %s has no value: bases/linux.yaml has the defaults", a, missing[a])
	}
}

func TestFits(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"a*c", "abbc", true}, {"a*c", "ac", true}, {"a*c", "acb", false}, {"*", "", true}, {"*b*", "abc", true},
		{"ab", "abc", false}, {"", "", true}, {"*x", "abc", false}, {"a*", strings.Repeat("a", 50), true},
	} {
		must.Equal(t, fits(c.pattern, c.text), c.want, "%q fits %q", c.text, c.pattern)
	}
}
