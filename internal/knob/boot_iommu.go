package knob

import (
	"mpps/internal/datapath"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var bootIOMMU = &Knob{
	ID: "boot.iommu", Title: "IOMMU on, and out of the host's own way", Stage: datapath.Kernel, Risk: goal.Reboot,
	Tiers: tiers(goal.Passthrough), After: []string{"firmware.vt_d"},
	Doc: Doc{
		Want: "iommu=pt, and on Intel intel_iommu=on, for passthrough",
		Why: "A virtual function can only be given to a guest under an IOMMU. With iommu=pt the host's own devices keep their addresses as they are: without it every buffer of every NIC of the host is mapped and unmapped, " +
			"which costs a good part of the packet rate.",
		Cost:   "With iommu=pt a device of the host that is broken or malicious can reach all memory, as without an IOMMU.",
		Verify: "/sys/kernel/iommu_groups is not empty; the kernel's log says \"Default domain type: Passthrough\".",
		Traps: []string{
			"amd_iommu=on is not a value that the kernel parses, whatever is written elsewhere: AMD's IOMMU is on by default where the firmware offers it (IVRS).",
			"Intel needs intel_iommu=on, unless the kernel was built with CONFIG_INTEL_IOMMU_DEFAULT_ON.",
			"iommu=pt without the firmware's switch does nothing: firmware.vt_d.",
			"iommu.passthrough=1 is the same as iommu=pt on newer kernels.",
			bootTrap,
		},
		Sources: []Source{
			{"values of amd_iommu", "drivers/iommu/amd/init.c, parse_amd_iommu_options"},
			{"values of intel_iommu", "drivers/iommu/intel/iommu.c, intel_iommu_setup"},
			{"iommu=pt", "arch/x86/kernel/pci-dma.c, iommu_setup"},
			bootWritten,
		},
	},
	Where: bootArguments("iommu", "intel_iommu"),
	Want: func(v *View, a setting.Address) Advice {
		if a.Path == "iommu" {
			if value, told := v.runningArgument("iommu.passthrough"); told && value == "1" {
				return v.bootsFine(a, "iommu.passthrough=1 is the same")
			}
			return v.boots(a, setting.Exact("pt"), "every buffer of the host's own NICs is mapped and unmapped").At(Medium)
		}
		switch maker(v.Host) {
		case "":
			return Unsure("the processors' maker is not known")
		case "amd":
			return Skips("AMD's IOMMU is on by default; amd_iommu=on is not a value that the kernel parses")
		}
		if next := v.Readings.At(a); next.State == setting.Absent && v.Firmware.Groups > 0 {
			if _, told := v.runningArgument("intel_iommu"); !told {
				return v.bootsFine(a, "the running kernel uses the IOMMU by itself")
			}
		}
		return v.boots(a, setting.Any("on", "on,sm_on", "sm_on,on"), "the kernel does not use Intel's IOMMU unless it is told to").At(Critical)
	},
}
