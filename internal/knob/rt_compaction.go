package knob

import (
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var rtCompaction = &Knob{
	ID: "rt.compaction", Title: "Locked memory is not moved about", Stage: datapath.Realtime, Risk: goal.None, Tiers: realtime(),
	Doc: Doc{
		Want: "vm.compact_unevictable_allowed 0, vm.compaction_proactiveness 0",
		Why: "To make room for huge pages the kernel moves pages together, those of locked memory too: whoever touches a page that is on its way waits until it has arrived, and every CPU that had it mapped is interrupted to forget it (TLB). " +
			"With compact_unevictable_allowed=0 locked pages stay where they are, as realtime programs expect of mlockall; with compaction_proactiveness=0 the kernel does not do it twice a second just in case.",
		Cost:   "Huge pages are harder to get later: take them at boot (boot.hugepages).",
		Verify: "sysctl vm.compact_unevictable_allowed vm.compaction_proactiveness; compact_daemon_wake in /proc/vmstat stops growing.",
		Traps: []string{
			"mlockall alone does not keep pages in place: it keeps them in memory.",
			"PREEMPT_RT kernels have compact_unevictable_allowed at 0 from the start, and warn when it is set to 1.",
			"compaction_proactiveness came with Linux 5.9; before that nothing is done in advance.",
			"echo 1 > /proc/sys/vm/compact_memory, found in cron jobs and in tools that reserve huge pages, compacts everything at once: a stall of seconds.",
		},
		Sources: []Source{
			{"both", "Documentation/admin-guide/sysctl/vm.rst, compact_unevictable_allowed, compaction_proactiveness; mm/compaction.c"},
			{"0 on realtime kernels", "mm/compaction.c, sysctl_compact_unevictable_allowed, CONFIG_COMPACT_UNEVICTABLE_DEFAULT"},
		},
	},
	Where: fixed(setting.Of(setting.Sysctl, "vm.compact_unevictable_allowed"), setting.Of(setting.Sysctl, "vm.compaction_proactiveness")),
	Want: func(v *View, a setting.Address) Advice {
		if strings.HasSuffix(a.Path, "proactiveness") {
			return Wants(setting.Exact("0"), "memory is moved together in advance, and each page that moves interrupts the CPUs that had it mapped").At(Low)
		}
		return Wants(setting.Exact("0"), "pages of locked memory are moved, and whoever touches one meanwhile waits").At(Low)
	},
}
