package knob

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/datapath"
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
	Want: func(v *View, a setting.Address) Advice {
		if v.Tier == goal.Realtime {
			return Wants(setting.Any("off", "forceoff", "notsupported", "notimplemented"),
				"what runs on a sibling thread delays the guest's wake-ups; siblings: "+v.siblings())
		}
		return Fine("on is right for mixed load; no two vCPUs of a guest on one core; siblings: " + v.siblings())
	},
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
	ID: "firmware.numa_per_socket", Title: "A node for each memory controller", Limit: onX86,
	Tiers: tiers(goal.Standard, goal.Aggressive, goal.Passthrough, goal.Realtime),
	Want: onMetal(func(v *View, a setting.Address) Advice {
		packages, nodes := v.Topology.Counts.Packages, v.Topology.Counts.NUMANodes
		switch {
		case packages == 0 || nodes == 0:
			return Unsure("the number of sockets and nodes is not known")
		case cpuVendor(v.Host) == "":
			return Unsure("the processors' maker is not known")
		case cpuVendor(v.Host) == Intel:
			return Skips("Intel's sockets are one node each")
		case nodes%packages != 0 && packages%nodes != 0:
			return Unsure(fmt.Sprintf("%s for %s: the numbers do not fit, perhaps because not all CPUs are shown here",
				Count(nodes, "node"), Count(packages, "socket")))
		}
		l3, each := v.Topology.Counts.L3Caches/packages, nodes/packages
		found := fmt.Sprintf("%s for %s, %s in each; distances %s", Count(nodes, "node"), Count(packages, "socket"),
			Count(l3, "L3 cache"), v.distances())
		switch {
		case nodes < packages:
			return fact(found, exact("4 nodes a socket",
				"one node over several sockets: half of all accesses go to the other socket").At(High))
		case l3 < 4 || each >= 4:
			return fact(found, Fine("as many nodes as there are memory controllers to choose from"))
		}
		return fact(found, exact("4 nodes a socket",
			"memory is interleaved over controllers that are far from the NIC and from each other").At(Medium))
	}),
})

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
			if len(cpus) == 0 {
				continue
			}
			advice := Fine("the processors lean to performance")
			if len(cpus) > 1 || cpus["performance"] == 0 {
				advice = exact("performance", because)
			}
			return fact(tally(cpus), advice)
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
	ID: "firmware.vt_d", Title: "IOMMU for guests' devices (VT-d, AMD-Vi)", Tiers: tiers(goal.Passthrough),
	Want: func(v *View, a setting.Address) Advice {
		f := v.Firmware
		switch {
		case f.Groups > 0:
			return fact(tableWords(f), Fine("the kernel uses the IOMMU"))
		case f.DMAR || f.IVRS:
			return fact(tableWords(f),
				Fine("the firmware offers an IOMMU; the kernel does not use it yet (boot.iommu)"))
		case !f.Tables:
			return Unsure("the firmware's ACPI tables cannot be seen")
		case v.Architecture() != facts.X86:
			return Unsure("the kernel uses no IOMMU, and what the firmware offers is read on x86_64 alone: IORT and " +
				"device trees are not")
		}
		return fact(tableWords(f), exact("DMAR or IVRS table", "without an IOMMU no device can be passed to a guest: "+
			"switch VT-d or AMD-Vi on in the firmware").At(Critical))
	},
})

func tableWords(f facts.Firmware) string {
	var parts []string
	for name, there := range map[string]bool{"DMAR table": f.DMAR, "IVRS table": f.IVRS} {
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
	Want: func(v *View, a setting.Address) Advice {
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
	},
})

// attestOnly makes a check of what only a person can see in the firmware setup. Titles are the names that server
// vendors use.
func attestOnly(id, title string) *Knob {
	k := firmware(Knob{ID: id, Title: title, Limit: onX86})
	k.Want = onMetal(func(v *View, a setting.Address) Advice {
		advice := v.fromAttestation(id, "", Low)
		if advice.Want != nil {
			advice.Because = k.Doc().Why
		}
		return advice
	})
	return k
}

var (
	firmwareDeadLine       = attestOnly("firmware.llc_dead_line_alloc", "LLC dead line allocation")
	firmwareStaleAtoS      = attestOnly("firmware.stale_atos", "Stale A to S directory optimization")
	firmwareWrCRC          = attestOnly("firmware.wr_crc", "DDR4 write CRC")
	firmwarePatrol         = attestOnly("firmware.patrol_scrub", "Patrol scrub")
	firmwareDemand         = attestOnly("firmware.demand_scrub", "Demand scrub")
	firmwareRAS            = attestOnly("firmware.ras_mode", "Memory RAS mode")
	firmwareCOD            = clusterOnDie(attestOnly("firmware.cluster_on_die", "Cluster on die, sub-NUMA clustering"))
	firmwareNUMAOptimized  = attestOnly("firmware.numa_optimized", "NUMA optimized memory")
	firmwareErrorThreshold = attestOnly("firmware.correctable_error_threshold", "Correctable error threshold")
	firmwareTXT            = attestOnly("firmware.txt", "Trusted execution (TXT)")
	firmwareUSB3           = attestOnly("firmware.usb3", "USB 3 controller")
	firmwareLegacyUSB      = attestOnly("firmware.legacy_usb", "Legacy USB support")
	firmwarePorts          = attestOnly("firmware.port_60_64", "Port 60/64 emulation")
	firmwareContainment    = attestOnly("firmware.enhanced_error_containment", "Enhanced error containment mode")
	firmwareCTDP           = cTDP(attestOnly("firmware.ctdp", "Configurable TDP (AMD)"))
)

// clusterOnDie needs no attestation on Intel, where a split socket has more than one node.
func clusterOnDie(k *Knob) *Knob {
	attest := k.Want
	k.Want = func(v *View, a setting.Address) Advice {
		c := v.Topology.Counts
		switch {
		case v.Virtual != "" || cpuVendor(v.Host) == "" || c.Packages == 0 || c.NUMANodes == 0:
			return attest(v, a)
		case cpuVendor(v.Host) != Intel:
			return Skips("a matter of Intel's processors")
		}
		found := Count(c.NUMANodes, "node") + " for " + Count(c.Packages, "socket")
		if c.NUMANodes%c.Packages != 0 {
			return Unsure(found + ": the numbers do not fit, and which sockets are split cannot be cpus")
		}
		if c.NUMANodes > c.Packages {
			return fact(found,
				exact("a node a socket", "the guest's CPUs and the NIC share only a part of the cache").At(Low))
		}
		return fact(found, Fine("the sockets are not split"))
	}
	return k
}

// cTDP does not apply to Intel.
func cTDP(k *Knob) *Knob {
	attest := k.Want
	k.Want = func(v *View, a setting.Address) Advice {
		if v.Virtual == "" && cpuVendor(v.Host) == Intel {
			return Skips("a matter of AMD's and Hygon's processors")
		}
		return attest(v, a)
	}
	return k
}
