package knob

import (
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var rtMCE = &Knob{
	ID: "rt.mce", Stage: datapath.Realtime, Risk: goal.Data, Tiers: realtime(),
	Where: fixed(setting.Of(setting.Sysfs, "devices/system/machinecheck/machinecheck0/ignore_ce"), setting.Of(setting.Sysfs, "devices/system/machinecheck/machinecheck0/check_interval")),
	Want: func(v *View, a setting.Address) Advice {
		if strings.HasSuffix(a.Path, "check_interval") {
			return Fine("ignore_ce stops the polling too; 0 here is the milder choice")
		}
		return Wants(setting.Exact("1"), "a timer reads each CPU's error banks every few minutes, isolated CPUs' too").At(Low).
			warn("memory that begins to fail is no longer noticed by its corrected errors")
	},
}
