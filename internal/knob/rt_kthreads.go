package knob

import (
	"mpps/internal/datapath"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var rtKthreads = &Knob{
	ID: "rt.kthreads", Title: "Kernel threads that may run anywhere run on the host's CPUs", Stage: datapath.Realtime, Risk: goal.None,
	After: []string{"rt.workqueue"}, Tiers: realtime(),
	Doc: Doc{
		Want: "the host's CPUs, for every kernel thread that can be moved",
		Why: "Besides kworkers the kernel has dozens of threads of its own: RCU's (rcu_preempt, rcuog and rcuop of offloaded CPUs), kswapd, kcompactd, khugepaged, ksmd, kauditd, jbd2, threads of NICs (napi). " +
			"Those that belong to no CPU run wherever there is room, and some of them with a realtime priority: on a guest's CPU each takes the vCPU out for as long as it likes.",
		Cost:   "The host's CPUs do all of that work. Offloaded RCU callbacks of a busy host can fill one.",
		Verify: "taskset -pc of these threads; ps -eLo pid,psr,cls,rtprio,comm --ppid 2 shows none of them on the guests' CPUs but those named after the CPU.",
		Traps: []string{
			"\"Move all kernel threads with taskset\" is old advice that cannot be followed: threads of one CPU (ksoftirqd/N, migration/N, cpuhp/N, rcuc/N, ktimers/N) and all kworkers are bound for good, and the kernel answers EINVAL. They are not meant here: rt.ksoftirqd and those beside it give them priorities, rt.workqueue moves the work of kworkers.",
			"Threads that the kernel starts later do not follow those that were moved, nor kthreadd: they begin on the CPUs that are not nohz_full (or, without it, on all). mpps-restore.service moves those that come; nohz_full on the command line makes it lasting.",
			"isolcpus alone does not keep them off: it takes CPUs out of balancing, and leaves threads allowed on them; nohz_full is what the kernel places its threads by.",
			"Threads of interrupts (irq/N-name, on PREEMPT_RT or with threadirqs) follow the affinity of their interrupt: rt.irq_affinity.",
			"kswapd and kcompactd of a node keep those of their CPUs that are the host's. A node all of whose CPUs are guests' has its memory looked after from another one: placement.reserve.",
			"From Linux 6.14 on kswapd and its like are put back on their node's CPUs when a CPU comes online.",
		},
		Sources: []Source{
			{"bound for good", "kernel/kthread.c, kthread_bind, PF_NO_SETAFFINITY; kernel/workqueue.c, create_worker; kernel/sched/core.c, __set_cpus_allowed_ptr"},
			{"where new ones begin", "kernel/kthread.c, kthread, housekeeping_cpumask(HK_TYPE_KTHREAD); kernel/sched/isolation.c, housekeeping_nohz_full_setup"},
			{"threads of a node since 6.14", "kernel/kthread.c, kthread_affine_preferred, kthreads_online_cpu"},
			{"which of them are movable, and what they do", "Documentation/admin-guide/kernel-per-CPU-kthreads.rst"},
			{"all of them are moved by the scheduler plugin", "TuneD, plugins/plugin_scheduler.py, isolated_cores"},
		},
	},
	Where: fixed(setting.Of(setting.ThreadCPUs, "kernel")),
	Want: keptOff("kernel threads that can be moved run on the host's CPUs; those of one CPU cannot be moved",
		"kernel threads that belong to no CPU may run on the guests' CPUs"),
}
