package knob

import (
	"mpps/internal/model/datapath"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

var memoryTHP = &Knob{
	ID: "memory.thp", Title: "Transparent huge pages only on request",
	Stage: datapath.CPU, Risk: goal.None, Tiers: tiers(goal.Aggressive, goal.Realtime),
	Where: fixed(setting.Of(setting.Sysfs, "kernel/mm/transparent_hugepage/enabled")),
	Want:  always(Wants(setting.Any("madvise", "never"), "memory is compacted behind the guests' backs").At(Low)),
}

var memoryNUMABalancing = &Knob{
	ID: "memory.numa_balancing", Title: "No automatic NUMA balancing under pinned guests",
	Stage: datapath.CPU, Risk: goal.None, Tiers: tiers(goal.Aggressive, goal.Passthrough, goal.Realtime),
	Where: fixed(setting.Of(setting.Sysctl, "kernel.numa_balancing")),
	Want: func(v *View, a setting.Address) Advice {
		if len(v.Topology.Nodes) < 2 {
			return Skips("the host has one NUMA node")
		}
		return exact("0", "pages of guests with fixed places are taken away only to see who uses them").At(Low)
	},
}

var memoryNUMAD = &Knob{
	ID: "memory.numad", Title: "numad does not move pinned guests",
	Stage: datapath.CPU, Risk: goal.None, Tiers: tiers(goal.Aggressive, goal.Passthrough, goal.Realtime),
	Where: fixed(setting.Of(setting.Service, "numad")),
	Want:  always(exact("stopped", "it moves guests that have fixed places, with a pause for each move")),
}
