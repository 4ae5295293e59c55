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
	ID: "rt.period", Title: "The period of realtime throttling is the kernel's own", Stage: datapath.Realtime, Risk: goal.None,
	After: []string{"rt.throttling"}, Tiers: realtime(),
	Doc: Doc{
		Want: "1000000, the kernel's own",
		Why: "The period is what realtime threads' runtime is counted in: of each period they may run for sched_rt_runtime_us. With a runtime of -1 there is no limit and the period means nothing to them. " +
			"It still is what the share of deadline threads is counted by, and what the limit is of again once somebody takes -1 back: an odd one left over from a trial makes a hole of another length.",
		Cost:   "None.",
		Verify: "sysctl kernel.sched_rt_period_us kernel.sched_rt_runtime_us.",
		Traps: []string{
			"kernel.sched_rt_period_us=-1, found in old instructions, is refused: the period must be 1 or more (EINVAL), and the limit stays as it was. What was meant is kernel.sched_rt_runtime_us=-1 (rt.throttling).",
			"runtime equal to the period (1000000 of 1000000) is not the same as -1: realtime threads are never stopped either, but they are still counted, by a timer each period on CPUs that run them.",
			"A runtime larger than the period is refused with EINVAL: to make the period shorter, the runtime comes first.",
			"A short period with the same share (9500 of 10000) makes many short holes instead of one of 50 ms: no wake-up is better for it.",
			"The fair server of Linux 6.12 and newer has a period of its own in debugfs: rt.fair_server.",
		},
		Sources: []Source{
			{"a period below 1 is refused", "kernel/sched/rt.c, sched_rt_sysctls: sched_rt_period_us, SYSCTL_ONE; before 6.x sched_rt_global_validate, EINVAL"},
			{"runtime larger than the period; -1", "kernel/sched/rt.c, sched_rt_global_validate, rt_bandwidth_enabled, sched_rt_runtime_exceeded"},
			{"sched_rt_period_us=-1", "founding experience, where it had no effect"},
		},
	},
	Where: fixed(setting.Of(setting.Sysctl, "kernel.sched_rt_period_us")),
	Want: func(v *View, a setting.Address) Advice {
		because := "an odd period, left over from a trial"
		if v.Readings.At(rtRuntime).Value == noLimit {
			because += "; with a runtime of -1 it limits nothing"
		}
		return Wants(setting.Exact(usualPeriod), because).At(Info)
	},
}
