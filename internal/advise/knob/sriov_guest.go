package knob

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/reach"
	"mpps/internal/model/setting"
)

// vfDrivers are the drivers of VFs in guests.
var vfDrivers = []string{"ixgbevf", "iavf", "i40evf", "igbvf"}

// isVF reports whether a NIC is a VF, on the host or in the guest that has it.
func isVF(n *facts.NIC) bool { return n.PhysFn != "" || slices.Contains(vfDrivers, n.Driver) }

var sriovAttach = &Knob{
	ID: "sriov.attach", Title: "How guests are given their virtual functions",
	Stage: datapath.SRIOV, Risk: goal.GuestRestart, After: []string{"sriov.numvfs"}, Tiers: tiers(goal.Passthrough),
	Check: true,
	Where: eachGuest(managed, guestFact("vf-attachment")),
	Want: forGuest(func(v *View, g *facts.Guest, a setting.Address) Advice {
		if g.Definition == "" {
			return Unsure("its definition could not be read")
		}
		if !passthrough(g) {
			return v.judgeUnattached(g)
		}
		byInterface := 0
		for _, i := range g.Interfaces {
			if i.Type == "hostdev" {
				byInterface++
			}
		}
		bare := max(0, len(v.FunctionsOf(g))-byInterface)
		has := fmt.Sprintf("%s by interface, %d by hostdev", Count(byInterface, "function"), bare)
		if bare > 0 {
			return fact(has, exact("interface type='hostdev'",
				"passed as a plain device a function has the MAC and VLAN that somebody left on it").At(Info))
		}
		return fact(has, Fine("libvirt sets MAC and VLAN of its functions at its start"))
	}),
}

// judgeUnattached judges a guest without a VF. If other guests have VFs and the goal names no guest, it may not need
// one: management guests do not.
func (v *View) judgeUnattached(g *facts.Guest) Advice {
	found := "no function; " + Count(len(g.Interfaces), "other interface")
	if v.Goal.Guest == "" && slices.ContainsFunc(v.Guests,
		func(other facts.Guest) bool { return passthrough(&other) }) {
		return fact(found, Fine("other guests have functions: name this one with --guest if the target is its"))
	}
	if !v.makesFunctions() {
		return fact(found, exact("a NIC with SR-IOV", "no NIC of this host makes virtual functions: the host's kernel "+
			"carries its packets").At(High))
	}
	if needs := onWire(v.Goal); !slices.ContainsFunc(v.NICs, func(n facts.NIC) bool {
		return isPF(&n) && (n.Speed <= 0 || needs <= float64(n.Speed))
	}) && len(v.VFs) == 0 {
		return fact(found, exact("a faster NIC with SR-IOV", fmt.Sprintf("the target is %.0f Mb/s on the wire, more "+
			"than any port here with virtual functions carries", needs)).At(High))
	}
	free := 0
	for _, f := range v.VFs {
		if f.Guest == "" && v.userOf(&f) == "" && !slices.ContainsFunc(v.Guests,
			func(other facts.Guest) bool { return slices.Contains(other.Hostdevs, f.PCI) }) {
			free++
		}
	}
	because := fmt.Sprintf("give it a virtual function (%d free here)", free)
	if slices.ContainsFunc(v.paths.Of(g.Name), func(p reach.Path) bool {
		return slices.ContainsFunc(p.Kinds, reach.Kind.Kernel)
	}) {
		because = "its packets go through the host's kernel, which does not carry the target: " + because
	}
	return fact(found, exact("interface type='hostdev'", because).At(High))
}

// makesFunctions reports whether virtual functions can be had: a NIC makes them, or they are there.
func (v *View) makesFunctions() bool {
	return len(v.VFs) > 0 || slices.ContainsFunc(v.NICs, func(n facts.NIC) bool { return isPF(&n) })
}

// standsOn reports whether a guest's macvtap stands on the network device of a VF.
func (v *View) standsOn(nic string) bool {
	return nic != "" && slices.ContainsFunc(v.Taps, func(t facts.Tap) bool { return t.Lower == nic })
}

var sriovGuest = &Knob{
	ID: "sriov.guest", Title: "A guest's virtual function is served by several vCPUs",
	Stage: datapath.SRIOV, Risk: goal.None, Tiers: tiers(goal.Passthrough), Check: true,
	Where: func(h *facts.Host) []setting.Address {
		all := eachGuest(passthrough, guestFact("vf-interrupts"))(h)
		for _, n := range h.NICs {
			if h.Virtual != "" && isVF(&n) {
				all = append(all, setting.Of(setting.Fact, n.Name, "vf-interrupts"))
			}
		}
		return all
	},
	Want: func(v *View, a setting.Address) Advice {
		if n := v.nics[a.Object()]; n != nil && isVF(n) {
			return v.judgeIRQs(n)
		}
		g, advice, ok := v.guest(a)
		if !ok {
			return advice
		}
		if advice, seen := v.judgeInside(g, a); seen {
			return advice
		}
		queues := ""
		for _, f := range v.VFs {
			if pf := v.nics[f.PF]; pf != nil && slices.Contains(g.Hostdevs, f.PCI) && facts.VFQueues(pf.Driver) > 0 {
				queues = fmt.Sprintf(" (%s has %s)", pf.Driver, Count(facts.VFQueues(pf.Driver), "queue")+" a function")
			}
		}
		return Unsure("which vCPUs serve its functions" + queues + " is seen in the guest: run 'mpps audit' there, " +
			"or take a snapshot there")
	},
}

// judgeInside judges the VFs of a guest whose agent shows its inside, by the one that is served worst; found is false
// if none is shown.
func (v *View) judgeInside(g *facts.Guest, a setting.Address) (worst Advice, found bool) {
	if seenInside(g) == nil {
		return Advice{}, false
	}
	in, advice, ok := v.insideOf(a, "which vCPUs serve its functions")
	if !ok {
		return advice, true
	}
	rank := func(a Advice) int {
		switch {
		case a.Found != nil && a.Want != nil && !a.Want.Met(*a.Found):
			return 3
		case a.Unsure != "":
			return 2
		case a.Skip == "":
			return 1
		}
		return 0
	}
	for i := range in.NICs {
		if !isVF(&in.NICs[i]) {
			continue
		}
		if advice := in.judgeIRQs(&in.NICs[i]); !found || rank(advice) > rank(worst) {
			worst, found = advice, true
		}
	}
	return worst, found
}

// judgeIRQs judges which CPUs take the interrupts of a VF's queues, on the machine that uses it.
func (v *View) judgeIRQs(n *facts.NIC) Advice {
	if len(v.Topology.Online) < 2 {
		return Skips("one CPU serves all")
	}
	on := map[int]bool{}
	queues := 0
	for _, irq := range n.IRQs {
		if _, isQueue := QueueOf(irq.On); !isQueue {
			continue
		}
		queues++
		cpus := irq.Effective
		if len(cpus) == 0 {
			cpus = irq.Affinity
		}
		if len(cpus) == 1 {
			on[cpus[0]] = true
		} else {
			on[-1-queues] = true
		}
	}
	switch {
	case queues == 0:
		return Unsure("the interrupts of its queues could not be seen")
	case queues == 1:
		return Skips("it has one queue")
	case len(on) == 1 && !v.runs("irqbalance"):
		return fact("1 CPU", exact("a CPU for each queue",
			fmt.Sprintf("one CPU serves all %d queues, and irqbalance does not run", queues)).At(Medium))
	}
	return fact(Count(len(on), "CPU"), Fine(fmt.Sprintf("%d queues on %s", queues, Count(len(on), "CPU"))))
}

// runs reports whether a service is running.
func (v *View) runs(name string) bool {
	return slices.ContainsFunc(v.Services, func(s facts.Service) bool { return s.Name == name && s.Running })
}

var sriovBridge = &Knob{
	ID: "sriov.bridge", Title: "No Linux bridge on a virtual function",
	Stage: datapath.SRIOV, Risk: goal.Connectivity, Tiers: tiers(goal.Standard, goal.Aggressive, goal.Passthrough),
	Check: true,
	Where: func(h *facts.Host) []setting.Address {
		all := eachGuest(passthrough, guestFact("vf-bridge"))(h)
		for _, n := range h.NICs {
			if isVF(&n) {
				all = append(all, setting.Of(setting.Fact, n.Name, "vf-bridge"))
			}
		}
		return all
	},
	Want: func(v *View, a setting.Address) Advice {
		n := v.nics[a.Object()]
		if n == nil || !isVF(n) {
			if _, advice, ok := v.guest(a); !ok {
				return advice
			}
			return Unsure("whether a bridge stands on its function is seen in the guest: run 'mpps audit' there, or " +
				"take a snapshot there")
		}
		if v.bridges[n.Master] != nil {
			return fact("port of "+n.Master, exact("no port of a bridge",
				"frames of what is behind "+n.Master+" are dropped by the NIC in both directions").At(High))
		}
		return fact("no port of a bridge", Fine("it is the port of no Linux bridge"))
	},
}

var sriovMigrate = &Knob{
	ID: "sriov.migrate", Title: "A guest with a virtual function is not migrated live",
	Stage: datapath.SRIOV, Risk: goal.GuestRestart, Tiers: tiers(goal.Passthrough), Check: true,
	Where: eachGuest(passthrough, guestFact("migration")),
	Want: forGuest(func(v *View, g *facts.Guest, a setting.Address) Advice {
		switch {
		case g.Definition == "":
			return Unsure("its definition could not be read")
		case strings.Contains(g.Definition, "<teaming"):
			return fact("teaming", Fine("its function is paired with a virtio NIC: unplug, migrate, plug"))
		}
		return fact("not migratable live",
			exact("a teaming pair, or detach before", fmt.Sprintf("%s cannot be moved: detach, migrate, attach "+
				"('mpps sriov migrate-plan')", Count(len(g.Hostdevs), "passed-through function"))).At(Info))
	}),
}
