package knob

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

// firmware is a check of how the machine was set up: never written by mpps.
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
	Doc: Doc{
		Want: "off for realtime, and for figures that must repeat; on for mixed load, with no two pinned vCPUs of a network-bound guest on one core",
		Why: "Two threads of a core share its execution units and first caches. For a figure that repeats, and for wake-ups within microseconds, each core must do one thing: what runs on the sibling shows up as jitter. " +
			"For mixed load the threads together do more than one, and on is right: then no two pinned vCPUs of a network-bound guest may share a core (placement.siblings).",
		Cost:   "Half of the logical CPUs; perhaps a quarter of the host's throughput under mixed load.",
		Verify: "/sys/devices/system/cpu/smt/active is 0; thread_siblings_list of each CPU names only itself.",
		Traps: []string{
			"It need not be done in the firmware: 'echo off > /sys/devices/system/cpu/smt/control' takes the sibling threads offline at once and 'on' brings them back; nosmt on the kernel's command line makes it last. forceoff cannot be taken back before a reboot.",
			"CPU numbers do not tell siblings: N and N + half on most machines, N and N+1 on some. The finding lists them.",
			"Taking siblings offline moves interrupts and stops guests that are pinned to them only there: do it before guests start.",
		},
		Sources: []Source{
			{"control, active, nosmt", "Documentation/ABI/testing/sysfs-devices-system-cpu; kernel/cpu.c, cpuhp_smt_disable"},
			{"off for benchmarks", "founding measurements"},
		},
	},
	Where: fixed(setting.Of(setting.Sysfs, "devices/system/cpu/smt/control")),
	Want: func(v *View, a setting.Address) Advice {
		if v.Tier == goal.Realtime {
			return Wants(setting.Any("off", "forceoff", "notsupported", "notimplemented"), "what runs on a sibling thread delays the guest's wake-ups; siblings: "+v.siblings())
		}
		return Fine("on is right for mixed load; no two vCPUs of a guest on one core; siblings: " + v.siblings())
	},
})

// siblings lists the threads of each core, the first cores of many.
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
	ID: "firmware.numa_per_socket", Title: "A node for each memory controller",
	Tiers: tiers(goal.Standard, goal.Aggressive, goal.Passthrough, goal.Realtime),
	Doc: Doc{
		Want: "4 nodes a socket (NPS4) on AMD and Hygon",
		Why: "AMD's and Hygon's sockets hold several memory controllers. With one node a socket (NPS1) memory is interleaved over all of them, and half of a guest's accesses and of a NIC's DMA go the long way over the die. " +
			"With NPS4 each quarter of the socket is a node of its own, and placement can keep guest, vhost thread and NIC in one.",
		Cost:   "A node has a quarter of the memory: a guest that is larger spans nodes, and its memory must be set (domain.numatune).",
		Verify: "numactl -H shows four nodes a socket, with distances of 12 or so inside the socket.",
		Traps: []string{
			"NPS is not \"ACPI SRAT L3 cache as NUMA domain\", which makes a node of each L3: good for schedulers, but memory then belongs to none of them alone.",
			"NPS0 joins two sockets to one node: the worst for a NIC.",
			"Intel's counterpart is sub-NUMA clustering; see firmware.cluster_on_die for why that is left off.",
		},
		Sources: []Source{
			{"NPS modes", "AMD, Workload Tuning Guide for EPYC processors, chapter NUMA nodes per socket"},
			{"NPS4 in all tests on AMD and Hygon", "founding measurements"},
		},
	},
	Want: func(v *View, a setting.Address) Advice {
		if advice, ok := v.onMetal(); !ok {
			return advice
		}
		packages, nodes := v.Topology.Counts.Packages, v.Topology.Counts.NUMANodes
		switch {
		case packages == 0 || nodes == 0:
			return Unsure("the number of sockets and nodes is not known")
		case maker(v.Host) == "":
			return Unsure("the processors' maker is not known")
		case maker(v.Host) == "intel":
			return Skips("Intel's sockets are one node each")
		case nodes%packages != 0 && packages%nodes != 0:
			return Unsure(fmt.Sprintf("%s for %s: the numbers do not fit, perhaps because not all CPUs are shown here", count(nodes, "node"), count(packages, "socket")))
		}
		l3, each := v.Topology.Counts.L3Caches/packages, nodes/packages
		found := fmt.Sprintf("%s for %s, %s in each; distances %s", count(nodes, "node"), count(packages, "socket"), count(l3, "L3 cache"), v.distances())
		switch {
		case nodes < packages:
			return seen(found, Wants(setting.Exact("4 nodes a socket"), "one node over several sockets: half of all accesses go to the other socket").At(High))
		case l3 < 4 || each >= 4:
			return seen(found, Fine("as many nodes as there are memory controllers to choose from"))
		}
		return seen(found, Wants(setting.Exact("4 nodes a socket"), "memory is interleaved over controllers that are far from the NIC and from each other").At(Medium))
	},
})

// distances are the nodes' distances, a row for each node.
func (v *View) distances() string {
	var rows []string
	for _, n := range v.Topology.Nodes[:min(len(v.Topology.Nodes), 8)] {
		rows = append(rows, strings.Trim(fmt.Sprint(n.Distances), "[]"))
	}
	return strings.Join(rows, " / ")
}

var firmwareEnergy = firmware(Knob{
	ID: "firmware.energy_performance", Title: "Energy policy is performance",
	Tiers: tiers(goal.Standard, goal.Aggressive, goal.Passthrough, goal.Realtime),
	Doc: Doc{
		Want: "performance",
		Why: "The processor chooses its clock by itself within what software allows; the energy and performance preference says which way it leans. A preference for power lets the clock fall between bursts of packets, " +
			"and uncore and memory clocks with it.",
		Cost:   "Power and heat.",
		Verify: "energy_performance_preference of every CPU is performance; turbostat shows a steady clock under load.",
		Traps: []string{
			"Many servers come with \"balanced\" or leave the choice to the platform (\"dynamic power savings\"), which hides cpufreq from the kernel altogether: choose OS control or maximum performance.",
			"At run time: 'echo performance > /sys/devices/system/cpu/cpuN/cpufreq/energy_performance_preference'. cpu.governor=performance sets it with intel_pstate in active mode.",
		},
		Sources: []Source{
			{"preference and where it shows", "Documentation/admin-guide/pm/intel_pstate.rst, Energy vs Performance Hints; amd-pstate.rst"},
			{"performance in all tests", "founding measurements"},
		},
	},
	Want: func(v *View, a setting.Address) Advice {
		if advice, ok := v.onMetal(); !ok {
			return advice
		}
		const because = "the clock falls between bursts of packets"
		for _, told := range []map[string]int{v.Power.Preferences, v.Power.Governors} {
			if len(told) == 0 {
				continue
			}
			advice := Fine("the processors lean to performance")
			if len(told) > 1 || told["performance"] == 0 {
				advice = Wants(setting.Exact("performance"), because)
			}
			return seen(tally(told), advice)
		}
		return v.attested("firmware.energy_performance", because, Medium)
	},
})

// tally words how many CPUs have which value: "performance on 40 CPUs".
func tally(values map[string]int) string {
	var parts []string
	for value, cpus := range values {
		parts = append(parts, fmt.Sprintf("%s on %s", value, count(cpus, "CPU")))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

var firmwareVTd = firmware(Knob{
	ID: "firmware.vt_d", Title: "IOMMU for guests' devices (VT-d, AMD-Vi)", Tiers: tiers(goal.Passthrough),
	Doc: Doc{
		Want:   "on for passthrough: a DMAR or IVRS table, and IOMMU groups",
		Why:    "A guest's virtual function reaches memory by itself. Only the IOMMU holds it to its guest's memory and brings its interrupts there; without one vfio refuses the device.",
		Cost:   "None where nothing is passed through and iommu=pt is set.",
		Verify: "/sys/firmware/acpi/tables has DMAR (Intel) or IVRS (AMD); /sys/kernel/iommu_groups is not empty.",
		Traps: []string{
			"The table is there and the groups are not: the kernel was not told to use it (boot.iommu).",
			"VT-x or SVM are other switches in the firmware: KVM needs those, passthrough needs both.",
			"ACS must be on for each VF to have a group of its own.",
		},
		Sources: []Source{
			{"tables", "drivers/iommu/intel/dmar.c; drivers/iommu/amd/init.c, amd_iommu_detect"},
			{"groups", "Documentation/driver-api/vfio.rst"},
		},
	},
	Want: func(v *View, a setting.Address) Advice {
		f := v.Firmware
		switch {
		case f.Groups > 0:
			return seen(tables(f), Fine("the kernel uses the IOMMU"))
		case f.DMAR || f.IVRS:
			return seen(tables(f), Fine("the firmware offers an IOMMU; the kernel does not use it yet (boot.iommu)"))
		case !f.Tables:
			return Unsure("the firmware's ACPI tables cannot be seen")
		}
		return seen(tables(f), Wants(setting.Exact("DMAR or IVRS table"), "without an IOMMU no device can be passed to a guest: switch VT-d or AMD-Vi on in the firmware").At(Critical))
	},
})

func tables(f facts.Firmware) string {
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
	return strings.Join(append(parts, count(f.Groups, "IOMMU group")), ", ")
}

var firmwareSRIOV = firmware(Knob{
	ID: "firmware.sriov", Title: "SR-IOV is switched on", Tiers: tiers(goal.Passthrough),
	Doc: Doc{
		Want: "on for passthrough: a NIC that offers virtual functions",
		Why: "The firmware hands out bus numbers and address space before the kernel runs. Without SR-IOV in its setup (and in that of the NIC itself) there is no room for virtual functions, " +
			"and the NIC does not show that it could have any.",
		Cost:   "Address space and bus numbers.",
		Verify: "/sys/class/net/NIC/device/sriov_totalvfs is above 0.",
		Traps: []string{
			"Two switches: the machine's and the NIC's own (Mellanox: SRIOV_EN with mlxconfig; Broadcom: in the option ROM).",
			"\"not enough MMIO resources for SR-IOV\" in the kernel's log: switch \"above 4G decoding\" on, or boot with pci=realloc.",
		},
		Sources: []Source{
			{"sriov_totalvfs", "Documentation/PCI/pci-iov-howto.rst; drivers/pci/iov.c, sriov_init"},
		},
	},
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
			return seen("virtual functions: "+strings.Join(can, ", "), Fine("NICs offer virtual functions"))
		case len(cannot) == 0:
			return Unsure("no physical NIC can be seen")
		}
		return seen("none of "+strings.Join(cannot, ", "), Wants(setting.Exact("a NIC with virtual functions"), "no NIC offers virtual functions: SR-IOV is off in the firmware or in the NIC's own setup, or the NIC has none").At(Critical))
	},
})
