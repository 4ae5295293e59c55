package knob

import (
	"fmt"
	"slices"
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

// fifoKnob wants a realtime priority of at least least for the kernel threads of one kind. With perCPU, threads of the
// host's own CPUs are left alone.
func fifoKnob(kind, title string, after []string, least int, perCPU bool, because string) *Knob {
	return &Knob{
		ID: "rt." + kind, Title: title, Stage: datapath.Realtime, Risk: goal.None, After: after, Tiers: realtime(),
		Where: eachThread(kind),
		Want: forCPUSplit(func(v *View, guests, _ setting.CPUSet, a setting.Address) Advice {
			if perCPU {
				cpu, err := strconv.Atoi(a.Rest())
				if err != nil {
					return Skips("no such thread")
				}
				if !guests.Has(cpu) {
					return Skips(fmt.Sprintf("CPU %d is the host's: only the guests' CPUs %s matter", cpu, guests))
				}
			}
			if !v.realtimeVCPUs() {
				return Skips(noRealtime)
			}
			policy, priority, _ := strings.Cut(v.Readings.At(a).Value, " ")
			if policy == "SCHED_FIFO" || policy == "SCHED_RR" {
				if has, err := strconv.Atoi(priority); err == nil && has >= least {
					return Fine(fmt.Sprintf("a realtime priority of %d, and %d is enough", has, least))
				}
			}
			return exact("SCHED_FIFO "+strconv.Itoa(least), because).At(Low)
		}),
	}
}

var (
	rtKsoftirqd = fifoKnob("ksoftirqd", "Softirqs on guests' CPUs are not put off", nil, 2, true,
		"behind a vCPU with a realtime priority it never runs, and timers wait")
	rtKtimers = fifoKnob("ktimers", "Timers on guests' CPUs are not put off", []string{"rt.ksoftirqd"}, 2, true,
		"behind a vCPU of the same priority that polls it never runs, and timers wait")
	rtRCUC = fifoKnob("rcuc", "RCU callbacks on guests' CPUs are not put off", []string{"rt.ksoftirqd"}, 3, true,
		"behind a vCPU with a realtime priority it starves until the kernel reports a stall")
	rtRCUB = fifoKnob("rcub", "RCU can push readers that hold it up", []string{"rt.rcuc"}, 3, false,
		"it cannot push a reader past a vCPU with a realtime priority")
)

// rtRuntime is how long realtime threads may run in each period, in µs; −1 means no limit.
var rtRuntime = setting.Of(setting.Sysctl, "kernel.sched_rt_runtime_us")

var rtThrottling = &Knob{
	ID: "rt.throttling", Title: "Realtime threads are not throttled",
	Stage: datapath.Realtime, Risk: goal.None, After: []string{"rt.ksoftirqd", "rt.rcuc", "rt.rcub"}, Tiers: realtime(),
	Where: fixed(rtRuntime),
	Want: func(v *View, a setting.Address) Advice {
		if len(v.Topology.Online) == 1 {
			return Skips("the host has one CPU online: a realtime thread that spins would take it from everything else")
		}
		if open := Exposed(v.Host); len(open) > 0 {
			return skipExposed(open)
		}
		if len(v.Guests) > 0 && len(v.guestCPUs()) == 0 {
			return Unsure(noSplit)
		}
		if !v.realtimeVCPUs() {
			return Skips(noRealtime)
		}
		period := v.Readings.At(setting.Of(setting.Sysctl, "kernel.sched_rt_period_us"))
		if runtime := v.Readings.At(a); runtime.State == setting.Known && period.State == setting.Known &&
			runtime.Value == period.Value {
			return exact(noLimit,
				"as much as the period: nothing is stopped, but realtime threads are still counted by a timer").At(Info)
		}
		return exact(noLimit,
			"a vCPU with a realtime priority that polls is stopped for 50 ms of each second").At(Medium)
	},
}

const fairServerFile = "kernel/debug/sched/fair_server/cpu%d/runtime"

var rtFairServer = &Knob{
	ID: "rt.fair_server", Title: "Ordinary threads get no reserved time on guests' CPUs",
	Stage: datapath.Realtime, Risk: goal.None, After: []string{"rt.throttling"}, Tiers: realtime(),
	Where: eachCPU(fairServerFile),
	Want: forGuestCPU(fairServerFile, func(v *View, _ setting.Address) Advice {
		if open := Exposed(v.Host); len(open) > 0 {
			return skipExposed(open)
		}
		if !v.realtimeVCPUs() {
			return Skips(noRealtime)
		}
		return exact("0", "an ordinary thread that waits on this CPU stops the vCPU for up to 50 ms of each second").
			At(Low)
	}),
}

const noRealtime = "no vCPU has a realtime priority, nor is one to get it (domain.vcpusched)"

// realtimeVCPUs reports whether a vCPU has a realtime priority, or can get one: its guest has dedicated CPUs, now or by
// what is planned, and libvirt knows it here or in a pod. A host without guests is made ready for some.
func (v *View) realtimeVCPUs() bool {
	return len(v.Guests) == 0 || slices.ContainsFunc(v.Guests, func(g facts.Guest) bool {
		return slices.ContainsFunc(g.Threads, func(t facts.Thread) bool {
			return t.Role == "vcpu" && (t.Policy == "SCHED_FIFO" || t.Policy == "SCHED_RR")
		}) || (g.Managed || g.Platform().Kubernetes()) && v.Goal.ForGuest(g.Name) &&
			(g.Active() || v.Goal.Guest == g.Name) && v.sharesCPUs(&g) == ""
	})
}

// Exposed returns the CPUs on which vCPUs with a realtime priority may run now and that are not set aside: there only
// the kernel's limit leaves time for the CPU's kworkers and whatever else the scheduler puts there.
func Exposed(h *facts.Host) (open setting.CPUSet) {
	for g := range facts.Each(h.Guests) {
		for _, t := range g.Threads {
			if t.Role == "vcpu" && g.Active() && (t.Policy == "SCHED_FIFO" || t.Policy == "SCHED_RR") {
				open = open.Or(t.Affinity)
			}
		}
	}
	return open.Minus(h.SetAside())
}

func skipExposed(open setting.CPUSet) Advice {
	return Skips("vCPUs with a realtime priority may run on " + open.Words() + ", which are not set aside: one that " +
		"polls would keep everything else off for good")
}

var rtKthreads = &Knob{
	ID: "rt.kthreads", Title: "Kernel threads that may run anywhere run on the host's CPUs",
	Stage: datapath.Realtime, Risk: goal.None, After: []string{"rt.workqueue"}, Tiers: realtime(),
	Where: fixed(setting.Of(setting.ThreadCPUs, "kernel")),
	Want: keptOff("kernel threads that can be moved run on the host's CPUs; those of one CPU cannot be moved",
		"kernel threads that belong to no CPU may run on the guests' CPUs"),
}
