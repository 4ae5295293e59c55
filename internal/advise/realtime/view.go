package realtime

import (
	"fmt"
	"slices"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// view is what the rules look at, and where they put what they find.
type view struct {
	h      *facts.Host
	o      *facts.Observation // nil: nobody watched
	s      Scope
	house  setting.CPUSet // online CPUs that are not in the scope
	guests []*guest
	irqs   []facts.IRQ // of devices, by number

	found    []Finding
	unjudged []Unjudged
}

// leastSeconds is how long CPUs must be watched so that a rate means something: an interrupt in a millisecond is not a
// thousand a second.
const leastSeconds = 0.1

func newView(h *facts.Host, o *facts.Observation, s Scope) *view {
	short := o != nil && o.Seconds < leastSeconds
	if short {
		o = nil
	}
	v := &view{h: h, o: o, s: s, house: h.Topology.Online.Minus(s.CPUs), guests: definitions(h), irqs: interruptsOf(h)}
	if short {
		v.unsure("what ran on "+named(s.CPUs), fmt.Sprintf("it was watched for less than %.1f s", leastSeconds))
	}
	elsewhere := h.Topology.Isolated.Minus(s.CPUs)
	for _, g := range v.guests {
		claims := g.claims()
		g.realtime = g.f.Name == s.Guest || len(claims.And(s.CPUs)) > 0 && (s.Guest == "" || g.scheduled()) ||
			s.Guest == "" && g.astray(elsewhere)
	}
	return v
}

// astray reports whether a guest wants quiet CPUs, by its vCPUs' priorities, and does not have all of them among those
// that are set aside for others.
func (g *guest) astray(elsewhere setting.CPUSet) bool {
	if !g.scheduled() {
		return false
	}
	return slices.ContainsFunc(g.quiet(), func(c vcpu) bool {
		return len(c.pin) == 0 ||
			len(c.pin.Minus(elsewhere)) > 0
	})
}

// add adds a finding of a kind. Found is a sentence with its numbers, do what mends it.
func (v *view) add(k *Kind, object string, cpus setting.CPUSet, found, do string) *Finding {
	v.found = append(v.found, Finding{
		ID: k.ID, Object: object, CPUs: slices.Clone(cpus), Severity: k.Severity, Found: found,
		Numbers: map[string]float64{},
		Why:     k.Why, Do: do, Knob: k.Knob, Mendable: true,
	})
	return &v.found[len(v.found)-1]
}

// at makes a finding as severe as is said.
func (f *Finding) at(s knob.Severity) *Finding {
	f.Severity = s
	return f
}

// with adds a number.
func (f *Finding) with(name string, n float64) *Finding {
	f.Numbers[name] = n
	return f
}

// hopeless says that nothing mends it, and why.
func (f *Finding) hopeless(why string) *Finding {
	f.Do, f.Knob, f.Mendable = why, "", false
	return f
}

// unsure says what could not be judged; the same thing once.
func (v *view) unsure(what, why string) {
	u := Unjudged{what, why}
	if !slices.Contains(v.unjudged, u) {
		v.unjudged = append(v.unjudged, u)
	}
}

// set is the CPUs at an address that holds a list. It is not ok where the value is absent or could not be told: the
// second is said.
func (v *view) set(a setting.Address) (setting.CPUSet, bool) {
	r := v.h.Readings.At(a)
	switch r.State {
	case setting.Unknown:
		v.unsure(a.String(), r.Why)
		return nil, false
	case setting.Absent:
		return nil, false
	}
	set, err := setting.ParseCPUs(r.Value)
	if err != nil {
		v.unsure(a.String(), err.Error())
		return nil, false
	}
	return set, true
}

// node is the NUMA node of a CPU; −1 where it is not known.
func (v *view) node(cpu int) int {
	if c, found := v.h.Topology.CPU(cpu); found {
		return c.Node
	}
	return -1
}

// nodes are the NUMA nodes of CPUs.
func (v *view) nodes(cpus setting.CPUSet) setting.CPUSet {
	var all []int
	for _, cpu := range cpus {
		if n := v.node(cpu); n >= 0 {
			all = append(all, n)
		}
	}
	return setting.CPUs(all...)
}

// away is where work goes that must not be on the CPUs, as a list for a command.
func (v *view) away() string {
	if len(v.house) == 0 {
		return "CPUS"
	}
	return v.house.String()
}

// awayMask is the same as a mask.
func (v *view) awayMask() string {
	if len(v.house) == 0 {
		return "MASK"
	}
	return v.house.Mask()
}

func cpuObject(cpu int) string { return fmt.Sprintf("cpu %d", cpu) }

func percent(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return 100 * part / whole
}
