package knob

import (
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var kvmTimerAdvance = &Knob{
	ID: "kvm.timer_advance", Stage: datapath.KVM, Risk: goal.GuestRestart, Tiers: tiers(goal.Realtime),
	Where: fixed(setting.Of(setting.ModuleParam, "kvm", "lapic_timer_advance"), setting.Of(setting.ModuleParam, "kvm", "lapic_timer_advance_ns")),
	Want: func(v *View, a setting.Address) Advice {
		const late = "each of the guest's timers comes late by the way back into the guest"
		if strings.HasSuffix(a.Path, "_ns") {
			switch n, known := number(v.Readings.At(a)); {
			case known && n > 0:
				return Fine("somebody has measured it; since 5.1 the kernel learns it by itself (-1)")
			case known && n == 0 && !since(v.Kernel.Release, 5, 1):
				return Unsure("this kernel does not learn it by itself: measure it with tscdeadline_latency, or take a newer kernel")
			}
			return Wants(setting.Exact("-1"), late).At(Low)
		}
		return Wants(setting.Any("Y", "1"), late).At(Low)
	},
}
