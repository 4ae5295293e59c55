package knob

import "mpps/internal/setting"

// quiet are the CPUs that nothing but a guest's vCPUs should use: those that were isolated at boot and those that the user
// named, else those that the placement gives to the vCPUs of the guests that the goal is for.
func (v *View) quiet() setting.CPUSet {
	if set := v.Topology.Isolated.Or(v.Topology.NohzFull).Or(v.Goal.CPUs); len(set) > 0 {
		return set
	}
	var set setting.CPUSet
	for _, g := range v.Placement().Guests {
		if v.Goal.ForGuest(g.Name) {
			set = set.Or(g.VCPUSet())
		}
	}
	return set
}

// split is the CPUs of guests and of the host, or why nothing can be said because one of them has none.
func (v *View) split() (quiet, loud setting.CPUSet, advice Advice, ok bool) {
	quiet = v.quiet()
	loud = v.Topology.Online.Minus(quiet)
	switch {
	case len(quiet) == 0:
		return nil, nil, Unsure("no CPU is isolated, and none is a guest's alone: isolate some (isolcpus=), or name them with --cpus"), false
	case len(loud) == 0:
		return nil, nil, Unsure("no CPU is left for the host, or the CPUs that are online are not known"), false
	}
	return quiet, loud, Advice{}, true
}

// inGuest tells whether the host that is looked at is a virtual machine itself.
func (v *View) inGuest() bool { return v.Virtual != "" }

// avoids tells whether a value is a set of CPUs that has none of these.
func (v *View) avoids(a setting.Address, cpus setting.CPUSet) bool {
	r := v.Readings.At(a)
	set, err := setting.ParseCPUs(r.Value)
	return r.State == setting.Known && err == nil && len(set.And(cpus)) == 0
}
