package knob

import (
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var rtRCUNormal = &Knob{
	ID: "rt.rcu_normal", Title: "RCU does not hurry by interrupting everybody", Stage: datapath.Realtime, Risk: goal.None, Tiers: realtime(),
	Doc: Doc{
		Want: "rcu_normal 1, and rcu_expedited 0",
		Why: "Who cannot wait for an RCU grace period asks for an expedited one: the kernel then sends an interrupt to every CPU that is not idle, isolated ones too, instead of waiting until each has passed through by itself. " +
			"Network devices that go, guests that start and stop, and namespaces of containers do that. With rcu_normal=1 such requests wait like all others.",
		Cost:   "What asked for speed takes tens of milliseconds instead of microseconds: removing network devices and tearing down containers get slower, above all in large numbers.",
		Verify: "/sys/kernel/rcu_normal is 1; in a trace of rcu:rcu_exp_grace_period nothing stands, and the function call interrupts (CAL in /proc/interrupts) of the guests' CPUs stand still.",
		Traps: []string{
			"rcupdate.rcu_expedited=1, often advised for faster boots, is the opposite: every grace period interrupts all CPUs. rcu_normal has precedence over it.",
			"PREEMPT_RT kernels set rcu_normal when the boot is done (rcupdate.rcu_normal_after_boot=1 does it on others): then there is nothing to do.",
			"A CPU that runs a guest with nohz_full counts as idle for RCU and is not interrupted; one that is in the kernel for an exit of its guest is.",
			"synchronize_srcu_expedited, which KVM uses for its memory slots, interrupts nobody and is not concerned.",
		},
		Sources: []Source{
			{"interrupts of an expedited grace period", "kernel/rcu/tree_exp.h, sync_rcu_exp_select_node_cpus; Documentation/RCU/Design/Expedited-Grace-Periods/Expedited-Grace-Periods.rst"},
			{"precedence; after the boot", "kernel/rcu/update.c, rcu_gp_is_normal, rcu_end_inkernel_boot; Documentation/admin-guide/kernel-parameters.txt, rcupdate.rcu_normal_after_boot"},
			{"files", "kernel/ksysfs.c, rcu_normal, rcu_expedited"},
		},
	},
	Where: fixed(setting.Of(setting.Sysfs, "kernel/rcu_normal"), setting.Of(setting.Sysfs, "kernel/rcu_expedited")),
	Want: func(v *View, a setting.Address) Advice {
		if strings.HasSuffix(a.Path, "rcu_normal") {
			return Wants(setting.Exact("1"), "an expedited grace period interrupts every CPU that is in the kernel").At(Low)
		}
		return Wants(setting.Exact("0"), "every grace period is an expedited one, which interrupts all CPUs").At(Low)
	},
}
