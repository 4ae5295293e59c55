package knob

import (
	"mpps/internal/datapath"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var memoryNUMAD = &Knob{
	ID: "memory.numad", Title: "numad does not move pinned guests", Stage: datapath.CPU, Risk: goal.None,
	Tiers: tiers(goal.Aggressive, goal.Passthrough, goal.Realtime),
	Doc: Doc{
		Want: "stopped",
		Why: "numad watches processes from user space and moves large ones, QEMU first of all, to the node that it finds best: it rewrites their CPU affinity and migrates their memory. " +
			"For guests with fixed CPUs and memory each of its rounds is a pause, and undoes the placement of vhost threads.",
		Cost:   "Guests and programs without a place of their own are no longer moved to their memory.",
		Verify: "systemctl is-active numad says inactive; numastat -p PID of QEMU stays as it was.",
		Traps: []string{
			"libvirt asks numad for advice with <vcpu placement='auto'> even when the daemon does not run (numad -w): that is a choice at the guest's start and does no harm.",
			"kernel.numa_balancing does the same inside the kernel and must be off too.",
			"Stopping does not disable: systemctl disable numad keeps it from coming back after a reboot.",
		},
		Sources: []Source{
			{"what it moves, and how", "numad(8); numad.c, bind_process_and_migrate_memory"},
			{"numad off in all tests", "founding measurements"},
		},
	},
	Where: fixed(setting.Of(setting.Service, "numad")),
	Want: func(v *View, a setting.Address) Advice {
		return Wants(setting.Exact("stopped"), "it moves guests that have fixed places, with a pause for each move")
	},
}
