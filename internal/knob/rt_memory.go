package knob

import (
	"fmt"
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

// realtime is the tier of a wake-up latency.
func realtime() []goal.Tier { return tiers(goal.Realtime) }

var rtSwap = &Knob{
	ID: "rt.swap", Title: "Nothing is swapped out", Stage: datapath.Realtime, Risk: goal.None,
	Tiers: realtime(),
	Doc: Doc{
		Want:   "off",
		Why:    "A page of the guest's memory, or of QEMU's own, that was swapped out comes back with a disk access when it is touched: milliseconds in the middle of microseconds. Memory in huge pages is never swapped, QEMU's own heap and stacks are.",
		Cost:   "When memory runs out somebody is killed instead of swapped. The host needs memory to spare (placement.reserve).",
		Verify: "swapon --show prints nothing; VmSwap in /proc/PID/status of QEMU is 0.",
		Traps: []string{
			"swapoff reads back all that lies there and fails, or kills, for lack of memory: mpps looks at MemAvailable first and refuses.",
			"vm.swappiness=0 is not off: the kernel still swaps when it must.",
			"It lasts until reboot: a line in /etc/fstab, a .swap unit, or systemd's automatic find of swap partitions switches it on again.",
			"zram swap is no disk, and costs compression in the same place all the same.",
		},
		Sources: []Source{
			{"off", "founding experience"},
			{"fails for lack of memory", "swapoff(2), ENOMEM; mm/swapfile.c, security_vm_enough_memory_mm in swapoff"},
		},
	},
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
		advice := Wants(setting.Exact("off"), "a page that was swapped out comes back in milliseconds").At(Medium)
		if available := v.Housekeeping.Available; used > available-available/8 {
			return Unsure(fmt.Sprintf("%.1f GiB lie in it and %.1f GiB of memory are available: free memory first, then audit again", gib(used), gib(available)))
		}
		return advice
	},
}

var rtKSM = &Knob{
	ID: "rt.ksm", Title: "Pages are not merged, and merged ones are taken apart", Stage: datapath.Realtime, Risk: goal.None,
	After: []string{"rt.swap"}, Tiers: realtime(),
	Doc: Doc{
		Want:   "stopped: run 0, or 2 while pages are still merged; ksmtuned stopped too; merge_across_nodes 0",
		Why:    "ksmd compares the memory of all guests and lets equal pages be one. The first write to such a page stops the guest while it is copied, and ksmd itself takes CPU time and locks. Merged pages also let one guest measure what another has in memory.",
		Cost:   "Guests with equal contents take their full memory again: as much more as pages_sharing says.",
		Verify: "/sys/kernel/mm/ksm/run is 0 or 2, pages_shared is 0.",
		Traps: []string{
			"run=0 only stops ksmd: what is merged stays merged. run=2 takes it apart.",
			"merge_across_nodes is refused (EBUSY) while any page is shared. The order is run=2, wait for pages_shared 0, then the value, then run=0: mpps writes it so.",
			"ksmtuned starts it again when memory gets short: it must be stopped too.",
			"use_zero_pages and the advisor (6.8) are switches of their own and mean nothing while run is 0.",
			"<memoryBacking><nosharepages/> keeps one guest's memory out of it.",
		},
		Sources: []Source{
			{"run, and what 2 does", "Documentation/admin-guide/mm/ksm.rst; mm/ksm.c, run_store"},
			{"EBUSY while pages are shared", "mm/ksm.c, merge_across_nodes_store"},
			{"stopped and unmerged", "founding experience"},
		},
	},
	Where: fixed(setting.Of(setting.Service, "ksmtuned"), setting.Of(setting.KSM, "run"), setting.Of(setting.KSM, "merge_across_nodes")),
	Want: func(v *View, a setting.Address) Advice {
		switch {
		case a.Kind == setting.Service:
			return Wants(setting.Exact("stopped"), "it starts page merging again when memory gets short").At(Low)
		case a.Path == "merge_across_nodes":
			if len(v.Topology.Nodes) < 2 {
				return Skips("the host has one NUMA node")
			}
			return Wants(setting.Exact("0"), "should merging be started again, a guest would read pages of another node").At(Info)
		}
		if k := v.Housekeeping; k != nil && k.KSM != nil && k.KSM.Run == 0 && k.KSM.Shared > 0 {
			return Wants(setting.Exact("2"), fmt.Sprintf("merging is stopped, but %d pages are still shared: the first write to each stops a guest", k.KSM.Shared)).At(Low)
		}
		return Wants(setting.Any("0", "2"), "the first write to a merged page stops the guest while it is copied").At(Medium)
	},
}
