package realtime

import (
	"cmp"
	"fmt"
	"strings"

	"mpps/internal/advise/knob"
	"mpps/internal/model/setting"
)

var (
	kernelWorkqueue = &Kind{"kernel.workqueue", Kernel, "Work that may run anywhere may run there", knob.Medium,
		"writeback, filesystems and much of the network do their work in kworkers on any CPU of this mask",
		"rt.workqueue"}
	kernelWatchdog = &Kind{"kernel.watchdog", Kernel, "Lockup detectors watch them", knob.Low,
		"every few seconds a timer and an NMI take some microseconds on each CPU that is watched", "rt.watchdog"}
	kernelRCU = &Kind{"kernel.rcuo", Kernel, "RCU's threads may run there", knob.Medium,
		"what rcu_nocbs takes off a CPU is done by threads that come back to it where nobody pins them", "rt.kthreads"}
	kernelTimers = &Kind{"kernel.timer_migration", Kernel, "Timers stay on the CPU that sets them", knob.Low,
		"without migration a timer that was set on one of these CPUs fires there, instead of on a CPU of the host",
		"rt.timer_migration"}
	kernelThrottling = &Kind{"kernel.throttling", Kernel, "Realtime threads are stopped every second", knob.Medium,
		"a vCPU with a realtime priority that does not sleep is stopped for the rest of each period: by default 50 " +
			"ms of every second", "rt.throttling"}
)

// judgeKernel judges the kernel's own work.
func judgeKernel(v *view) {
	v.addOverlap(kernelWorkqueue, "workqueue cpumask", "it has",
		v.cpuSet(setting.Of(setting.SysfsCPUs, "devices/virtual/workqueue/cpumask")),
		fmt.Sprintf("echo %s > /sys/devices/virtual/workqueue/cpumask", v.houseMask()))
	if on := v.reading(setting.Of(setting.Sysctl, "kernel.watchdog")); on == "1" && !v.hasArgument("nowatchdog") {
		v.addOverlap(kernelWatchdog, "kernel.watchdog_cpumask", "it has",
			v.cpuSet(setting.Of(setting.Sysctl, "kernel.watchdog_cpumask")),
			fmt.Sprintf("sysctl kernel.watchdog_cpumask=%s", v.houseList()))
	}
	if v.reading(setting.Of(setting.Sysctl, "kernel.timer_migration")) == "0" {
		v.add(kernelTimers, "kernel.timer_migration", v.s.CPUs, "it is 0; that is for guests, not for their host",
			"sysctl kernel.timer_migration=1")
	}
	v.judgeThrottling()
	v.judgeRCUThreads()
}

// reading returns a value, or nothing if it is absent or unknown. It reports an unknown one as unjudged.
func (v *view) reading(a setting.Address) string {
	r := v.h.Readings.At(a)
	if r.State == setting.Unknown {
		v.addUnjudged(a.String(), r.Why)
	}
	if r.State != setting.Known {
		return ""
	}
	return r.Value
}

// hasArgument reports whether the running kernel was started with an argument.
func (v *view) hasArgument(name string) bool {
	return setting.ParseCommandLine(v.h.Kernel.CommandLine).Get(name).State == setting.Known
}

// judgeThrottling judges realtime throttling if vCPUs have a realtime priority.
func (v *view) judgeThrottling() {
	var scheduled []string
	for _, g := range v.guests {
		if g.realtime && g.scheduled() {
			scheduled = append(scheduled, g.f.Name)
		}
	}
	if len(scheduled) == 0 {
		return
	}
	if us := v.reading(setting.Of(setting.Sysctl, "kernel.sched_rt_runtime_us")); us != "" && us != "-1" {
		v.add(kernelThrottling, "kernel.sched_rt_runtime_us", v.s.CPUs,
			fmt.Sprintf("it is %s, and the vCPUs of %s have a realtime priority", us, strings.Join(scheduled, ", ")),
			"sysctl kernel.sched_rt_runtime_us=-1")
	}
}

// judgeRCUThreads judges where the rcuo threads may run, which invoke RCU callbacks of offloaded CPUs.
func (v *view) judgeRCUThreads() {
	if v.o == nil {
		return
	}
	var names []string
	in := setting.CPUSet{}
	first := 0
	for _, t := range v.o.Threads {
		if share := t.Affinity.And(v.s.CPUs); t.Kernel && strings.HasPrefix(t.Comm, "rcuo") && len(share) > 0 &&
			!v.ranThere(t) {
			first = cmp.Or(first, t.TID)
			names, in = append(names, t.Comm), in.Or(share)
		}
	}
	if len(names) > 0 {
		v.add(kernelRCU, "rcuo threads", in, fmt.Sprintf("%d of them may run there: %s", len(names),
			strings.Join(names[:min(len(names), 6)], ", ")),
			fmt.Sprintf("taskset -pc %s %d, and the same for each, or all at once with rt.kthreads; nohz_full at "+
				"boot does it by itself", v.houseList(), first)).with("threads", float64(len(names)))
	}
}
