package knob

import (
	"strconv"

	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var cpuGovernor = &Knob{
	ID: "cpu.governor", Title: "CPUs run at full clock", Stage: datapath.CPU, Risk: goal.None,
	Doc: Doc{
		Want:   "performance",
		Why:    "Other governors lower the clock while a CPU waits for packets and raise it when the burst is over.",
		Cost:   "Power and heat; single-core turbo can be lower when all cores run high.",
		Verify: "cpupower frequency-info; scaling_governor of every CPU is performance.",
		Traps: []string{
			"Absent in most virtual machines, where the host decides.",
			"With intel_pstate in active mode \"performance\" also sets the energy preference; with amd-pstate it depends on the mode.",
			"TuneD and power-profiles-daemon set it too and put theirs back.",
		},
		Sources: []Source{
			{"governors", "Documentation/admin-guide/pm/cpufreq.rst; Documentation/admin-guide/pm/intel_pstate.rst"},
		},
	},
	Where: func(h *facts.Host) []setting.Address {
		var all []setting.Address
		for _, c := range h.Topology.CPUs {
			if c.Online {
				all = append(all, setting.Of(setting.Sysfs, "devices/system/cpu/cpu"+strconv.Itoa(c.ID), "cpufreq/scaling_governor"))
			}
		}
		return all
	},
	Want: func(v *View, a setting.Address) Advice {
		return Wants(setting.Exact("performance"), "the clock falls while a CPU waits for packets")
	},
}

var memoryTHP = &Knob{
	ID: "memory.thp", Title: "Transparent huge pages only on request", Stage: datapath.CPU, Risk: goal.None,
	Tiers: tiers(goal.Aggressive, goal.Realtime),
	Doc: Doc{
		Want:   "madvise or never",
		Why:    "With \"always\" the kernel compacts memory behind everybody's back to make huge pages, and stops guests for it. QEMU asks for huge pages itself (madvise), and guests with huge pages of their own need none.",
		Cost:   "Programs that do not ask get small pages.",
		Verify: "/sys/kernel/mm/transparent_hugepage/enabled shows [madvise] or [never].",
		Traps: []string{
			"never takes huge pages from guests that have none of their own: madvise is the safe choice.",
			"khugepaged goes on for a while with what it has begun.",
		},
		Sources: []Source{
			{"choices", "Documentation/admin-guide/mm/transhuge.rst"},
			{"QEMU asks by itself", "QEMU system/physmem.c, qemu_madvise(QEMU_MADV_HUGEPAGE)"},
		},
	},
	Where: fixed(setting.Of(setting.Sysfs, "kernel/mm/transparent_hugepage/enabled")),
	Want: func(v *View, a setting.Address) Advice {
		return Wants(setting.Any("madvise", "never"), "memory is compacted behind the guests' backs").At(Low)
	},
}

var memoryNUMABalancing = &Knob{
	ID: "memory.numa_balancing", Title: "No automatic NUMA balancing under pinned guests", Stage: datapath.CPU, Risk: goal.None,
	Tiers: tiers(goal.Aggressive, goal.Passthrough, goal.Realtime),
	Doc: Doc{
		Want:   "0 where there is more than one node",
		Why:    "Automatic balancing takes pages away for a moment to see who uses them and moves them. For guests with fixed CPUs and memory there is nothing to find out: only the faults remain, each an exit of the guest.",
		Cost:   "Unpinned guests and other programs are no longer moved to their memory.",
		Verify: "sysctl kernel.numa_balancing is 0; numa_hint_faults in /proc/vmstat stops growing.",
		Traps: []string{
			"numad does the same from user space and must be off too.",
			"2 is memory tiering, another feature.",
		},
		Sources: []Source{
			{"what it does", "Documentation/admin-guide/sysctl/kernel.rst, numa_balancing; kernel/sched/fair.c, task_numa_work"},
			{"off under fixed placement, as numad is", "founding measurements"},
		},
	},
	Where: fixed(setting.Of(setting.Sysctl, "kernel.numa_balancing")),
	Want: func(v *View, a setting.Address) Advice {
		if len(v.Topology.Nodes) < 2 {
			return Skips("the host has one NUMA node")
		}
		return Wants(setting.Exact("0"), "pages of guests with fixed places are taken away only to see who uses them").At(Low)
	},
}
