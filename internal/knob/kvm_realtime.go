package knob

import (
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var kvmPLEGap = &Knob{
	ID: "kvm.ple_gap", Stage: datapath.KVM, Risk: goal.GuestRestart,
	Tiers: tiers(goal.Realtime),
	Where: func(h *facts.Host) []setting.Address {
		switch h.KVM.Vendor {
		case "kvm_intel":
			return []setting.Address{setting.Of(setting.ModuleParam, "kvm_intel", "ple_gap")}
		case "kvm_amd":
			return []setting.Address{setting.Of(setting.ModuleParam, "kvm_amd", "pause_filter_count")}
		}
		return nil
	},
	Want: func(v *View, a setting.Address) Advice {
		return Wants(setting.Exact("0"), "a guest that polls is thrown out every few thousand cycles on the guess that it waits for somebody").At(Low)
	},
}

var kvmClockSync = &Knob{
	ID: "kvm.kvmclock_periodic_sync", Stage: datapath.KVM, Risk: goal.GuestRestart,
	Tiers: tiers(goal.Realtime),
	Where: fixed(setting.Of(setting.ModuleParam, "kvm", "kvmclock_periodic_sync")),
	Want: func(v *View, a setting.Address) Advice {
		return Wants(setting.Any("N", "0"), "every five minutes all vCPUs are interrupted to correct a clock that a guest on TSC does not use").At(Low)
	},
}

var kvmNXHugePages = &Knob{
	ID: "kvm.nx_huge_pages", Stage: datapath.KVM, Risk: goal.Security,
	Tiers: tiers(goal.Realtime),
	Where: fixed(setting.Of(setting.ModuleParam, "kvm", "nx_huge_pages")),
	Want: func(v *View, a setting.Address) Advice {
		state, told := v.Kernel.Vulnerabilities["itlb_multihit"]
		reading := v.Readings.At(a)
		if told && strings.HasPrefix(state, "Not affected") && reading.State == setting.Known && reading.Value != "Y" {
			return Fine("the processor is not affected by iTLB multihit, and huge pages stay whole")
		}
		because := "huge pages are split when the guest runs code from them, and mended by a worker"
		if told {
			because += " (itlb_multihit: " + state + ")"
		}
		advice := Wants(setting.Any("N", "never"), because).At(Low)
		if told && strings.HasPrefix(state, "Not affected") {
			advice.Risk = goal.None
			return advice
		}
		return advice.warn("a guest can then hang this host on purpose, if its processor has the erratum")
	},
}
