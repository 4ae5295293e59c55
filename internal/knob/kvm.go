package knob

import (
	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

// defaultHaltPoll is arch/x86/include/asm/kvm_host.h, KVM_HALT_POLL_NS_DEFAULT, in nanoseconds.
const defaultHaltPoll = "200000"

var kvmHaltPoll = &Knob{
	ID: "kvm.halt_poll_ns", Title: "The host polls before it puts a vCPU to sleep", Stage: datapath.KVM, Risk: goal.None,
	Tiers: pinned(),
	Doc: Doc{
		Want: "above 0 (200000 where it is 0); for realtime as it is",
		Why: "When a vCPU has nothing to do it halts. Polling for up to this long before it sleeps saves waking it (several µs) when the next packet is near: " +
			"at the rates of interest the next packet is always near.",
		Cost:   "CPU time of idle vCPUs, shown as busy on the host; power.",
		Verify: "/sys/module/kvm/parameters/halt_poll_ns; halt_successful_poll in /sys/kernel/debug/kvm grows.",
		Traps: []string{
			"0 saves CPU time on overcommitted hosts and is left over from there; on dedicated CPUs it is right only where the guest polls itself (idle=poll).",
			"A change concerns new polls of running guests at once, except of guests that set their own limit (KVM_CAP_HALT_POLL). Kernels from 5.8 to 6.0 copy it at a guest's start: there running guests keep what they began with.",
			"Guests with cpuidle-haltpoll poll inside and make this one idle.",
		},
		Sources: []Source{
			{"200000 on x86", "arch/x86/include/asm/kvm_host.h, KVM_HALT_POLL_NS_DEFAULT; Documentation/virt/kvm/halt-polling.rst"},
			{"copied at the start, and no more", "kernel commits acd05785e48c (kvm: add capability for halt polling, 5.8) and 9eb8ca049c23 (KVM: Obey kvm.halt_poll_ns in VMs not using KVM_CAP_HALT_POLL, 6.1)"},
		},
	},
	Where: fixed(setting.Of(setting.Sysfs, "module/kvm/parameters/halt_poll_ns")),
	Want: func(v *View, a setting.Address) Advice {
		n, known := number(v.Readings.At(a))
		switch {
		case v.Tier == goal.Realtime && known && n == 0:
			return Fine("right for guests that poll themselves (idle=poll inside, guest.realtime) on CPUs of their own; others wake up later for it")
		case v.Tier == goal.Realtime && known:
			return Fine("a guest that halts is woken sooner; one that polls itself (idle=poll inside) never halts, and 0 would do")
		case known && n > 0:
			return Fine("polling is on")
		}
		return Wants(setting.Exact(defaultHaltPoll), "without polling every pause of a few microseconds puts the vCPU to sleep, and waking it costs more than the pause")
	},
}

var kvmEPT = &Knob{
	ID: "kvm.ept", Title: "Nested page tables", Stage: datapath.KVM, Risk: goal.GuestRestart, Check: true,
	Tiers: pinned(),
	Doc: Doc{
		Want:   "on (Y or 1)",
		Why:    "With EPT (Intel) or NPT (AMD) the processor walks the guest's page tables itself. Without, every change of them leaves the guest.",
		Cost:   "None.",
		Verify: "/sys/module/kvm_intel/parameters/ept is Y, /sys/module/kvm_amd/parameters/npt is 1 or Y.",
		Traps:  []string{"A load-time parameter: the module must be unloaded, with all guests down. Off only by somebody's modprobe.d or on processors before 2008."},
		Sources: []Source{
			{"parameters", "arch/x86/kvm/vmx/vmx.c, module_param_named(ept); arch/x86/kvm/svm/svm.c, module_param_named(npt)"},
		},
	},
	Where: func(h *facts.Host) []setting.Address {
		switch h.KVM.Vendor {
		case "kvm_intel":
			return []setting.Address{setting.Of(setting.ModuleParam, "kvm_intel", "ept")}
		case "kvm_amd":
			return []setting.Address{setting.Of(setting.ModuleParam, "kvm_amd", "npt")}
		}
		return nil
	},
	Want: func(v *View, a setting.Address) Advice {
		return Wants(setting.Any("Y", "1"), "without nested page tables every change of the guest's page tables leaves the guest").At(Critical)
	},
}

var kvmAVIC = &Knob{
	ID: "kvm.amd_avic", Title: "Interrupts delivered by the processor (AMD)", Stage: datapath.KVM, Risk: goal.GuestRestart, Check: true,
	Tiers: tiers(goal.Aggressive, goal.Passthrough, goal.Realtime),
	Doc: Doc{
		Want:   "on (Y or 1), on AMD",
		Why:    "With AVIC an interrupt reaches a running vCPU without an exit. Each packet batch is an interrupt.",
		Cost:   "All guests must be shut down to load the module anew. Processors before Zen 4 have errata that KVM works around.",
		Verify: "/sys/module/kvm_amd/parameters/avic; avic lines in dmesg (\"AVIC enabled\").",
		Traps: []string{
			"A load-time parameter: modprobe -r kvm_amd needs every guest down, so mpps explains and never plans it.",
			"On Zen 4 and later with x2AVIC newer kernels switch it on by themselves.",
			"It is inhibited while a guest has nested virtualisation, hyperv SynIC auto-EOI or an in-kernel PIT in re-inject mode: kvm parameter 1 is not yet proof.",
		},
		Sources: []Source{
			{"parameter and default", "arch/x86/kvm/svm/svm.c, module_param(avic); arch/x86/kvm/svm/avic.c, avic_hardware_setup"},
			{"1 on AMD", "founding measurements"},
		},
	},
	Where: func(h *facts.Host) []setting.Address {
		if h.KVM.Vendor != "kvm_amd" {
			return nil
		}
		return []setting.Address{setting.Of(setting.ModuleParam, "kvm_amd", "avic")}
	},
	Want: func(v *View, a setting.Address) Advice {
		return Wants(setting.Any("Y", "1"), "without AVIC every interrupt to a running vCPU is an exit").At(Low)
	},
}
