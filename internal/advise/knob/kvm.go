package knob

import (
	"strings"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// defaultHaltPoll are the kernel's own values in nanoseconds, by architecture (arch/x86/include/asm/kvm_host.h and
// arch/arm64/include/asm/kvm_host.h, KVM_HALT_POLL_NS_DEFAULT).
var defaultHaltPoll = map[string]string{facts.X86: "200000", facts.ARM64: "500000"}

var kvmHaltPoll = &Knob{
	ID: "kvm.halt_poll_ns", Title: "The host polls before it puts a vCPU to sleep",
	Stage: datapath.KVM, Risk: goal.None, Tiers: pinned(),
	Where: fixed(setting.Of(setting.Sysfs, "module/kvm/parameters/halt_poll_ns")),
	Want: func(v *View, a setting.Address) Advice {
		n, known := number(v.Readings.At(a))
		switch {
		case v.Tier == goal.Realtime && known && n == 0:
			return Fine("right for guests that poll themselves (idle=poll inside, guest.realtime) on CPUs of their " +
				"own; others wake up later for it")
		case v.Tier == goal.Realtime && known:
			return Fine("a guest that halts is woken sooner; one that polls itself (idle=poll inside) never halts, " +
				"and 0 would do")
		case known && n > 0:
			return Fine("polling is on")
		}
		value, known := defaultHaltPoll[v.Architecture()]
		if !known {
			return Unsure("the kernel's own value for this host's architecture is not known")
		}
		return exact(value, "without polling every pause of a few microseconds puts the vCPU to sleep, and "+
			"waking it costs more than the pause")
	},
}

// vendorParam lists the parameter of the processor vendor's KVM module; nothing if that vendor's is "".
func vendorParam(intel, amd string) func(*facts.Host) []setting.Address {
	return func(h *facts.Host) []setting.Address {
		name := map[string]string{"kvm_intel": intel, "kvm_amd": amd}[h.KVM.Vendor]
		if name == "" {
			return nil
		}
		return []setting.Address{setting.Of(setting.ModuleParam, h.KVM.Vendor, name)}
	}
}

var kvmEPT = &Knob{
	ID: "kvm.ept", Title: "Nested page tables",
	Limit: onX86,
	Stage: datapath.KVM, Risk: goal.GuestRestart, Tiers: pinned(), Check: true,
	Where: vendorParam("ept", "npt"),
	Want: always(Wants(setting.Any("Y", "1"),
		"without nested page tables every change of the guest's page tables leaves the guest").At(Critical)),
}

var kvmTimerAdvance = &Knob{
	ID: "kvm.timer_advance", Title: "A guest's timer is set off early",
	Limit: onX86,
	Stage: datapath.KVM, Risk: goal.GuestRestart, Tiers: tiers(goal.Realtime),
	Where: fixed(setting.Of(setting.ModuleParam, "kvm", "lapic_timer_advance"),
		setting.Of(setting.ModuleParam, "kvm", "lapic_timer_advance_ns")),
	Want: func(v *View, a setting.Address) Advice {
		const late = "each of the guest's timers comes late by the way back into the guest"
		if strings.HasSuffix(a.Path, "_ns") {
			switch n, known := number(v.Readings.At(a)); {
			case known && n > 0:
				return Fine("somebody has measured it; since 5.1 the kernel learns it by itself (-1)")
			case known && n == 0 && !since(v.Kernel.Release, 5, 1):
				return Unsure("this kernel does not learn it by itself: measure it with tscdeadline_latency, or take " +
					"a newer kernel")
			}
			return exact("-1", late).At(Low)
		}
		return Wants(setting.Any("Y", "1"), late).At(Low)
	},
}

var kvmPLEGap = &Knob{
	ID: "kvm.ple_gap", Title: "A spinning vCPU is not thrown out",
	Limit: onX86,
	Stage: datapath.KVM, Risk: goal.GuestRestart, Tiers: tiers(goal.Realtime),
	Where: vendorParam("ple_gap", "pause_filter_count"),
	Want: func(v *View, _ setting.Address) Advice {
		if loose := v.floaters(); len(loose) > 0 {
			return Fine(isIn(loose) + " not pinned: a vCPU that spins for a lock must let the one that holds it run")
		}
		return exact("0", "a guest that polls is thrown out every few thousand cycles on the guess that it waits for "+
			"somebody").At(Low)
	},
}

var kvmClockSync = &Knob{
	ID: "kvm.kvmclock_periodic_sync", Title: "No periodic correction of the guests' clock",
	Limit: onX86,
	Stage: datapath.KVM, Risk: goal.GuestRestart, Tiers: tiers(goal.Realtime),
	Where: fixed(setting.Of(setting.ModuleParam, "kvm", "kvmclock_periodic_sync")),
	Want: always(Wants(setting.Any("N", "0"),
		"every five minutes all vCPUs are interrupted to correct a clock that a guest on TSC does not use").At(Low)),
}

var kvmNXHugePages = &Knob{
	ID: "kvm.nx_huge_pages", Title: "Huge pages of guests stay whole",
	Limit: onX86,
	Stage: datapath.KVM, Risk: goal.Security, Tiers: tiers(goal.Realtime),
	Where: fixed(setting.Of(setting.ModuleParam, "kvm", "nx_huge_pages")),
	Want: func(v *View, a setting.Address) Advice {
		state, known := v.Kernel.Vulnerabilities["itlb_multihit"]
		reading := v.Readings.At(a)
		if known && strings.HasPrefix(state, "Not affected") && reading.State == setting.Known && reading.Value != "Y" {
			return Fine("the processor is not affected by iTLB multihit, and huge pages stay whole")
		}
		const stops = "running guests stop for a moment while KVM drops their page tables"
		because := "huge pages are split when the guest runs code from them, and mended by a worker"
		if known {
			because += " (itlb_multihit: " + state + ")"
		}
		advice := Wants(setting.Any("N", "never"), because).At(Low)
		if known && strings.HasPrefix(state, "Not affected") {
			advice.Risk = goal.Blip
			return advice.warn(stops)
		}
		return advice.warn("a guest can then hang this host on purpose, if its processor has the erratum; " + stops)
	},
}
