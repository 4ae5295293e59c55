package knob

import (
	"fmt"
	"strings"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

func realtime() []goal.Tier { return tiers(goal.Realtime) }

var rtSwap = &Knob{
	ID: "rt.swap", Title: "Nothing is swapped out", Stage: datapath.Realtime, Risk: goal.None, Tiers: realtime(),
	Where: func(h *facts.Host) []setting.Address {
		var all []setting.Address
		if h.Housekeeping != nil {
			for _, area := range h.Housekeeping.Swap {
				all = append(all, setting.Of(setting.Swap, strings.TrimPrefix(area.Name, "/")))
			}
		}
		return all
	},
	Want: func(v *View, a setting.Address) Advice {
		var used uint64
		for _, area := range v.Housekeeping.Swap {
			if area.Name == "/"+a.Path {
				used = area.Used
			}
		}
		if why := v.overcommitted(); why != "" {
			return Unsure(why)
		}
		if available := v.Housekeeping.Available; used > available-available/8 {
			return Unsure(fmt.Sprintf("%.1f GiB lie in it and %.1f GiB of memory are available: free memory first, "+
				"then audit again", gib(used), gib(available)))
		}
		return exact("off", "a page that was swapped out comes back in milliseconds").At(Medium)
	},
}

var rtKSM = &Knob{
	ID: "rt.ksm", Title: "Pages are not merged, and merged ones are taken apart",
	Stage: datapath.Realtime, Risk: goal.None, After: []string{"rt.swap"}, Tiers: realtime(),
	Where: fixed(setting.Of(setting.Service, "ksmtuned"), setting.Of(setting.KSM, "run"),
		setting.Of(setting.KSM, "merge_across_nodes")),
	Want: func(v *View, a setting.Address) Advice {
		if why := v.needsMerging(); why != "" {
			return Unsure(why)
		}
		switch {
		case a.Kind == setting.Service:
			return exact("stopped", "it starts page merging again when memory gets short").At(Low)
		case a.Path == "merge_across_nodes":
			if len(v.Topology.Nodes) < 2 {
				return Skips("the host has one NUMA node")
			}
			return exact("0", "should merging be started again, a guest would read pages of another node").At(Info)
		}
		if k := v.Housekeeping; k != nil && k.KSM != nil && k.KSM.Run == 0 && k.KSM.Shared > 0 {
			return exact("2", fmt.Sprintf("merging is stopped, but %d pages are still shared: the first write to "+
				"each stops a guest", k.KSM.Shared)).At(Low)
		}
		return Wants(setting.Any("0", "2"),
			"the first write to a merged page stops the guest while it is copied").At(Medium)
	},
}

// needsMerging says why page merging cannot be stopped, which separates the pages that it merged; each needs memory of
// its own again (mm/ksm.c, unmerge_and_remove_all_rmap_items). It returns "" if it can, or if nothing is merged.
func (v *View) needsMerging() string {
	merged := v.Housekeeping != nil && v.Housekeeping.KSM != nil && v.Housekeeping.KSM.Shared > 0
	if !merged && setting.Any("0", "2").Met(v.Readings.At(setting.Of(setting.KSM, "run"))) {
		return ""
	}
	return v.overcommitted()
}

// overcommitted says that the running guests may use more memory than the host has, so that they depend on merging and
// swap. It returns "" if they may not, or if the host's memory is not known.
func (v *View) overcommitted() string {
	total, room := v.memoryRoom()
	if total == 0 || v.active <= room {
		return ""
	}
	return fmt.Sprintf("the running guests may use %.1f GiB, the host has %.1f GiB and needs some itself, and so they "+
		"may depend on merging and swap. Shut guests down first, then audit again", gib(v.active), gib(total))
}

var rtCompaction = &Knob{
	ID: "rt.compaction", Title: "Locked memory is not moved about",
	Stage: datapath.Realtime, Risk: goal.None, Tiers: realtime(),
	Where: fixed(setting.Of(setting.Sysctl, "vm.compact_unevictable_allowed"),
		setting.Of(setting.Sysctl, "vm.compaction_proactiveness")),
	Want: func(v *View, a setting.Address) Advice {
		if strings.HasSuffix(a.Path, "proactiveness") {
			return exact("0", "memory is moved together in advance, and each page that moves interrupts the CPUs "+
				"that had it mapped").At(Low)
		}
		return exact("0", "pages of locked memory are moved, and whoever touches one meanwhile waits").At(Low)
	},
}
