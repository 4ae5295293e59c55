package knob

import (
	"fmt"
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var rtWatchdog = &Knob{
	ID: "rt.watchdog", Title: "Lockup detectors leave guests' CPUs alone", Stage: datapath.Realtime, Risk: goal.None,
	Tiers: realtime(),
	Doc: Doc{
		Want:   "the host's CPUs alone",
		Why:    "The soft lockup detector wakes a thread on each CPU every four seconds, the NMI one takes a performance counter and interrupts by NMI about as often: each is a few microseconds of the guest's time.",
		Cost:   "A CPU that hangs is no longer reported. watchdog_cpumask keeps the detectors on the host's own CPUs.",
		Verify: "sysctl kernel.watchdog_cpumask names none of the guests' CPUs, or kernel.watchdog is 0; NMI in /proc/interrupts stands still there.",
		Traps: []string{
			"nohz_full CPUs are already excluded: there is then nothing to do.",
			"nowatchdog on the command line switches all off for good; watchdog_cpumask is the narrower way, and what mpps does.",
			"kernel.nmi_watchdog=0 switches the NMI detector off on all CPUs, where the mask keeps it for the host's own; it takes away a hardware counter that perf and the guest's virtual PMU could use.",
			"nosoftlockup on the command line, as TuneD's realtime profile has it, switches the soft one off on all CPUs (kernel.soft_watchdog=0 at run time): the host's own CPUs lose it too.",
			"The hung task detector (kernel.hung_task_timeout_secs) is another, runs on the host's CPUs, and costs nothing here.",
		},
		Sources: []Source{
			{"nohz_full CPUs are excluded; the mask", "Documentation/admin-guide/lockup-watchdogs.rst; kernel/watchdog.c, lockup_detector_init"},
			{"watchdogs off for realtime", "founding experience"},
		},
	},
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
	ID: "rt.tracing", Title: "Nothing is being traced", Stage: datapath.Realtime, Risk: goal.None,
	Tiers: realtime(),
	Doc: Doc{
		Want:   "no event, the tracer nop, tracing_on 0",
		Why:    "A tracer or an event that somebody left on writes a record at each function or event: up to a fifth of all CPU time with the function tracer, and hooks in the scheduler's and the interrupts' path with events.",
		Cost:   "What was being recorded is not recorded any more.",
		Verify: "/sys/kernel/tracing: tracing_on 0, current_tracer nop, set_event empty.",
		Traps: []string{
			"tracing_on is 1 on a fresh system and costs nothing while no tracer and no event is on: it is the switch, not the work. It is set to 0 last of all.",
			"Latency tests (cyclictest -b, rtla) switch tracers on by themselves and may leave them on when they are killed.",
			"perf and eBPF programs are not in these files: bpftool prog, and perf's own events, show them.",
			"Other buffers (instances/, trace-cmd -B) have switches of their own.",
		},
		Sources: []Source{
			{"files", "Documentation/trace/ftrace.rst; Documentation/trace/events.rst"},
			{"tracing_on=0, no tracer, no events", "founding experience"},
		},
	},
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
	ID: "rt.workqueue", Title: "Kernel work that may run anywhere runs on the host's CPUs", Stage: datapath.Realtime, Risk: goal.None,
	Tiers: realtime(),
	Doc: Doc{
		Want:   "the host's CPUs",
		Why:    "Unbound kernel work (writeback, filesystems, much of the network) runs in kworkers on any CPU of this mask. isolcpus and nohz_full take their CPUs out at boot; CPUs that were set aside later are still in.",
		Cost:   "Fewer CPUs for that work: with one or two it can queue up under disk load.",
		Verify: "/sys/devices/virtual/workqueue/cpumask; no kworker/u* runs on the guests' CPUs (perf record -e workqueue:workqueue_execute_start -a).",
		Traps: []string{
			"Work that is bound to a CPU (kworker/N:M without u) stays: only what causes it can be moved.",
			"Some queues have masks of their own below /sys/devices/virtual/workqueue/NAME, which are cut down to this one.",
			"The mask cannot be empty, and one without an online CPU falls back to all.",
		},
		Sources: []Source{
			{"mask of all unbound workqueues", "Documentation/core-api/workqueue.rst, \"Affinity Scopes\"; kernel/workqueue.c, workqueue_set_unbound_cpumask"},
			{"isolated CPUs are excluded at boot", "kernel/workqueue.c, workqueue_init_early, HK_TYPE_WQ"},
		},
	},
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
	ID: "rt.timer_migration", Title: "Timers stay where they were set, in a realtime guest", Stage: datapath.Realtime, Risk: goal.None,
	Tiers: realtime(),
	Doc: Doc{
		Want:   "0 in a realtime guest; on a host as it is",
		Why:    "With migration an idle CPU hands its timers to a busy one. In a realtime guest whose isolated vCPUs are the busy ones, other vCPUs' timers then fire there.",
		Cost:   "Idle CPUs wake for their own timers: a little power.",
		Verify: "sysctl kernel.timer_migration is 0 in the guest; LOC in /proc/interrupts grows as slowly as the workload's own timers.",
		Traps: []string{
			"It is the guest's value that matters (guest.realtime says so too): on a host with isolated CPUs migration takes timers off them, which is wanted.",
			"nohz_full CPUs never take timers of others, with or without it.",
			"Absent in kernels without NO_HZ_COMMON.",
		},
		Sources: []Source{
			{"what it does", "kernel/time/timer.c, timer_migration_handler; kernel/sched/core.c, get_nohz_timer_target"},
			{"0 in the guest", "founding experience"},
		},
	},
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
	ID: "rt.stat_interval", Title: "Memory counters are folded less often", Stage: datapath.Realtime, Risk: goal.None,
	Tiers: realtime(),
	Doc: Doc{
		Want:   "10 seconds or more",
		Why:    "Every vm.stat_interval seconds a kworker on each CPU that changed its memory counters folds them into the totals: a context switch and a few microseconds on a guest's CPU, each second by default.",
		Cost:   "Numbers in /proc/vmstat and /proc/zoneinfo are older by up to the interval, and reclaim decides on them.",
		Verify: "sysctl vm.stat_interval; workqueue events of vmstat_update become rarer.",
		Traps: []string{
			"The work is put off on its own on CPUs whose counters do not change, and nohz_full CPUs are left out on newer kernels.",
			"Minutes, as sometimes advised, let free memory be misjudged by what all CPUs hold back.",
		},
		Sources: []Source{
			{"one second by default", "mm/vmstat.c, sysctl_stat_interval, vmstat_shepherd"},
			{"10 seconds", "TuneD, profiles/realtime/tuned.conf"},
		},
	},
	Where: fixed(setting.Of(setting.Sysctl, "vm.stat_interval")),
	Want: func(v *View, a setting.Address) Advice {
		return Wants(setting.Least(statInterval), "each second a kworker folds memory counters on the guests' CPUs").At(Low)
	},
}
