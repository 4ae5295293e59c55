package knob

import (
	"mpps/internal/datapath"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var rtSplitLock = &Knob{
	ID: "rt.split_lock", Stage: datapath.Realtime, Risk: goal.Security, Tiers: realtime(),
	Where: fixed(setting.Of(setting.Sysctl, "kernel.split_lock_mitigate")),
	Want: func(v *View, a setting.Address) Advice {
		return Wants(setting.Exact("0"), "one split lock in the guest puts its vCPU to sleep for 10 ms").At(Low).
			warn("a guest that takes split locks on purpose slows the whole host down")
	},
}
