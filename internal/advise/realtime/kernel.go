package realtime

import (
	"cmp"
	"fmt"
	"strings"

	"mpps/internal/model/setting"
)

var (
	kernelWorkqueue  = kind("kernel.workqueue")
	kernelWatchdog   = kind("kernel.watchdog")
	kernelRCU        = kind("kernel.rcuo")
	kernelTimers     = kind("kernel.timer_migration")
	kernelThrottling = kind("kernel.throttling")
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
