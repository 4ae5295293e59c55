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
	ID: "kvm.halt_poll_ns", Stage: datapath.KVM, Risk: goal.None,
	Tiers: pinned(),
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
	ID: "kvm.ept", Stage: datapath.KVM, Risk: goal.GuestRestart, Check: true,
	Tiers: pinned(),
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
	ID: "kvm.amd_avic", Stage: datapath.KVM, Risk: goal.GuestRestart, Check: true,
	Tiers: tiers(goal.Aggressive, goal.Passthrough, goal.Realtime),
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
