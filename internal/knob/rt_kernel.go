package knob

import (
	"fmt"
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var rtWatchdog = &Knob{
	ID: "rt.watchdog", Stage: datapath.Realtime, Risk: goal.None,
	Tiers: realtime(),
	Where: fixed(setting.Of(setting.Sysctl, "kernel.watchdog_cpumask")),
	Want: func(v *View, a setting.Address) Advice {
		quiet, loud, advice, ok := v.split()
		if !ok {
			return advice
		}
		if strings.Contains(" "+v.Kernel.CommandLine+" ", " nowatchdog ") {
			return Fine("switched off on the command line (nowatchdog)")
		}
		if v.avoids(a, quiet) {
			return Fine("the detectors watch only the host's CPUs")
		}
		return Wants(setting.Exact(loud.String()), fmt.Sprintf("a thread and an NMI take a few microseconds on the guests' CPUs %s every few seconds", quiet)).At(Low)
	},
}

var rtTracing = &Knob{
	ID: "rt.tracing", Stage: datapath.Realtime, Risk: goal.None,
	Tiers: realtime(),
	Where: fixed(setting.Of(setting.TraceEvents, "set_event"), setting.Of(setting.Sysfs, "kernel/tracing/current_tracer"), setting.Of(setting.Sysfs, "kernel/tracing/tracing_on")),
	Want: func(v *View, a setting.Address) Advice {
		switch {
		case a.Kind == setting.TraceEvents:
			return Wants(setting.Exact("none"), "each of these events writes a record where the guest waits").At(Medium)
		case strings.HasSuffix(a.Path, "current_tracer"):
			return Wants(setting.Exact("nop"), "a tracer writes a record at each function or event").At(Medium)
		}
		return Wants(setting.Exact("0"), "nobody should be able to trace by accident while latency matters").At(Info)
	},
}

var rtWorkqueue = &Knob{
	ID: "rt.workqueue", Stage: datapath.Realtime, Risk: goal.None,
	Tiers: realtime(),
	Where: fixed(setting.Of(setting.SysfsCPUs, "devices/virtual/workqueue/cpumask")),
	Want:  keptOff("unbound work runs on the host's CPUs", "unbound kernel work may run on the guests' CPUs"),
}

// keptOff wants a set of CPUs to have none of the quiet ones: fine says that it is so, off what is wrong, before their list.
func keptOff(fine, off string) func(*View, setting.Address) Advice {
	return func(v *View, a setting.Address) Advice {
		quiet, loud, advice, ok := v.split()
		if !ok {
			return advice
		}
		if v.avoids(a, quiet) {
			return Fine(fine)
		}
		return Wants(setting.Exact(loud.String()), fmt.Sprintf("%s %s", off, quiet)).At(Medium)
	}
}

var rtTimerMigration = &Knob{
	ID: "rt.timer_migration", Stage: datapath.Realtime, Risk: goal.None,
	Tiers: realtime(),
	Where: fixed(setting.Of(setting.Sysctl, "kernel.timer_migration")),
	Want: func(v *View, a setting.Address) Advice {
		if !v.inGuest() {
			return Fine("on a host migration keeps timers off the isolated CPUs; 0 is for the guest")
		}
		return Wants(setting.Exact("0"), "timers of idle CPUs fire on those that run the realtime work").At(Low)
	},
}

// statInterval is TuneD's value for realtime, in seconds.
const statInterval = 10

var rtStatInterval = &Knob{
	ID: "rt.stat_interval", Stage: datapath.Realtime, Risk: goal.None,
	Tiers: realtime(),
	Where: fixed(setting.Of(setting.Sysctl, "vm.stat_interval")),
	Want: func(v *View, a setting.Address) Advice {
		return Wants(setting.Least(statInterval), "each second a kworker folds memory counters on the guests' CPUs").At(Low)
	},
}
