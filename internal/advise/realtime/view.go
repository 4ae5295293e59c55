package realtime

import (
	"cmp"
	"fmt"
	"slices"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// view is the input of the rules and what they found.
type view struct {
	h      *facts.Host
	o      *facts.Observation // nil: none
	s      Scope
	house  setting.CPUSet // online CPUs that are not in the scope
	guests []*guest
	irqs   []facts.IRQ // of devices, by number

	findings []Finding
	unjudged []Unjudged
}

// leastSeconds is the shortest useful observation: one interrupt in a millisecond is not a rate of a thousand a second.
const leastSeconds = 0.1

func newView(h *facts.Host, o *facts.Observation, s Scope) *view {
	short := o != nil && o.Seconds < leastSeconds
	if short {
		o = nil
	}
	v := &view{h: h, o: o, s: s, house: h.Topology.Online.Minus(s.CPUs), guests: definitions(h), irqs: interruptsOf(h)}
	if short {
		v.addUnjudged("what ran on "+s.CPUs.Words(), fmt.Sprintf("it was watched for less than %.1f s", leastSeconds))
	}
	elsewhere := h.Topology.Isolated.Minus(s.CPUs)
	for _, g := range v.guests {
		claims := g.quietCPUs()
		g.realtime = g.f.Name == s.Guest || len(claims.And(s.CPUs)) > 0 && (s.Guest == "" || g.scheduled()) ||
			s.Guest == "" && g.misplaced(elsewhere)
	}
	return v
}

// misplaced reports whether a guest has vCPUs with a realtime priority of which some are not pinned to CPUs that are
// isolated elsewhere.
func (g *guest) misplaced(elsewhere setting.CPUSet) bool {
	return g.scheduled() && slices.ContainsFunc(g.quietVCPUs(), func(c vcpu) bool {
		return len(c.pin) == 0 || len(c.pin.Minus(elsewhere)) > 0
	})
}

// add adds a finding of a kind. found is a sentence with numbers, do is what fixes it.
func (v *view) add(k *Kind, object string, cpus setting.CPUSet, found, do string) *Finding {
	v.findings = append(v.findings, Finding{
		ID: k.ID, Object: object, CPUs: slices.Clone(cpus), Severity: k.Severity, Found: found,
		Numbers: map[string]float64{}, Why: k.Why, Do: do, Knob: k.Knob, Mendable: true,
	})
	return &v.findings[len(v.findings)-1]
}

// addOverlap adds a finding if something that should stay off the quiet CPUs has some of them, and returns nil if not.
// has is the beginning of the sentence: "it may run on".
func (v *view) addOverlap(k *Kind, object, has string, cpus setting.CPUSet, do string) *Finding {
	in := cpus.And(v.s.CPUs)
	if len(in) == 0 {
		return nil
	}
	return v.add(k, object, in, fmt.Sprintf("%s %s, of which %s should be quiet", has, cpus, in), do)
}

// at sets the severity.
func (f *Finding) at(s knob.Severity) *Finding {
	f.Severity = s
	return f
}

// with adds a number.
func (f *Finding) with(name string, n float64) *Finding {
	f.Numbers[name] = n
	return f
}

// withCPUs adds the number of CPUs; f may be nil.
func (f *Finding) withCPUs() *Finding {
	if f == nil {
		return nil
	}
	return f.with("cpus", float64(len(f.CPUs)))
}

// unfixable records why nothing fixes the finding.
func (f *Finding) unfixable(why string) *Finding {
	f.Do, f.Knob, f.Mendable = why, "", false
	return f
}

// addUnjudged adds something that could not be judged, unless it was added before.
func (v *view) addUnjudged(what, why string) {
	u := Unjudged{what, why}
	if !slices.Contains(v.unjudged, u) {
		v.unjudged = append(v.unjudged, u)
	}
}

// cpuSet returns the CPUs in the list at an address, or nothing if it is absent or unknown. It reports an unknown or
// malformed one as unjudged.
func (v *view) cpuSet(a setting.Address) setting.CPUSet {
	set, err := setting.ParseCPUs(v.reading(a))
	if err != nil {
		v.addUnjudged(a.String(), err.Error())
	}
	return set
}

// nodes returns the NUMA nodes of CPUs, as far as they are known.
func (v *view) nodes(cpus setting.CPUSet) (all setting.CPUSet) {
	for _, cpu := range cpus {
		if c, found := v.h.Topology.CPU(cpu); found && c.Node >= 0 {
			all = all.Or(setting.CPUs(c.Node))
		}
	}
	return all
}

// houseList is the CPUs of the host as a list for a command.
func (v *view) houseList() string { return cmp.Or(v.house.String(), "CPUS") }

// houseMask is the CPUs of the host as a mask for a command.
func (v *view) houseMask() string { return words.Either(len(v.house) == 0, "MASK", v.house.Mask()) }

func cpuObject(cpu int) string { return fmt.Sprintf("cpu %d", cpu) }

// percent is part in per cent of whole, or 0 if whole is not positive.
func percent(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return 100 * part / whole
}
