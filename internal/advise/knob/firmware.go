package knob

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/datapath"
	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// firmware makes a check of the firmware setup. mpps never writes that.
func firmware(k Knob) *Knob {
	k.Stage, k.Risk, k.Check = datapath.Firmware, goal.Reboot, true
	if k.Tiers == nil {
		k.Tiers = tiers(goal.Aggressive, goal.Passthrough, goal.Realtime)
	}
	if k.Where == nil {
		k.Where = fixed(hostFact(strings.TrimPrefix(k.ID, "firmware.")))
	}
	return &k
}

var firmwareSMT = firmware(Knob{
	ID: "firmware.smt", Title: "Simultaneous multithreading",
	Where: fixed(setting.Of(setting.Sysfs, "devices/system/cpu/smt/control")),
	Want: onMetal(func(v *View, a setting.Address) Advice {
		if v.Topology.CPUs != nil && v.siblings() == "none" {
			return Fine("no core has a second thread online")
		}
		if v.Tier == goal.Realtime {
			return Wants(setting.Any("off", "forceoff", "notsupported", "notimplemented"),
				"what runs on a sibling thread delays the guest's wake-ups; siblings: "+v.siblings())
		}
		return Fine("on is right for mixed load; no two vCPUs of a guest on one core; siblings: " + v.siblings())
	}),
})

// siblings lists the threads of each core, at most 16 cores.
func (v *View) siblings() string {
	var all []string
	seen := map[string]bool{}
	for _, c := range v.Topology.CPUs {
		if text := c.Siblings.String(); len(c.Siblings) > 1 && !seen[text] {
			seen[text] = true
			all = append(all, "("+text+")")
		}
	}
	switch {
	case len(all) == 0:
		return "none"
	case len(all) > 16:
		return strings.Join(all[:16], " ") + fmt.Sprintf(" and %d more cores", len(all)-16)
	}
	return strings.Join(all, " ")
}

var firmwareNUMA = firmware(Knob{
	ID: "firmware.numa_per_socket", Title: "NUMA nodes of each socket", Limit: onAMD,
	Tiers: tiers(goal.Standard, goal.Aggressive, goal.Passthrough, goal.Realtime),
	Want: onMetal(func(v *View, a setting.Address) Advice {
		c := v.socketCounts()
		switch {
		case c.Packages == 0 || c.NUMANodes == 0:
			return Unsure("the number of sockets and nodes is not known")
		case c.NUMANodes%c.Packages != 0 && c.Packages%c.NUMANodes != 0:
			return Unsure(fmt.Sprintf("%s for %s: the numbers do not fit, perhaps because not all CPUs are shown here",
				Count(c.NUMANodes, "node"), Count(c.Packages, "socket")))
		}
		found := fmt.Sprintf("%s for %s, %s in each; distances %s", Count(c.NUMANodes, "node"),
			Count(c.Packages, "socket"), Count(c.L3Caches/c.Packages, "L3 cache"), v.distances())
		switch {
		case c.NUMANodes < c.Packages && v.numaOff() != "":
			return Unsure(v.numaOff() + " hides the nodes (firmware.numa_optimized)")
		case c.NUMANodes < c.Packages:
			return fact(found, exact("a node a socket or more",
				"one node over several sockets: half of all accesses go to the other socket").At(High))
		case c.NUMANodes == c.Packages:
			return fact(found, Fine("a node a socket is the default, and right for guests of any size. More of them "+
				"bring memory nearer to guests that fit into one: measure before"))
		}
		if v.Topology.Zen() == 1 {
			return fact(found, Fine("the dies of these sockets are nodes by nature"))
		}
		return fact(found, v.splitSockets())
	}),
})

// splitSockets is advice on sockets of several nodes: they suit guests that fit into one.
func (v *View) splitSockets() Advice {
	var span []string
	for i := range v.Guests {
		if g := &v.Guests[i]; g.Active() && v.Goal.ForGuest(g.Name) && v.spansNodes(g) {
			span = append(span, g.Name)
		}
	}
	if len(span) > 0 {
		return exact("a node a socket", fmt.Sprintf("no node has room for all vCPUs or all memory of %s, which then "+
			"reach over the socket to memory that is interleaved over a part of its channels",
			strings.Join(span[:min(4, len(span))], ", "))).At(Low)
	}
	return Fine("every guest that runs fits into a node")
}

// numaOff returns the running kernel argument that makes one node of the whole host, "" if none does.
func (v *View) numaOff() string {
	for _, value := range []string{"off", "noacpi"} {
		if given, _ := v.runningArgument("numa"); given == value {
			return "numa=" + value
		}
	}
	return ""
}

// socketCounts returns the counts of the topology with nodes that have CPUs only: nodes of memory alone, such as CXL's,
// belong to no socket.
func (v *View) socketCounts() facts.Counts {
	c := v.Topology.Counts
	for _, n := range v.Topology.Nodes {
		if len(n.CPUs) == 0 && c.NUMANodes > 1 {
			c.NUMANodes--
		}
	}
	return c
}

// spansNodes reports whether a guest is known to be larger than each node, and is not shown nodes of its own.
func (v *View) spansNodes(g *facts.Guest) bool {
	if cells, err := domain.CellsOf(g.Definition); err != nil || len(cells) > 1 {
		return false
	}
	return len(v.Topology.Nodes) > 0 && !slices.ContainsFunc(v.Topology.Nodes, func(n facts.Node) bool {
		return len(n.CPUs) >= g.VCPUs && (n.Memory == 0 || n.Memory >= g.Memory)
	})
}

// distances returns the NUMA distances, a row for each node.
func (v *View) distances() string {
	var rows []string
	for _, n := range v.Topology.Nodes[:min(len(v.Topology.Nodes), 8)] {
		rows = append(rows, strings.Trim(fmt.Sprint(n.Distances), "[]"))
	}
	return strings.Join(rows, " / ")
}

var firmwareEnergy = firmware(Knob{
	ID: "firmware.energy_performance", Title: "Energy policy is performance", Limit: onX86,
	Tiers: tiers(goal.Standard, goal.Aggressive, goal.Passthrough, goal.Realtime),
	Want: onMetal(func(v *View, a setting.Address) Advice {
		const because = "the clock falls between bursts of packets"
		for _, cpus := range []map[string]int{v.Power.Preferences, v.Power.Governors} {
			if len(cpus) > 0 {
				return fact(tally(cpus), Fine("the kernel decides (cpu.governor, cpu.epp), not the firmware"))
			}
		}
		return v.fromAttestation("firmware.energy_performance", because, Medium)
	}),
})

// tally says how many CPUs have which value: "performance on 40 CPUs".
func tally(values map[string]int) string {
	var parts []string
	for value, cpus := range values {
		parts = append(parts, fmt.Sprintf("%s on %s", value, Count(cpus, "CPU")))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

var firmwareVTd = firmware(Knob{
	ID: "firmware.vt_d", Title: "IOMMU for guests' devices (VT-d, AMD-Vi, SMMU)", Tiers: tiers(goal.Passthrough),
	Want: func(v *View, a setting.Address) Advice {
		f := v.Firmware
		switch {
		case f.Groups > 0:
			return fact(tableWords(f), Fine("the kernel uses the IOMMU"))
		case f.DMAR || f.IVRS || f.IORT:
			return fact(tableWords(f),
				Fine("the firmware offers an IOMMU; the kernel does not use it yet (boot.iommu)"))
		case !f.Tables:
			return Unsure("the firmware's ACPI tables cannot be seen")
		case v.Architecture() != facts.X86:
			return Unsure("the kernel uses no IOMMU, and what the firmware offers is read on x86_64 alone: IORT and " +
				"device trees are not")
		}
		where := "in the firmware (VT-d, AMD-Vi, SMMU)"
		if v.inGuest() {
			where = "in this virtual machine's own definition, on the host below"
		}
		return fact(tableWords(f), exact("DMAR, IVRS or IORT table", "without an IOMMU no device can be passed to a "+
			"guest: switch it on "+where).At(Critical))
	},
})

func tableWords(f facts.Firmware) string {
	var parts []string
	for name, there := range map[string]bool{"DMAR table": f.DMAR, "IVRS table": f.IVRS, "IORT table": f.IORT} {
		if there {
			parts = append(parts, name)
		}
	}
	slices.Sort(parts)
	if len(parts) == 0 {
		parts = []string{"no IOMMU table"}
	}
	return strings.Join(append(parts, Count(f.Groups, "IOMMU group")), ", ")
}

var firmwareSRIOV = firmware(Knob{
	ID: "firmware.sriov", Title: "SR-IOV is switched on", Tiers: tiers(goal.Passthrough),
	Want: onMetal(func(v *View, a setting.Address) Advice {
		var can, cannot []string
		for _, n := range v.NICs {
			switch {
			case n.PhysFn != "" || n.Bus != "pci":
			case n.SRIOV != nil && n.SRIOV.Total > 0:
				can = append(can, fmt.Sprintf("%s: %d", n.Name, n.SRIOV.Total))
			default:
				cannot = append(cannot, n.Name)
			}
		}
		switch {
		case len(can) > 0:
			return fact("virtual functions: "+strings.Join(can, ", "), Fine("NICs offer virtual functions"))
		case len(cannot) == 0:
			return Unsure("no physical NIC can be seen")
		}
		return fact("none of "+strings.Join(cannot, ", "),
			exact("a NIC with virtual functions", "no NIC offers virtual functions: SR-IOV is off in the firmware or "+
				"in the NIC's own setup, or the NIC has none").At(Critical))
	}),
})
