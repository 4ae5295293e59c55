package knob

import (
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var rtCompaction = &Knob{
	ID: "rt.compaction", Stage: datapath.Realtime, Risk: goal.None, Tiers: realtime(),
	Where: fixed(setting.Of(setting.Sysctl, "vm.compact_unevictable_allowed"), setting.Of(setting.Sysctl, "vm.compaction_proactiveness")),
	Want: func(v *View, a setting.Address) Advice {
		if strings.HasSuffix(a.Path, "proactiveness") {
			return Wants(setting.Exact("0"), "memory is moved together in advance, and each page that moves interrupts the CPUs that had it mapped").At(Low)
		}
		return Wants(setting.Exact("0"), "pages of locked memory are moved, and whoever touches one meanwhile waits").At(Low)
	},
}
