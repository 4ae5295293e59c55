package knob

import (
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var rtRCUNormal = &Knob{
	ID: "rt.rcu_normal", Stage: datapath.Realtime, Risk: goal.None, Tiers: realtime(),
	Where: fixed(setting.Of(setting.Sysfs, "kernel/rcu_normal"), setting.Of(setting.Sysfs, "kernel/rcu_expedited")),
	Want: func(v *View, a setting.Address) Advice {
		if strings.HasSuffix(a.Path, "rcu_normal") {
			return Wants(setting.Exact("1"), "an expedited grace period interrupts every CPU that is in the kernel").At(Low)
		}
		return Wants(setting.Exact("0"), "every grace period is an expedited one, which interrupts all CPUs").At(Low)
	},
}
