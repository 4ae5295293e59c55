package knob

import (
	"fmt"
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/placement"
	"mpps/internal/setting"
)

var nicNUMA = &Knob{
	ID: "nic.numa", Title: "Guests sit on their NIC's node", Stage: datapath.NIC, Risk: goal.None, Check: true,
	Tiers: pinned(),
	Doc: Doc{
		Want: "the guest's vCPUs, emulator and vhost threads on the node of its NIC",
		Why: "A packet is written by the NIC, read by the interrupt's CPU, copied by vhost, read by the vCPU. Each of these that sits on another NUMA node than the NIC " +
			"reads it over the link between the nodes: some 50–100 ns for each cache line.",
		Cost:   "All load of a NIC on one node; the other node's CPUs are for what does not use it.",
		Verify: "/sys/class/net/DEV/device/numa_node against the nodes of the guest's CPUs (virsh vcpupin, numastat -p).",
		Traps: []string{
			"numa_node −1 means that the firmware did not tell, not node 0. A virtio NIC's node is that of the PCI device above it.",
			"A bond with legs on two nodes has no node of its own.",
			"Keeping vhost on the far node's whole cores can still be better than on the sibling threads of the guest's own cores: the founding measurement did so.",
		},
		Sources: []Source{
			{"−1 is NUMA_NO_NODE", "drivers/base/core.c, dev_to_node; include/linux/numa.h"},
			{"vhost on the other socket at 1.8 Mpps", "founding measurements"},
		},
	},
	Where: eachGuest(anyGuest, guestFact("node")),
	Want: func(v *View, a setting.Address) Advice {
		g, advice, ok := v.guest(a)
		if !ok {
			return advice
		}
		if len(v.Topology.Nodes) < 2 {
			return Skips("the host has one NUMA node")
		}
		nodes := setting.CPUSet{}
		var names []string
		for _, i := range g.Interfaces {
			if !placement.Tapped(i) {
				continue
			}
			for _, name := range v.paths.Behind(i) {
				if n := v.nics[name]; n != nil && n.Node >= 0 {
					nodes = nodes.Or(setting.CPUs(n.Node))
					names = append(names, name)
				}
			}
		}
		if len(nodes) == 0 {
			return Skips("no NIC behind its bridges tells its node")
		}
		vcpus, emulator := v.nodesOf(pins(g)), v.nodesOf(g.EmulatorPin)
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
		if len(vcpus.Minus(nodes)) == 0 {
			if len(emulator) == 0 || len(emulator.Minus(nodes)) == 0 {
				advice = Fine(because + ", and so is the guest")
				return seen(found, advice)
			}
			severity = Info
			wanted += fmt.Sprintf(", emulator and vhost on node %s", nodes)
			because += "; vhost on another node reads every packet over the link, but on this node it would have to share cores with the vCPUs: odd, not wrong"
		}
		advice = Wants(setting.Exact(wanted), because).At(severity)
		return seen(found, advice)
	},
}

// used are the pins of the vCPUs that a guest has now; a definition may pin those that can be plugged too.
func used(g *facts.Guest) []setting.CPUSet { return g.Pins[:min(len(g.Pins), max(0, g.VCPUs))] }

// pins are all CPUs that a guest's vCPUs are pinned to.
func pins(g *facts.Guest) setting.CPUSet {
	var all setting.CPUSet
	for _, p := range used(g) {
		all = append(all, p...)
	}
	return setting.CPUs(all...)
}

// nodesOf are the nodes of CPUs.
func (v *View) nodesOf(cpus setting.CPUSet) setting.CPUSet {
	var nodes []int
	for _, c := range v.Topology.CPUs {
		if cpus.Has(c.ID) && c.Node >= 0 {
			nodes = append(nodes, c.Node)
		}
	}
	return setting.CPUs(nodes...)
}
