package knob

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/advise/placement"
	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

var nicNUMA = &Knob{
	ID: "nic.numa", Title: "Guests sit on their NIC's node",
	Stage: datapath.NIC, Risk: goal.None, Tiers: pinned(), Check: true,
	Where: eachGuest(anyGuest, guestFact("node")),
	Want: forGuest(func(v *View, g *facts.Guest, a setting.Address) Advice {
		if len(v.Topology.Nodes) < 2 {
			return Skips("the host has one NUMA node")
		}
		names, nodes := v.dataNICs(g)
		if len(nodes) == 0 {
			return Skips("no NIC that carries its packets tells its node")
		}
		vcpus, emulator := v.nodesOf(pinnedCPUs(g)), v.nodesOf(g.EmulatorPin)
		if len(vcpus) == 0 {
			return Unsure("its vCPUs are pinned nowhere: they run on any node")
		}
		found := fmt.Sprintf("vCPUs on node %s", vcpus)
		if len(emulator) > 0 {
			found += fmt.Sprintf(", emulator and vhost on node %s", emulator)
		}
		wanted := fmt.Sprintf("vCPUs on node %s", nodes)
		severity := High
		because := fmt.Sprintf("its NIC (%s) is on node %s", strings.Join(names, ", "), nodes)
		if room := v.cpusOf(nodes); len(vcpus.And(nodes)) > 0 && len(pinnedCPUs(g)) > len(room) {
			return fact(found, Fine(fmt.Sprintf("%s, whose %s are too few for its %s", because, Count(len(room), "CPU"),
				Count(g.VCPUs, "vCPU"))))
		}
		if len(v.Topology.Online) > 0 && len(v.cpusOf(nodes)) == 0 {
			return fact(found, Fine(because+", which has no CPU online"))
		}
		if len(vcpus.Minus(nodes)) == 0 {
			if len(emulator) == 0 || len(emulator.Minus(nodes)) == 0 {
				return fact(found, Fine(because+", and so is the guest"))
			}
			severity = Info
			wanted += fmt.Sprintf(", emulator and vhost on node %s", nodes)
			because += "; vhost on another node reads every packet over the link, but on this node it would have to " +
				"share cores with the vCPUs: odd, not wrong"
		}
		if severity == High && len(v.socketsOf(vcpus).Minus(v.socketsOf(nodes))) == 0 {
			severity = Low
			because += ", on the same socket, where the way is short"
		}
		return fact(found, exact(wanted, because).At(severity))
	}),
}

// dataNICs returns the NICs whose node is known behind a guest's NICs that carry the target, without repeats, and their
// nodes. Those of its virtual functions are the physical functions.
func (v *View) dataNICs(g *facts.Guest) (names []string, nodes setting.CPUSet) {
	ask := v.ask()
	for _, i := range g.Interfaces {
		if placement.Tapped(i) && ask.Aside(g.Name, i.MAC) == "" {
			names = append(names, v.paths.Behind(i)...)
		}
	}
	for _, f := range v.FunctionsOf(g) {
		names = append(names, f.PF)
	}
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(name string) bool {
		n := v.nics[name]
		return n == nil || n.Node < 0
	})
	for _, name := range names {
		nodes = nodes.Or(setting.CPUs(v.nics[name].Node))
	}
	return names, nodes
}

// socketsOf returns the sockets of the CPUs of some nodes.
func (v *View) socketsOf(nodes setting.CPUSet) setting.CPUSet {
	var sockets []int
	for _, c := range v.Topology.CPUs {
		if nodes.Has(c.Node) {
			sockets = append(sockets, c.Package)
		}
	}
	return setting.CPUs(sockets...)
}

// pinnedCPUs returns all CPUs that a guest's vCPUs are pinned to.
func pinnedCPUs(g *facts.Guest) setting.CPUSet {
	var all setting.CPUSet
	for _, p := range g.VCPUPins() {
		all = append(all, p...)
	}
	return setting.CPUs(all...)
}

// nodesOf returns the NUMA nodes of CPUs.
func (v *View) nodesOf(cpus setting.CPUSet) setting.CPUSet {
	var nodes []int
	for _, c := range v.Topology.CPUs {
		if cpus.Has(c.ID) && c.Node >= 0 {
			nodes = append(nodes, c.Node)
		}
	}
	return setting.CPUs(nodes...)
}

// cpusOf returns the online CPUs of some nodes.
func (v *View) cpusOf(nodes setting.CPUSet) setting.CPUSet {
	var cpus []int
	for _, c := range v.Topology.CPUs {
		if c.Online && nodes.Has(c.Node) {
			cpus = append(cpus, c.ID)
		}
	}
	return setting.CPUs(cpus...)
}
