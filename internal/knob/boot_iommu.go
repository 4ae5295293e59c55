package knob

import (
	"mpps/internal/datapath"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var bootIOMMU = &Knob{
	ID: "boot.iommu", Stage: datapath.Kernel, Risk: goal.Reboot,
	Tiers: tiers(goal.Passthrough), After: []string{"firmware.vt_d"},
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
