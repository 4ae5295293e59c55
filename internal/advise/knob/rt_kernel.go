package knob

import (
	"fmt"
	"strings"

	"mpps/internal/model/datapath"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

var rtWatchdog = &Knob{
	ID: "rt.watchdog", Title: "Lockup detectors leave guests' CPUs alone",
	Stage: datapath.Realtime, Risk: goal.None, Tiers: realtime(),
	Where: fixed(setting.Of(setting.Sysctl, "kernel.watchdog_cpumask")),
	Want: forCPUSplit(func(v *View, guests, host setting.CPUSet, a setting.Address) Advice {
		if strings.Contains(" "+v.Kernel.CommandLine+" ", " nowatchdog ") {
			return Fine("switched off on the command line (nowatchdog)")
		}
		if v.avoids(a, guests) {
			return Fine("the detectors watch only the host's CPUs")
		}
		return exact(host.String(), fmt.Sprintf("a thread and an NMI take a few microseconds on the guests' CPUs %s "+
			"every few seconds", guests)).At(Low)
	}),
}

var rtTracing = &Knob{
	ID: "rt.tracing", Title: "Nothing is being traced", Stage: datapath.Realtime, Risk: goal.None, Tiers: realtime(),
	Where: fixed(setting.Of(setting.TraceEvents, "set_event"), setting.Of(setting.Sysfs,
		"kernel/tracing/current_tracer"), setting.Of(setting.Sysfs, "kernel/tracing/tracing_on")),
	Want: func(v *View, a setting.Address) Advice {
		switch {
		case a.Kind == setting.TraceEvents:
			return exact("none", "each of these events writes a record where the guest waits").At(Medium)
		case strings.HasSuffix(a.Path, "current_tracer"):
			return exact("nop", "a tracer writes a record at each function or event").At(Medium)
		}
		return exact("0", "nobody should be able to trace by accident while latency matters").At(Info)
	},
}

var rtWorkqueue = &Knob{
	ID: "rt.workqueue", Title: "Kernel work that may run anywhere runs on the host's CPUs",
	Stage: datapath.Realtime, Risk: goal.None, Tiers: realtime(),
	Where: fixed(setting.Of(setting.SysfsCPUs, "devices/virtual/workqueue/cpumask")),
	Want:  keptOff("unbound work runs on the host's CPUs", "unbound kernel work may run on the guests' CPUs"),
}

// keptOff wants a CPU list without the guests' CPUs. fine is the reason if it has none of them; off is the reason if it
// has some, to end with their list.
func keptOff(fine, off string) func(*View, setting.Address) Advice {
	return forCPUSplit(func(v *View, guests, host setting.CPUSet, a setting.Address) Advice {
		if v.avoids(a, guests) {
			return Fine(fine)
		}
		return exact(host.String(), fmt.Sprintf("%s %s", off, guests)).At(Medium)
	})
}

var rtTimerMigration = &Knob{
	ID: "rt.timer_migration", Title: "Timers stay where they were set, in a realtime guest",
	Stage: datapath.Realtime, Risk: goal.None, Tiers: realtime(),
	Where: fixed(setting.Of(setting.Sysctl, "kernel.timer_migration")),
	Want: func(v *View, a setting.Address) Advice {
		if !v.inGuest() {
			return Fine("on a host migration keeps timers off the isolated CPUs; 0 is for the guest")
		}
		return exact("0", "timers of idle CPUs fire on those that run the realtime work").At(Low)
	},
}

// statInterval is TuneD's value for realtime, in seconds.
const statInterval = 10

var rtStatInterval = &Knob{
	ID: "rt.stat_interval", Title: "Memory counters are folded less often",
	Stage: datapath.Realtime, Risk: goal.None, Tiers: realtime(),
	Where: fixed(setting.Of(setting.Sysctl, "vm.stat_interval")),
	Want: always(Wants(setting.Least(statInterval),
		"each second a kworker folds memory counters on the guests' CPUs").At(Low)),
}

// usualPeriod is the kernel's default, in microseconds (kernel/sched/rt.c, sysctl_sched_rt_period).
const usualPeriod = "1000000"

// noLimit is the runtime that means unlimited (kernel/sched/sched.h, RUNTIME_INF).
const noLimit = "-1"

var rtPeriod = &Knob{
	ID: "rt.period", Title: "The period of realtime throttling is the kernel's own",
	Stage: datapath.Realtime, Risk: goal.None, After: []string{"rt.throttling"}, Tiers: realtime(),
	Where: fixed(setting.Of(setting.Sysctl, "kernel.sched_rt_period_us")),
	Want: func(v *View, a setting.Address) Advice {
		because := "an odd period, left over from a trial"
		if v.Readings.At(rtRuntime).Value == noLimit {
			because += "; with a runtime of -1 it limits nothing"
		}
		return exact(usualPeriod, because).At(Info)
	},
}

var rtRCUNormal = &Knob{
	ID: "rt.rcu_normal", Title: "RCU does not hurry by interrupting everybody",
	Stage: datapath.Realtime, Risk: goal.None, Tiers: realtime(),
	Where: fixed(setting.Of(setting.Sysfs, "kernel/rcu_normal"), setting.Of(setting.Sysfs, "kernel/rcu_expedited")),
	Want: func(v *View, a setting.Address) Advice {
		if strings.HasSuffix(a.Path, "rcu_normal") {
			return exact("1", "an expedited grace period interrupts every CPU that is in the kernel").At(Low)
		}
		return exact("0", "every grace period is an expedited one, which interrupts all CPUs").At(Low)
	},
}

var rtMCE = &Knob{
	ID: "rt.mce", Title: "Corrected hardware errors are not looked for",
	Limit: onX86,
	Stage: datapath.Realtime, Risk: goal.Data, Tiers: realtime(),
	Where: fixed(setting.Of(setting.Sysfs, "devices/system/machinecheck/machinecheck0/ignore_ce"),
		setting.Of(setting.Sysfs, "devices/system/machinecheck/machinecheck0/check_interval")),
	Want: func(v *View, a setting.Address) Advice {
		if strings.HasSuffix(a.Path, "check_interval") {
			return Fine("ignore_ce stops the polling too; 0 here is the milder choice")
		}
		return exact("1", "a timer reads each CPU's error banks every few minutes, isolated CPUs' "+
			"too").At(Low).warn("memory that begins to fail is no longer noticed by its corrected errors")
	},
}

var rtSplitLock = &Knob{
	ID: "rt.split_lock", Title: "A guest is not put to sleep for a split lock",
	Limit: onX86,
	Stage: datapath.Realtime, Risk: goal.Security, Tiers: realtime(),
	Where: fixed(setting.Of(setting.Sysctl, "kernel.split_lock_mitigate")),
	Want: func(v *View, _ setting.Address) Advice {
		if cpuVendor(v.Host) == AMD {
			return Fine("AMD's processors do not report split locks")
		}
		return exact("0", "one split lock in the guest puts its vCPU to sleep for 10 ms").At(Low).
			warn("a guest that takes split locks on purpose slows the whole host down")
	},
}
