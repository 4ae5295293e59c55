package knob

import (
	"fmt"
	"strconv"
	"strings"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// eachThread lists the kernel threads of one kind.
func eachThread(kind string) func(*facts.Host) []setting.Address {
	return func(h *facts.Host) []setting.Address {
		var all []setting.Address
		if h.Housekeeping != nil {
			for _, t := range h.Housekeeping.Threads {
				if strings.HasPrefix(t.Name, kind+"/") {
					all = append(all, setting.Of(setting.ThreadSched, t.Name))
				}
			}
		}
		return all
	}
}

// fifo is advice that a kernel thread has a realtime priority of at least n. With perCPU, threads of CPUs that are not
// a guest's are left alone.
func (v *View) fifo(a setting.Address, n int, perCPU bool, because string) Advice {
	quiet, _, advice, ok := v.split()
	if !ok {
		return advice
	}
	if perCPU {
		cpu, err := strconv.Atoi(a.Rest())
		if err != nil {
			return Skips("no such thread")
		}
		if !quiet.Has(cpu) {
			return Skips(fmt.Sprintf("CPU %d is the host's: only the guests' CPUs %s matter", cpu, quiet))
		}
	}
	policy, priority, _ := strings.Cut(v.Readings.At(a).Value, " ")
	if policy == "SCHED_FIFO" || policy == "SCHED_RR" {
		if has, err := strconv.Atoi(priority); err == nil && has >= n {
			return Fine(fmt.Sprintf("a realtime priority of %d, and %d is enough", has, n))
		}
	}
	return Wants(setting.Exact("SCHED_FIFO "+strconv.Itoa(n)), because).At(Low)
}

var rtKsoftirqd = &Knob{
	ID: "rt.ksoftirqd", Title: "Softirqs on guests' CPUs are not put off",
	Stage: datapath.Realtime, Risk: goal.None, Tiers: realtime(),
	Where: eachThread("ksoftirqd"),
	Want: func(v *View, a setting.Address) Advice {
		return v.fifo(a, 2, true, "behind a vCPU with a realtime priority it never runs, and timers wait")
	},
}

var rtKtimers = &Knob{
	ID: "rt.ktimers", Title: "Timers on guests' CPUs are not put off",
	Stage: datapath.Realtime, Risk: goal.None, After: []string{"rt.ksoftirqd"}, Tiers: realtime(),
	Where: eachThread("ktimers"),
	Want: func(v *View, a setting.Address) Advice {
		return v.fifo(a, 2, true, "behind a vCPU of the same priority that polls it never runs, and timers wait")
	},
}

var rtRCUC = &Knob{
	ID: "rt.rcuc", Title: "RCU callbacks on guests' CPUs are not put off",
	Stage: datapath.Realtime, Risk: goal.None, After: []string{"rt.ksoftirqd"}, Tiers: realtime(),
	Where: eachThread("rcuc"),
	Want: func(v *View, a setting.Address) Advice {
		return v.fifo(a, 3, true, "behind a vCPU with a realtime priority it starves until the kernel reports a stall")
	},
}

var rtRCUB = &Knob{
	ID: "rt.rcub", Title: "RCU can push readers that hold it up",
	Stage: datapath.Realtime, Risk: goal.None, After: []string{"rt.rcuc"}, Tiers: realtime(),
	Where: eachThread("rcub"),
	Want: func(v *View, a setting.Address) Advice {
		return v.fifo(a, 3, false, "it cannot push a reader past a vCPU with a realtime priority")
	},
}

// rtRuntime is how much of a period realtime threads may run, in µs; −1 means no limit.
var rtRuntime = setting.Of(setting.Sysctl, "kernel.sched_rt_runtime_us")

var rtThrottling = &Knob{
	ID: "rt.throttling", Title: "Realtime threads are not throttled",
	Stage: datapath.Realtime, Risk: goal.None, After: []string{"rt.ksoftirqd", "rt.rcuc", "rt.rcub"}, Tiers: realtime(),
	Where: fixed(rtRuntime),
	Want: func(v *View, a setting.Address) Advice {
		period := v.Readings.At(setting.Of(setting.Sysctl, "kernel.sched_rt_period_us"))
		if runtime := v.Readings.At(a); runtime.State == setting.Known && period.State == setting.Known &&
			runtime.Value == period.Value {
			return Wants(setting.Exact(noLimit),
				"as much as the period: nothing is stopped, but realtime threads are still counted by a timer").At(Info)
		}
		return Wants(setting.Exact(noLimit),
			"a vCPU with a realtime priority that polls is stopped for 50 ms of each second").At(Medium)
	},
}

var rtFairServer = &Knob{
	ID: "rt.fair_server", Title: "Ordinary threads get no reserved time on guests' CPUs",
	Stage: datapath.Realtime, Risk: goal.None, After: []string{"rt.throttling"}, Tiers: realtime(),
	Where: func(h *facts.Host) []setting.Address {
		var all []setting.Address
		for _, c := range h.Topology.CPUs {
			if c.Online {
				all = append(all,
					setting.Of(setting.Sysfs, "kernel/debug/sched/fair_server/cpu"+strconv.Itoa(c.ID), "runtime"))
			}
		}
		return all
	},
	Want: func(v *View, a setting.Address) Advice {
		quiet, _, advice, ok := v.split()
		if !ok {
			return advice
		}
		var cpu int
		_, err := fmt.Sscanf(a.Path, "kernel/debug/sched/fair_server/cpu%d/", &cpu)
		if err != nil || !quiet.Has(cpu) {
			return Skips("not a guest's CPU")
		}
		return Wants(setting.Exact("0"),
			"an ordinary thread that waits on this CPU stops the vCPU for up to 50 ms of each second").At(Low)
	},
}

var rtKthreads = &Knob{
	ID: "rt.kthreads", Title: "Kernel threads that may run anywhere run on the host's CPUs",
	Stage: datapath.Realtime, Risk: goal.None, After: []string{"rt.workqueue"}, Tiers: realtime(),
	Where: fixed(setting.Of(setting.ThreadCPUs, "kernel")),
	Want: keptOff("kernel threads that can be moved run on the host's CPUs; those of one CPU cannot be moved",
		"kernel threads that belong to no CPU may run on the guests' CPUs"),
}
