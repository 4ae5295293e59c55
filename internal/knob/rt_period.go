package knob

import (
	"mpps/internal/datapath"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

// usualPeriod is the kernel's own, in microseconds (kernel/sched/rt.c, sysctl_sched_rt_period).
const usualPeriod = "1000000"

// noLimit is the runtime that stands for none (kernel/sched/sched.h, RUNTIME_INF).
const noLimit = "-1"

var rtPeriod = &Knob{
	ID: "rt.period", Stage: datapath.Realtime, Risk: goal.None,
	After: []string{"rt.throttling"}, Tiers: realtime(),
	Where: fixed(setting.Of(setting.Sysctl, "kernel.sched_rt_period_us")),
	Want: func(v *View, a setting.Address) Advice {
		because := "an odd period, left over from a trial"
		if v.Readings.At(rtRuntime).Value == noLimit {
			because += "; with a runtime of -1 it limits nothing"
		}
		return Wants(setting.Exact(usualPeriod), because).At(Info)
	},
}
