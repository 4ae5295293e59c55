package knob

import (
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// attestOnly makes a check of what only a person can see in the firmware setup. Titles are the names that server
// vendors use.
func attestOnly(k Knob, conditions ...func(v *View) (why string, has bool)) *Knob {
	made := firmware(k)
	made.Want = onMetal(func(v *View, a setting.Address) Advice {
		for _, condition := range conditions {
			if why, has := condition(v); !has {
				return Skips(why)
			}
		}
		advice := v.fromAttestation(k.ID, "", Low)
		if advice.Want != nil {
			advice.Because = made.Doc().Why
		}
		return advice
	})
	return made
}

// meshed is the condition of items that came with Xeon Scalable.
func meshed(v *View) (string, bool) {
	return "processors before Xeon Scalable do not have it", !v.Topology.BeforeMesh()
}

// twoSockets is the condition of items that are about the way between sockets.
func twoSockets(v *View) (string, bool) {
	return "a matter of several sockets", v.Topology.Counts.Packages != 1
}

// noUSB is the condition of switching USB off.
func noUSB(v *View) (string, bool) {
	n := facts.Find(v.NICs, func(n *facts.NIC) bool { return n.Bus == "usb" })
	if n == nil {
		return "", true
	}
	return n.Name + " is a USB device", false
}

// ddr4 is the condition of items of DDR4.
func ddr4(v *View) (string, bool) {
	kind := v.MemoryType()
	return "the memory is " + kind, kind == "" || kind == "DDR4"
}

// Items that stop all CPUs for a moment now and then, or read memory in the background, matter to realtime only.
var (
	firmwareDeadLine = attestOnly(Knob{ID: "firmware.llc_dead_line_alloc", Title: "LLC dead line allocation",
		Limit: onIntel}, meshed)
	firmwareStaleAtoS = attestOnly(Knob{ID: "firmware.stale_atos", Title: "Stale A to S directory optimization",
		Limit: onIntel}, meshed, twoSockets)
	firmwareWrCRC  = attestOnly(Knob{ID: "firmware.wr_crc", Title: "DDR4 write CRC", Limit: onX86}, ddr4)
	firmwarePatrol = attestOnly(Knob{ID: "firmware.patrol_scrub", Title: "Patrol scrub", Limit: onX86,
		Tiers: realtime()})
	firmwareDemand = attestOnly(Knob{ID: "firmware.demand_scrub", Title: "Demand scrub", Limit: onX86})
	firmwareRAS    = attestOnly(Knob{ID: "firmware.ras_mode", Title: "Memory RAS mode", Limit: onX86})
	firmwareCOD    = clusterOnDie(attestOnly(Knob{ID: "firmware.cluster_on_die",
		Title: "Cluster on die, sub-NUMA clustering", Limit: onIntel}))
	firmwareNUMAOptimized = numaOptimized(attestOnly(Knob{ID: "firmware.numa_optimized",
		Title: "NUMA optimized memory", Limit: onX86}, twoSockets))
	firmwareErrorThreshold = attestOnly(Knob{ID: "firmware.correctable_error_threshold",
		Title: "Correctable error threshold", Limit: onX86, Tiers: realtime()})
	firmwareTXT = attestOnly(Knob{ID: "firmware.txt", Title: "Trusted execution (TXT)", Limit: onIntel,
		Tiers: realtime()})
	firmwareUSB3 = attestOnly(Knob{ID: "firmware.usb3", Title: "USB 3 controller", Limit: onX86,
		Tiers: realtime()}, noUSB)
	firmwareUSBController = attestOnly(Knob{ID: "firmware.usb_controller", Title: "USB controllers", Limit: onX86,
		Tiers: realtime()}, noUSB)
	firmwareExecuteDisable = attestOnly(Knob{ID: "firmware.execute_disable", Title: "Execute disable bit",
		Limit: onX86})
	firmwareActiveCores = attestOnly(Knob{ID: "firmware.active_cores", Title: "Active cores of each processor",
		Limit: onX86})
	firmwareVTx = virtualization(attestOnly(Knob{ID: "firmware.vt_x", Title: "Virtualization extensions (VT-x, AMD-V)",
		Limit: onX86}))
	firmwareLegacyUSB = attestOnly(Knob{ID: "firmware.legacy_usb", Title: "Legacy USB support", Limit: onX86,
		Tiers: realtime()})
	firmwarePorts = attestOnly(Knob{ID: "firmware.port_60_64", Title: "Port 60/64 emulation", Limit: onX86,
		Tiers: realtime()})
	firmwareContainment = attestOnly(Knob{ID: "firmware.enhanced_error_containment",
		Title: "Enhanced error containment mode", Limit: onIntel})
	firmwareCTDP     = attestOnly(Knob{ID: "firmware.ctdp", Title: "Configurable TDP (AMD)", Limit: onAMD})
	firmwareDFStates = attestOnly(Knob{ID: "firmware.df_c_states", Title: "Data fabric C-states (AMD)", Limit: onAMD,
		Tiers: tiers(goal.Passthrough, goal.Realtime)})
	firmwareDFPstate = attestOnly(Knob{ID: "firmware.df_p_state", Title: "Fixed data fabric P-state (AMD)",
		Limit: onAMD, Tiers: tiers(goal.Passthrough, goal.Realtime)})
)

// virtualization needs no attestation where KVM uses the extensions: its module for the processor loads only then.
func virtualization(k *Knob) *Knob {
	attest := k.Want
	k.Want = func(v *View, a setting.Address) Advice {
		if !v.inGuest() && v.KVM.Loaded && v.KVM.Vendor != "" {
			return fact(v.KVM.Vendor+" is loaded", Fine("KVM uses them"))
		}
		return attest(v, a)
	}
	return k
}

// clusterOnDie needs no attestation where the numbers of sockets and nodes are known.
func clusterOnDie(k *Knob) *Knob {
	attest := k.Want
	k.Want = func(v *View, a setting.Address) Advice {
		c := v.socketCounts()
		if v.inGuest() || c.Packages == 0 || c.NUMANodes == 0 {
			return attest(v, a)
		}
		found := Count(c.NUMANodes, "node") + " for " + Count(c.Packages, "socket")
		switch {
		case c.NUMANodes%c.Packages != 0:
			return Unsure(found + ": the numbers do not fit, and which sockets are split cannot be determined")
		case c.NUMANodes > c.Packages:
			return fact(found, v.splitSockets())
		}
		return fact(found, Fine("the sockets are not split"))
	}
	return k
}

// numaOptimized needs no attestation where each socket is seen to have a node.
func numaOptimized(k *Knob) *Knob {
	attest := k.Want
	k.Want = func(v *View, a setting.Address) Advice {
		c := v.socketCounts()
		if off := v.numaOff(); off != "" && c.Packages > 1 && c.NUMANodes == 1 {
			return fact(off, exact("without "+off, "the kernel does not know which memory belongs to which socket: "+
				"half of all accesses go to the other one, and no guest can be kept from it").At(High))
		}
		if !v.inGuest() && c.Packages > 1 && c.NUMANodes >= c.Packages {
			return fact(Count(c.NUMANodes, "node")+" for "+Count(c.Packages, "socket"),
				Fine("the kernel knows which memory belongs to which socket"))
		}
		return attest(v, a)
	}
	return k
}
