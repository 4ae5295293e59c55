package knob

import (
	"fmt"
	"strconv"
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
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

// fifo is advice that a kernel thread has a realtime priority of at least n. Threads of a CPU that is no guest's are left
// alone where perCPU.
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
	if policy, priority, realtime := strings.Cut(v.Readings.At(a).Value, " "); realtime && (policy == "SCHED_FIFO" || policy == "SCHED_RR") {
		if has, err := strconv.Atoi(priority); err == nil && has >= n {
			return Fine(fmt.Sprintf("a realtime priority of %d, and %d is enough", has, n))
		}
	}
	return Wants(setting.Exact("SCHED_FIFO "+strconv.Itoa(n)), because).At(Low)
}

const (
	threadVerify = "ps -eo comm,cls,rtprio shows FF and the priority."
	threadLate   = "The thread goes and comes with its CPU (hotplug, smt/control): the value must be set again then."
)

var rtKsoftirqd = &Knob{
	ID: "rt.ksoftirqd", Title: "Softirqs on guests' CPUs are not put off", Stage: datapath.Realtime, Risk: goal.None,
	Tiers: realtime(),
	Doc: Doc{
		Want: "SCHED_FIFO 2 or more on the guests' CPUs",
		Why: "Timers and network work that cannot be done in an interrupt's tail go to ksoftirqd. On a CPU whose vCPU runs with a realtime priority an ordinary thread never runs: the work waits, and what it holds up waits with it. " +
			"With SCHED_FIFO 2 it runs above a vCPU of priority 1.",
		Cost:   "What lands in ksoftirqd interrupts the vCPU; but that is rare on an isolated CPU, and short.",
		Verify: threadVerify,
		Traps: []string{
			"The priorities make sense only in their order: vCPU 1, ksoftirqd 2, rcuc and rcub 3.",
			"A vCPU without a realtime priority (vcpusched) needs none of this.",
			threadLate,
		},
		Sources: []Source{
			{"SCHED_FIFO 2 on isolated CPUs", "founding experience; TuneD, realtime-virtual-host"},
			{"what goes there", "kernel/softirq.c, wakeup_softirqd"},
		},
	},
	Where: eachThread("ksoftirqd"),
	Want: func(v *View, a setting.Address) Advice {
		return v.fifo(a, 2, true, "behind a vCPU with a realtime priority it never runs, and timers wait")
	},
}

var rtKtimers = &Knob{
	ID: "rt.ktimers", Title: "Timers on guests' CPUs are not put off", Stage: datapath.Realtime, Risk: goal.None,
	After: []string{"rt.ksoftirqd"}, Tiers: realtime(),
	Doc: Doc{
		Want: "SCHED_FIFO 2 or more on the guests' CPUs",
		Why: "Newer PREEMPT_RT kernels run timers that are not urgent in a thread of each CPU, ktimers/N, so that network work in ksoftirqd does not hold them up. It starts with SCHED_FIFO 1: the priority that a vCPU has too, " +
			"and of two with the same priority the one that runs goes on. Behind a vCPU that polls its timers never fire. With 2 it runs above it.",
		Cost:   "Timers interrupt the vCPU, as they do on kernels without that thread; on an isolated CPU there are few.",
		Verify: threadVerify,
		Traps: []string{
			"There are such threads on PREEMPT_RT kernels only: in patched ones since about 5.16, in Linux itself since 6.13. Others run timers in the softirq itself.",
			"Old profiles set ktimersoftd/N, which kernels up to 4.16 with the patch had: another name, and no such thread today.",
			"High resolution timers of realtime threads and of KVM are not among them: these fire in the interrupt.",
			threadLate,
		},
		Sources: []Source{
			{"thread and priority", "kernel/softirq.c, timer_thread, ktimerd_setup (sched_set_fifo_low); kernel commit 49a17639508c (softirq: Use a dedicated thread for timer wakeups on PREEMPT_RT)"},
			{"ktimersoftd", "TuneD, profiles/realtime-virtual-host/tuned.conf"},
		},
	},
	Where: eachThread("ktimers"),
	Want: func(v *View, a setting.Address) Advice {
		return v.fifo(a, 2, true, "behind a vCPU of the same priority that polls it never runs, and timers wait")
	},
}

var rtRCUC = &Knob{
	ID: "rt.rcuc", Title: "RCU callbacks on guests' CPUs are not put off", Stage: datapath.Realtime, Risk: goal.None,
	After: []string{"rt.ksoftirqd"}, Tiers: realtime(),
	Doc: Doc{
		Want:   "SCHED_FIFO 3 or more on the guests' CPUs",
		Why:    "On PREEMPT_RT kernels each CPU's RCU callbacks run in a thread rcuc. Below a vCPU with a realtime priority it starves, memory that RCU should free piles up, and in the end the kernel reports stalls and interrupts everything.",
		Cost:   "Callbacks interrupt the vCPU; rcu_nocbs moves most of them to other CPUs.",
		Verify: threadVerify,
		Traps: []string{
			"There are such threads on realtime kernels only (rcutree.use_softirq=0).",
			"rcutree.kthread_prio=3 on the command line sets them and rcub from boot on.",
			threadLate,
		},
		Sources: []Source{
			{"rcuc", "kernel/rcu/tree.c, rcu_cpu_thread_spec; Documentation/admin-guide/kernel-parameters.txt, rcutree.kthread_prio"},
			{"SCHED_FIFO 3", "founding experience"},
		},
	},
	Where: eachThread("rcuc"),
	Want: func(v *View, a setting.Address) Advice {
		return v.fifo(a, 3, true, "behind a vCPU with a realtime priority it starves until the kernel reports a stall")
	},
}

var rtRCUB = &Knob{
	ID: "rt.rcub", Title: "RCU can push readers that hold it up", Stage: datapath.Realtime, Risk: goal.None,
	After: []string{"rt.rcuc"}, Tiers: realtime(),
	Doc: Doc{
		Want:   "SCHED_FIFO 3 or more",
		Why:    "rcub lends its priority to a preempted thread that holds up an RCU grace period. If it has less than the thread that preempted it (a vCPU), the grace period never ends and every CPU feels it.",
		Cost:   "None worth naming: it runs only when something is held up.",
		Verify: threadVerify,
		Traps: []string{
			"rcub/N is numbered by group of CPUs, not by CPU: all of them are set.",
			"There are such threads only with CONFIG_RCU_BOOST, which realtime kernels have.",
			"They may start late, with the first grace period that needs them: look again after the guest runs.",
		},
		Sources: []Source{
			{"boosting", "kernel/rcu/tree_plugin.h, rcu_boost_kthread; Documentation/RCU/Design/Requirements/Requirements.rst"},
			{"SCHED_FIFO 3", "founding experience"},
		},
	},
	Where: eachThread("rcub"),
	Want: func(v *View, a setting.Address) Advice {
		return v.fifo(a, 3, false, "it cannot push a reader past a vCPU with a realtime priority")
	},
}

// rtRuntime is how much of a period realtime threads may run, in µs; −1: as much as they like.
var rtRuntime = setting.Of(setting.Sysctl, "kernel.sched_rt_runtime_us")

var rtThrottling = &Knob{
	ID: "rt.throttling", Title: "Realtime threads are not throttled", Stage: datapath.Realtime, Risk: goal.None,
	After: []string{"rt.ksoftirqd", "rt.rcuc", "rt.rcub"}, Tiers: realtime(),
	Doc: Doc{
		Want:   "-1",
		Why:    "By default realtime threads may use 950 ms of each second; then they are stopped for 50 ms so that others can run. A vCPU with a realtime priority that polls meets this every second: a hole of 50 ms in the guest.",
		Cost:   "A realtime thread that runs away takes its CPU until somebody stops it from another one. Never with all CPUs in its mask.",
		Verify: "sysctl kernel.sched_rt_runtime_us is -1; no \"sched: RT throttling activated\" in dmesg.",
		Traps: []string{
			"sched_rt_period_us=-1 is old advice and refused by the kernel: the period must be 1 or more (rt.period). What is meant is sched_rt_runtime_us=-1.",
			"A runtime equal to the period stops nothing either, but goes on counting: -1 is what switches it off.",
			"From Linux 6.12 on the throttling itself is gone (except with RT_GROUP_SCHED), and a fair server gives ordinary threads their share instead, whatever this says: see rt.fair_server.",
			"Where realtime groups are compiled in (CONFIG_RT_GROUP_SCHED) each control group has a share of its own, 0 unless somebody gives it one, and without a share no realtime thread starts in it (EPERM). With -1 for the whole nobody asks for the share; older kernels then refuse a limit again with EBUSY while realtime threads run in such a group.",
		},
		Sources: []Source{
			{"950 of 1000 ms; -1 is no limit", "Documentation/scheduler/sched-rt-group.rst; kernel/sched/rt.c, sysctl_sched_rt_runtime"},
			{"shares of groups", "kernel/sched/syscalls.c, __sched_setscheduler; kernel/sched/rt.c, tg_rt_schedulable"},
			{"a period below 1 is refused", "kernel/sched/rt.c, sched_rt_sysctls: sched_rt_period_us, SYSCTL_ONE; before 6.x sched_rt_global_validate, EINVAL"},
			{"-1 for realtime", "founding experience, there by the wrong name"},
		},
	},
	Where: fixed(rtRuntime),
	Want: func(v *View, a setting.Address) Advice {
		period := v.Readings.At(setting.Of(setting.Sysctl, "kernel.sched_rt_period_us"))
		if runtime := v.Readings.At(a); runtime.State == setting.Known && period.State == setting.Known && runtime.Value == period.Value {
			return Wants(setting.Exact(noLimit), "as much as the period: nothing is stopped, but realtime threads are still counted by a timer").At(Info)
		}
		return Wants(setting.Exact(noLimit), "a vCPU with a realtime priority that polls is stopped for 50 ms of each second").At(Medium)
	},
}

var rtFairServer = &Knob{
	ID: "rt.fair_server", Title: "Ordinary threads get no reserved time on guests' CPUs", Stage: datapath.Realtime, Risk: goal.None,
	After: []string{"rt.throttling"}, Tiers: realtime(),
	Doc: Doc{
		Want:   "0 on the guests' CPUs",
		Why:    "Newer kernels keep 50 ms of each second on every CPU for ordinary threads by a deadline server, whatever sched_rt_runtime_us says. On a guest's CPU any ordinary thread that is waiting there (a kworker) then stops the vCPU for that long.",
		Cost:   "Ordinary threads that are bound to that CPU wait until the vCPU sleeps: kworkers of the CPU among them. A vCPU that never sleeps must run on a CPU without such work.",
		Verify: "cat /sys/kernel/debug/sched/fair_server/cpuN/runtime says 0; dmesg says \"Fair server disabled in CPU N\".",
		Traps: []string{
			"It is in debugfs: gone where that is not mounted, locked down, or not root's.",
			"Runtime counts in nanoseconds; the default is 50000000 of a period of 1000000000.",
			"sched_rt_runtime_us=-1 does not switch it off: that was the whole answer before 6.12, and is none of it since.",
			"But it comes first (rt.throttling): while realtime threads have a limit, Linux 6.12 answers 0 with EBUSY. dmesg says that the server is disabled all the same: read the file.",
		},
		Sources: []Source{
			{"server and its switch", "kernel/sched/debug.c, sched_fair_server_write; kernel commit d741f297bcea (sched/fair: Fair server interface)"},
			{"EBUSY while there is a limit", "kernel/sched/deadline.c, dl_server_apply_params, __dl_overflow; measured on 6.12.107"},
			{"since 6.12, in place of throttling", "kernel commit 5f6bd380c7bd (sched/rt: Remove default bandwidth control)"},
		},
	},
	Where: func(h *facts.Host) []setting.Address {
		var all []setting.Address
		for _, c := range h.Topology.CPUs {
			if c.Online {
				all = append(all, setting.Of(setting.Sysfs, "kernel/debug/sched/fair_server/cpu"+strconv.Itoa(c.ID), "runtime"))
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
		if _, err := fmt.Sscanf(strings.TrimPrefix(a.Path, "kernel/debug/sched/fair_server/"), "cpu%d/", &cpu); err != nil || !quiet.Has(cpu) {
			return Skips("not a guest's CPU")
		}
		return Wants(setting.Exact("0"), "an ordinary thread that waits on this CPU stops the vCPU for up to 50 ms of each second").At(Low)
	},
}
