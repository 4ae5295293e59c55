package knob

import (
	"mpps/internal/datapath"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var memoryNUMAD = &Knob{
	ID: "memory.numad", Stage: datapath.CPU, Risk: goal.None,
	Tiers: tiers(goal.Aggressive, goal.Passthrough, goal.Realtime),
	Where: fixed(setting.Of(setting.Service, "numad")),
	Want: func(v *View, a setting.Address) Advice {
		return Wants(setting.Exact("stopped"), "it moves guests that have fixed places, with a pause for each move")
	},
}
