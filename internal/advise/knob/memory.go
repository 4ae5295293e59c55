package knob

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

const thpFiles = "kernel/mm/transparent_hugepage/"

var memoryTHP = &Knob{
	ID: "memory.thp", Title: "Transparent huge pages without stalls",
	Stage: datapath.CPU, Risk: goal.None, Tiers: tiers(goal.Aggressive, goal.Realtime),
	Where: fixed(setting.Of(setting.Sysfs, thpFiles+"enabled"), setting.Of(setting.Sysfs, thpFiles+"defrag")),
	Want: func(v *View, a setting.Address) Advice {
		if a.Path == thpFiles+"defrag" {
			return Wants(setting.Any("madvise", "defer+madvise", "defer", "never"), "a page fault that finds no "+
				"huge page reclaims and compacts memory itself before it goes on").At(Low)
		}
		small := v.guestsOnSmallPages()
		if v.Tier == goal.Realtime || len(small) == 0 {
			return Fine("the guests' memory comes from a pool of huge pages, or should")
		}
		return Wants(setting.Any("madvise", "always"), isIn(small)+" in no pool of huge pages: with never the memory "+
			"is in small pages, and a TLB miss walks two page tables to the last level").At(Low)
	},
}

// guestsOnSmallPages returns the active guests whose memory comes from no pool of huge pages.
func (v *View) guestsOnSmallPages() (names []string) {
	for _, g := range v.Guests {
		if g.Active() && !g.Hugepages {
			names = append(names, g.Name)
		}
	}
	return names
}

// isIn returns names with their verb, at most three of them.
func isIn(names []string) string {
	text := strings.Join(names[:min(len(names), 3)], ", ")
	if len(names) > 3 {
		text += fmt.Sprintf(" and %d more", len(names)-3)
	}
	if len(names) == 1 {
		return text + " is"
	}
	return text + " are"
}

// tieringMode is the bit of kernel.numa_balancing that moves hot pages to faster nodes, since 5.18
// (include/linux/sched/sysctl.h, NUMA_BALANCING_MEMORY_TIERING).
const tieringMode = 2

var memoryNUMABalancing = &Knob{
	ID: "memory.numa_balancing", Title: "No automatic NUMA balancing under pinned guests",
	Stage: datapath.CPU, Risk: goal.None, Tiers: tiers(goal.Aggressive, goal.Passthrough, goal.Realtime),
	Where: fixed(setting.Of(setting.Sysctl, "kernel.numa_balancing")),
	Want: func(v *View, a setting.Address) Advice {
		if len(v.Topology.Nodes) < 2 {
			return Skips("the host has one NUMA node")
		}
		if !slices.ContainsFunc(v.Guests, func(g facts.Guest) bool { return g.Active() }) {
			return Skips("no guest runs whose memory it could move")
		}
		if mode, known := number(v.Readings.At(a)); known && mode&tieringMode != 0 {
			return Fine("it moves memory between fast and slow nodes by use (memory tiering)")
		}
		if loose := v.floaters(); len(loose) > 0 {
			return Fine(isIn(loose) + " not pinned: balancing brings vCPUs and memory together, and leaves alone " +
				"what is bound or in huge pages")
		}
		return exact("0", "the kernel unmaps pages of pinned guests only to learn which CPU uses them").At(Low)
	},
}

var memoryNUMAD = &Knob{
	ID: "memory.numad", Title: "numad does not move pinned guests",
	Stage: datapath.CPU, Risk: goal.None, Tiers: tiers(goal.Aggressive, goal.Passthrough, goal.Realtime),
	Where: fixed(setting.Of(setting.Service, "numad")),
	Want:  always(exact("stopped", "it moves guests that have fixed places, with a pause for each move")),
}
