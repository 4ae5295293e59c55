package realtime

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// setups is the number of generated hosts.
const setups = 200

// TestConsistent: a host without a planted contradiction has no findings, nothing unjudged, and its quiet CPUs are
// found without being named.
func TestConsistent(t *testing.T) {
	for seed := range uint64(setups) {
		s := newScene(seed)
		h := s.facts()
		found := FindScope(h, nil, "")
		must.Need(t, found.CPUs.Equal(s.quiet),
			"host %d: expected CPUs %s, found %s (%s)", seed, s.quiet, found.CPUs, found.From)
		r := Check(h, h.Observed, found)
		if r.State != Consistent || len(r.Findings) > 0 || len(r.Unjudged) > 0 {
			t.Fatalf("host %d, CPUs %s: %s\n%s%v", seed, s.quiet, r.Verdict, findingLines(r), r.Unjudged)
		}
		for _, ran := range r.Ran {
			must.Hold(t, ran.Expected, "host %d: %+v is not expected", seed, ran)
		}
	}
}

// TestPlanted: one to three contradictions in each of 200 hosts are found, with the right kind and object. Every kind
// is planted at least once.
func TestPlanted(t *testing.T) {
	planted := map[string]int{}
	for seed := range uint64(setups) {
		s := newScene(seed)
		type wish struct {
			kind   *Kind
			object string
		}
		var wishes []wish
		want := 1 + int(seed%3)
		order := []int{}
		for i := range kinds { // each kind has its turn as the first
			order = append(order, (int(seed)+i)%len(kinds))
		}
		tail := order[1:]
		s.r.Shuffle(len(tail), func(i, j int) { tail[i], tail[j] = tail[j], tail[i] })
		for _, i := range order {
			if len(wishes) == want {
				break
			}
			if whole[kinds[i]] && len(wishes) > 0 {
				continue
			}
			if object := plants[kinds[i]](s); object != "" {
				wishes = append(wishes, wish{kinds[i], object})
				planted[kinds[i].ID]++
			}
			if whole[kinds[i]] && len(wishes) > 0 {
				break
			}
		}
		quiet := s.quiet
		h := s.facts()
		r := Check(h, h.Observed, FindScope(h, quiet, ""))
		for _, w := range wishes {
			if !slices.ContainsFunc(r.Findings, func(f Finding) bool {
				return f.ID == w.kind.ID && f.Object == w.object
			}) {
				t.Errorf("host %d, CPUs %s: planted %s of %q, found\n%s", seed, quiet, w.kind.ID, w.object,
					findingLines(r))
			}
		}
		for _, f := range r.Findings {
			must.Hold(t, f.Found != "" && f.Why != "" && f.Do != "" && f.Severity != 0 &&
				!strings.Contains(f.Found+f.Do, "%!"), "host %d: a finding that does not say enough: %+v", seed, f)
		}
		if again := Check(h, h.Observed, FindScope(h, quiet, "")); !reflect.DeepEqual(again, r) {
			t.Fatalf("host %d: two checks of the same differ", seed)
		}
	}
	for _, k := range kinds {
		must.Hold(t, planted[k.ID] != 0, "%s was planted nowhere", k.ID)
	}
}

// whole are contradictions that change which CPUs should be quiet: they are planted alone.
var whole = map[*Kind]bool{houseNone: true, houseCore: true, houseNode: true, listsSibling: true}

// findingLines is the findings of a report, one per line.
func findingLines(r *Report) string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "  %s %s %q: %s\n", f.Severity, f.ID, f.Object, f.Found)
	}
	return b.String()
}

// TestKinds: IDs begin with their family and are unique; each kind has a contradiction to plant.
func TestKinds(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range kinds {
		must.Hold(t, !seen[k.ID], "%s stands twice", k.ID)
		if seen[k.ID] = true; plants[k] == nil {
			t.Errorf("%s: nothing plants it", k.ID)
		}
		if k.Knob != "" {
			if knob.Find(k.Knob) == nil {
				t.Errorf("%s: there is no knob %s, but %v", k.ID, k.Knob, knob.Near(k.Knob))
			}
		}
		must.Hold(t, strings.Contains(k.ID, ".") && k.Title != "" && k.Why != "" && k.Severity != 0 && k.Family != "",
			"%s says too little", k.ID)
	}
	must.Hold(t, len(plants) == len(kinds) && len(documented) == len(kinds),
		"%d kinds, %d documented, %d contradictions", len(kinds), len(documented), len(plants))
}

func TestNothingIsolated(t *testing.T) {
	h := &facts.Host{Topology: facts.Topology{Online: setting.CPUs(0, 1)}}
	if r := Check(h, nil, FindScope(h, nil, "")); r.State != NotIsolated || len(r.Findings) > 0 {
		t.Errorf("%+v", r)
	}
}

// TestUnknown: a value that could not be read is reported as unjudged, not as a finding.
func TestUnknown(t *testing.T) {
	for seed := range uint64(20) {
		s := newScene(seed)
		h := s.facts()
		scope := FindScope(h, nil, "")
		h.Readings = facts.Readings{}
		h.Isolation = nil
		for i := range h.Guests {
			h.Guests[i].Threads = nil
		}
		r := Check(h, nil, scope)
		if len(r.Findings) > 0 {
			t.Errorf("host %d: findings of what was not read:\n%s", seed, findingLines(r))
		}
		for _, what := range []string{"control groups", "what runs on the CPUs", "irq-cpus:default",
			"sysfs-cpus:devices/virtual/workqueue/cpumask", "what the next boot gets as isolcpus, nohz_full, " +
				"rcu_nocbs, irqaffinity"} {
			must.Hold(t, slices.ContainsFunc(r.Unjudged, func(u Unjudged) bool { return u.What == what }),
				"host %d: %q is not among what could not be judged: %v", seed, what, r.Unjudged)
		}
	}
}

func TestKernelList(t *testing.T) {
	top := &facts.Topology{CPUs: make([]facts.CPU, 8)}
	for i := range top.CPUs {
		top.CPUs[i].ID = i
	}
	for text, want := range map[string]string{"2-3": "2-3", "all": "0-7", "4-N": "4-7", "N": "7", "0-7:1/2": "0,2,4,6",
		"1,0-7:2/4": "0-1,4-5", "": "", "x": "", "3-1": "", "0-7:0/2": "", "0-7:1": ""} {
		set, err := kernelList(text, top)
		if want == "" && err == nil || want != "" && (err != nil || set.String() != want) {
			t.Errorf("%q: expected %q, found %q, %v", text, want, set, err)
		}
	}
}
