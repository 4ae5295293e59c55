package knob

import (
	"fmt"
	"slices"

	"mpps/internal/advise/placement"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// seat returns a guest's place, or the advice that says why its threads get none: on a crowded host also because it
// floats and the goal does not name it. Pinned, it could not move away from the others that float over its CPUs.
func (v *View) seat(g *facts.Guest) (*placement.Placed, Advice) {
	placed := v.Placement().Guest(g.Name)
	switch {
	case g.Migrates():
		return nil, migrating(g)
	case placed == nil:
		return nil, v.unplaced(g.Name)
	}
	if v.crowded() && !pinnedOneByOne(g) {
		return nil, Skips(fmt.Sprintf("%s without a place may run on any CPU: pinned, this guest could not move away "+
			"from them. Name one that needs dedicated CPUs with --guest",
			Count(len(v.Placement().Refused), "guest")))
	}
	return placed, Advice{}
}

// vcpuRoom returns how many CPUs guests' vCPUs can have: all but the host's own and those of poll-mode threads.
func (v *View) vcpuRoom() int {
	return len(v.Topology.Online.Minus(v.ask().Taken)) - len(v.Placement().Housekeeping)
}

// crowded reports whether guests that are not pinned stay so, because others find no place.
func (v *View) crowded() bool {
	ask := v.ask()
	return ask.Crowded(v.Placement())
}

// unplaced says why the placement gives a guest no CPUs.
func (v *View) unplaced(guest string) Advice {
	if left := v.Placement().LeftAlone(guest); left != nil {
		return Skips("it stays on " + left.CPUs.Words() + ": " + left.Why)
	}
	if refused := v.Placement().Refusal(guest); refused != nil {
		return Skips("no place for it: " + refused.Shortage + "; " + refused.Relax)
	}
	return Skips("no place for the guest on this host")
}

// givingWay names in advice the rules of the placement that become worse because of a guest's place.
func (v *View) givingWay(guest string, advice Advice) Advice {
	advice.GivesWay = v.Placement().GivingWay(guest)
	if len(advice.GivesWay) > 0 {
		advice.Risk = goal.Blip
	}
	return advice
}

// floaters returns the active guests whose vCPUs share CPUs, and will: they are pinned one by one neither now nor by
// what is planned for this goal. What a platform would have to set is not planned. Computed at the first call.
func (v *View) floaters() []string {
	if v.loose == nil {
		v.loose = []string{}
		for g := range facts.Each(v.Guests) {
			if !g.Active() || pinnedOneByOne(g) {
				continue
			}
			if placed, _ := v.seat(g); placed == nil || !v.mayPin(g) {
				v.loose = append(v.loose, g.Name)
			}
		}
	}
	return v.loose
}

// mayPin reports whether a plan for this goal may pin a guest's vCPUs: its definition is the host's to change, and the
// goal covers the guest.
func (v *View) mayPin(g *facts.Guest) bool {
	return g.Managed && !g.Rewrites() && v.Goal.ForGuest(g.Name)
}

// allFloat reports whether there are active guests and none has dedicated CPUs, or will have.
func (v *View) allFloat() bool {
	return len(v.floaters()) > 0 && !slices.ContainsFunc(v.Guests, func(g facts.Guest) bool {
		return g.Active() && !slices.Contains(v.floaters(), g.Name)
	})
}

// pinnedOneByOne reports whether a guest's definition pins each of its vCPUs to one CPU, or somebody gave each of its
// threads one.
func pinnedOneByOne(g *facts.Guest) bool {
	bound := 0
	for _, t := range g.Threads {
		if t.Role == "vcpu" && len(t.Affinity) == 1 {
			bound++
		}
	}
	pins := g.VCPUPins()
	single := !slices.ContainsFunc(pins, func(pin setting.CPUSet) bool { return len(pin) != 1 })
	return len(pins) > 0 && single || bound > 0 && bound == g.VCPUs
}

// serving returns the CPUs that may serve a NIC's interrupts, nil if there are none. Guests that float leave no CPU
// idle and have none of their own: beside them, an interrupt may be on any CPU of the NIC's node whose core is not a
// guest's, isolated or polling. Those of a NIC that the goal does not keep busy go first where none of them may run.
func (v *View) serving(nic string) *placement.Serving {
	if s, known := v.served[nic]; known {
		return s
	}
	s := v.Placement().NIC(nic)
	if n, loose := v.nics[nic], v.floaters(); n != nil && len(loose) > 0 {
		open, where := v.openCPUs(), "of any node"
		if node, known := v.Topology.Node(n.Node); known && len(open.And(node.CPUs)) > 0 {
			open, where = open.And(node.CPUs), fmt.Sprintf("of the NIC's node %d", n.Node)
		}
		if s != nil && s.Most > 0 { // its own node may have too few CPUs for busy queues
			if more := setting.CPUs(s.CPUs...).And(v.openCPUs()).Minus(open); len(more) > 0 {
				open, where = open.Or(more), where+", or of another because these are few,"
			}
		}
		if len(open) > 0 {
			all := placement.Serving{Name: nic, CPUs: open, Stay: open, Most: 1, Why: fmt.Sprintf("a CPU %s that is "+
				"no guest's alone: %s not pinned, and may run on any of them", where, isIn(loose))}
			if s != nil {
				all.Most = s.Most // 0: it is not busy, and one CPU serves all of its queues
			}
			if all.Most == 0 && s != nil {
				all.Stay = open.Or(v.offCores(s.Stay))
			}
			if quiet := open.Minus(v.floatingOn()); all.Most == 0 && len(quiet) > 0 {
				all.CPUs = quiet
				all.Why = fmt.Sprintf("a CPU %s that is no guest's alone: %s not pinned, and an interrupt that moves "+
					"goes where none of them may run", where, isIn(loose))
			}
			s = &all
		}
	}
	v.served[nic] = s
	return s
}

// floatingOn returns the CPUs where vCPUs of guests that float may run.
func (v *View) floatingOn() (on setting.CPUSet) {
	for g := range facts.Each(v.ask().Guests) {
		if !slices.Contains(v.floaters(), g.Name) {
			continue
		}
		for vcpu := range min(g.VCPUs, maxVCPUs) {
			if vcpu >= len(g.Masks) || len(g.Masks[vcpu]) == 0 {
				return v.Topology.Online
			}
			on = on.Or(g.Masks[vcpu])
		}
	}
	return on
}

// offCores returns those of some CPUs whose cores have no vCPU of a guest that has a place.
func (v *View) offCores(cpus setting.CPUSet) setting.CPUSet {
	return slices.DeleteFunc(slices.Clone(cpus), func(cpu int) bool {
		c, _ := v.Topology.CPU(cpu)
		return len(c.Siblings.Or(setting.CPUs(cpu)).And(v.vcpuCPUs())) > 0
	})
}

// vhostThen returns where each vhost thread of a placed guest may run once a plan is carried out: one that no plan
// moves by itself is taken along by a pin of the emulator, or stays where it may run today.
func (v *View) vhostThen(p *placement.Placed) (all []setting.CPUSet) {
	g, moves := v.guests[p.Name], slices.Contains(viaKernel(), v.Tier)
	pinned := g != nil && v.mayPin(g) && !p.Emulator.Equal(g.EmulatorPin)
	for _, w := range p.Vhost {
		cpus := w.Stays
		switch {
		case len(w.Stays) == 0 && (moves || g == nil):
			all = append(all, setting.CPUs(w.CPU))
			continue
		case len(w.Stays) == 0:
			cpus = v.vhostNow(g, w)
		}
		if pinned {
			cpus = placement.Within(cpus, p.Emulator)
		}
		all = append(all, cpus)
	}
	return all
}

// vhostNow returns where a vhost thread may run today, or, if there is none yet, where it will begin.
func (v *View) vhostNow(g *facts.Guest, w placement.Vhost) setting.CPUSet {
	t := facts.Find(g.Threads, func(t *facts.Thread) bool {
		return t.Role == "vhost" && t.NIC == w.NIC && t.Queue == w.Queue
	})
	switch {
	case t != nil && len(t.Affinity) > 0:
		return t.Affinity
	case len(g.EmulatorPin) > 0:
		return g.EmulatorPin
	}
	return v.Topology.Online.Minus(v.SetAside())
}

// openCPUs returns the online CPUs on cores that are neither set aside nor those of poll-mode threads, nor have a vCPU
// of a guest that is pinned, or will be; for latency not its vhost threads either.
func (v *View) openCPUs() setting.CPUSet {
	closed := v.SetAside().Or(v.ask().Taken).Or(v.Goal.CPUs)
	ordinary := v.Topology.Online.Minus(v.SetAside())
	for g := range facts.Each(v.Guests) {
		if !g.Active() || slices.Contains(v.floaters(), g.Name) {
			continue
		}
		if seat, _ := v.seat(g); seat == nil || !v.mayPin(g) { // otherwise it leaves these CPUs by the same plan
			closed = closed.Or(pinnedCPUs(g))
			for _, t := range g.Threads {
				if t.Role == "vcpu" && len(t.Affinity) == 1 {
					closed = closed.Or(t.Affinity)
				}
			}
		}
		if placed := v.Placement().Guest(g.Name); placed != nil {
			closed = closed.Or(placed.VCPUSet())
			for _, cpus := range v.vhostThen(placed) {
				if v.Tier == goal.Realtime && len(ordinary.Minus(cpus)) > 0 {
					closed = closed.Or(cpus)
				}
			}
		}
	}
	var open []int
	for _, c := range v.Topology.CPUs {
		if c.Online && len(c.Siblings.And(closed)) == 0 && !closed.Has(c.ID) {
			open = append(open, c.ID)
		}
	}
	return setting.CPUs(open...)
}
