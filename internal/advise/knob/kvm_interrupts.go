package knob

import (
	"cmp"
	"slices"
	"strings"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// Processors that deliver interrupts to a running vCPU without an exit: AVIC (AMD), APICv (Intel); and IOMMUs that hand
// them the interrupts of devices.

// switchedOn is the value of a boolean parameter of a module that is on.
func switchedOn() setting.Want { return setting.Any("Y", "1") }

var kvmAVIC = &Knob{
	ID: "kvm.amd_avic", Title: "Interrupts delivered by the processor (AMD)", Limit: onAMD,
	Stage: datapath.KVM, Risk: goal.GuestRestart, Tiers: tiers(goal.Aggressive, goal.Passthrough, goal.Realtime),
	Where: vendorParam("", "avic"),
	Want: func(v *View, a setting.Address) Advice {
		p, on := v.Topology.Processor, switchedOn().Met(v.Readings.At(a))
		switch {
		case p == nil:
			return Unsure("which generation the processors are is not known: AVIC is right from Zen 4 on")
		case (p.Family == 0x17 || p.Family == 0x18) && on && !v.sendsIPIs():
			return Wants(setting.Any("N", "0"), "on Zen 1 and 2 and Hygon's processors an interrupt from vCPU to vCPU "+
				"can fail to wake the other (erratum 1235), and this kernel does not work around it").At(Medium)
		case p.Family <= 0x19 && v.Topology.Zen() < 4:
			return Fine("the kernel leaves it off by default before Zen 4: errata, and no x2AVIC")
		case !on && !p.Has("x2avic"):
			return Fine("this kernel does not find x2AVIC, without which it serves guests in xAPIC mode only")
		}
		return Wants(switchedOn(), "without AVIC every interrupt to a running vCPU is an exit").At(Low)
	},
}

// sendsIPIs reports whether the kernel keeps IPIs from AVIC. It does on processors that it knows to have erratum 1235:
// the parameter enable_ipiv of kvm_amd is then off, whatever it was given (arch/x86/kvm/svm/avic.c,
// avic_hardware_setup). AMD's family 17h was the first, Hygon's 18h followed later.
func (v *View) sendsIPIs() bool {
	value, has := v.KVM.Parameters["kvm_amd.enable_ipiv"]
	return has && setting.Any("N", "0").Met(setting.Value(value))
}

// apicvFlags are the flags of processors that can do what a parameter of kvm_intel switches on
// (arch/x86/kernel/cpu/feat_ctl.c, init_vmx_capabilities; arch/x86/include/asm/vmxfeatures.h).
var apicvFlags = map[string]string{"enable_apicv": "apicv", "enable_ipiv": "ipi_virt"}

var kvmAPICv = &Knob{
	ID: "kvm.apicv", Title: "Interrupts delivered by the processor (Intel)", Limit: onIntel,
	Stage: datapath.KVM, Risk: goal.GuestRestart, Tiers: tiers(goal.Aggressive, goal.Passthrough, goal.Realtime),
	Where: func(h *facts.Host) []setting.Address {
		return slices.Concat(vendorParam("enable_apicv", "")(h), vendorParam("enable_ipiv", "")(h))
	},
	Want: func(v *View, a setting.Address) Advice {
		p, reading := v.Topology.Processor, v.Readings.At(a)
		switch {
		case reading.State == setting.Absent: // enable_ipiv before 6.0
			return Skips(cmp.Or(reading.Why, "this kernel has no such parameter"))
		case switchedOn().Met(reading):
			return Fine("an interrupt reaches a running vCPU without an exit")
		case p == nil || !since(v.Kernel.Release, 5, 6):
			return Unsure("whether the processor can is not known: kernels from 5.6 on list its VMX features")
		case !p.Has(apicvFlags[a.Rest()]):
			return Fine("the kernel does not find that the processor can")
		}
		return Wants(switchedOn(), "the processor can, and it was switched off when kvm_intel was loaded: interrupts "+
			"to a running vCPU, or from vCPU to vCPU, are exits").At(Low)
	},
}

var kvmPosted = &Knob{
	ID: "kvm.posted_interrupts", Title: "Interrupts of passed-through devices reach the guest directly", Limit: onX86,
	Stage: datapath.KVM, Risk: goal.Reboot, Tiers: tiers(goal.Passthrough), Check: true,
	After: []string{"kvm.apicv", "kvm.amd_avic", "boot.iommu"},
	Where: fixed(hostFact("posted-interrupts")),
	Want: func(v *View, a setting.Address) Advice {
		argument, off := "intremap", "nopost"
		if cpuVendor(v.Host) == AMD {
			argument, off = "amd_iommu_intr", "legacy"
		}
		delivers, known := v.deliversInterrupts()
		value, _ := v.runningArgument(argument)
		switch {
		case v.Firmware.Groups == 0:
			return Skips("the kernel uses no IOMMU (boot.iommu)")
		case slices.Contains(strings.Split(value, ","), off):
			return fact(argument+"="+value, exact("without "+off, "the kernel argument has the host take each "+
				"interrupt of a device, and wake the guest's CPU for it").At(Medium))
		case !known:
			return Unsure(deliveryUnknown)
		case !delivers:
			return Skips(noDelivery)
		case v.Passthrough == nil || v.Passthrough.Posting == "" && cpuVendor(v.Host) == Intel:
			return Unsure("what the IOMMU can do with interrupts is not known")
		case v.Passthrough.Posting == facts.No:
			return fact("not posted", Fine("an IOMMU of this host cannot post interrupts"))
		}
		return fact("not switched off", Fine("the IOMMU hands the processor the interrupts of devices"))
	},
}

// Why nothing is said of what needs the processor to deliver interrupts to vCPUs.
const (
	deliveryUnknown = "whether the processor delivers interrupts to vCPUs is not known (kvm.apicv, kvm.amd_avic)"
	noDelivery      = "the processor does not deliver interrupts to vCPUs (kvm.apicv, kvm.amd_avic)"
)

// deliversInterrupts reports whether KVM has the processor deliver interrupts to running vCPUs, and whether that is
// known.
func (v *View) deliversInterrupts() (delivers, known bool) {
	for _, parameter := range []string{"kvm_intel.enable_apicv", "kvm_amd.avic"} {
		if value, has := v.KVM.Parameters[parameter]; has {
			return value == "Y" || value == "1", true
		}
	}
	return false, false
}
