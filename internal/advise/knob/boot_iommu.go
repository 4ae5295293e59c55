package knob

import (
	"slices"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

const unmapped = "every buffer of the host's own NICs is mapped and unmapped"

var bootIOMMU = &Knob{
	ID: "boot.iommu", Title: "IOMMU on, and out of the host's own way",
	Parts: map[string]Limit{"iommu": onX86, "intel_iommu": onDMAR, "iommu.passthrough": onARM64},
	Stage: datapath.Kernel, Risk: goal.Reboot, After: []string{"firmware.vt_d"}, Tiers: tiers(goal.Passthrough),
	Where: bootArguments("iommu", "intel_iommu", "iommu.passthrough"),
	Want: func(v *View, a setting.Address) Advice {
		if !v.makesFunctions() && !slices.ContainsFunc(v.Guests, func(g facts.Guest) bool { return passthrough(&g) }) {
			return Skips("no NIC of this host makes virtual functions, and no guest has a device passed through")
		}
		if a.Path == "iommu.passthrough" {
			if v.Firmware.Groups == 0 {
				return Unsure("the kernel uses no IOMMU here, or its groups cannot be seen: iommu_groups is empty")
			}
			return v.atBoot(a, passedThrough, unmapped).At(Medium)
		}
		if a.Path == "iommu" {
			if value, given := v.runningArgument("iommu.passthrough"); given && value == "1" {
				return v.fineAtBoot(a, "iommu.passthrough=1 is the same")
			}
			return v.atBoot(a, setting.Exact("pt"), unmapped).At(Medium)
		}
		if next := v.Readings.At(a); next.State == setting.Absent && v.Firmware.Groups > 0 {
			if _, given := v.runningArgument("intel_iommu"); !given {
				return v.fineAtBoot(a, "the running kernel uses the IOMMU by itself")
			}
		}
		return v.atBoot(a, setting.Any("on", "on,sm_on", "sm_on,on"),
			"the kernel leaves Intel's IOMMU off by default").At(Critical)
	},
}

var bootIOMMUStrict = &Knob{
	ID: "boot.iommu_strict", Title: "Freed buffers are taken from the IOMMU in batches",
	Stage: datapath.Kernel, Risk: goal.Security, After: []string{"boot.iommu"}, Limit: onARM64,
	Tiers: tiers(goal.Aggressive, goal.Passthrough),
	Where: bootArguments("iommu.strict"),
	Want: func(v *View, a setting.Address) Advice {
		next := v.Readings.At(bootArgument("iommu.passthrough"))
		switch {
		case v.Firmware.Groups == 0:
			return Unsure("the kernel uses no IOMMU here, or its groups cannot be seen: iommu_groups is empty")
		case passedThrough.Met(next), v.Tier == goal.Passthrough:
			return v.fineAtBoot(a, "iommu.passthrough=1 leaves the host's own devices out of it (boot.iommu)")
		}
		advice := v.atBoot(a, setting.Any("0", "n", "N", "off"), "the processor waits for the IOMMU at each "+
			"buffer that a NIC gives back").At(Low)
		advice.Warning = "a broken or malicious device can reach a buffer for some milliseconds after it was freed"
		return advice
	},
}

// passedThrough are the values of iommu.passthrough that switch it on (kstrtobool).
var passedThrough = setting.Any("1", "y", "Y", "on")

var bootVGIC = &Knob{
	ID: "boot.vgic_v4", Title: "Interrupts of passed-through devices reach a guest without an exit (GICv4)",
	Stage: datapath.Kernel, Risk: goal.Reboot, Limit: onARM64, Asked: true,
	Tiers: tiers(goal.Passthrough, goal.Realtime),
	Where: bootArguments("kvm-arm.vgic_v4_enable"),
	Want: func(v *View, a setting.Address) Advice {
		if v.Tier != goal.Passthrough && !slices.ContainsFunc(v.Guests,
			func(g facts.Guest) bool { return passthrough(&g) }) {
			return Skips("no guest has a device passed through")
		}
		return v.atBoot(a, setting.Any("1", "y", "Y", "on"), "each interrupt of a passed-through device is an "+
			"exit; where the interrupt controller is not GICv4 it changes nothing").At(Low)
	},
}
