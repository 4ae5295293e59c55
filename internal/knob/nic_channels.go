package knob

import (
	"fmt"

	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var nicChannels = &Knob{
	ID: "nic.channels", Stage: datapath.NIC, Risk: goal.Blip,
	Tiers: viaKernel(),
	Where: eachNIC(func(n *facts.NIC) bool { return n.Channels != nil && n.Channels.MaxCombined > 0 }, func(n *facts.NIC) []setting.Address {
		return []setting.Address{setting.Of(setting.NICChannels, n.Name, "combined")}
	}),
	Want: func(v *View, a setting.Address) Advice {
		n, advice, ok := v.nic(a)
		if !ok {
			return advice
		}
		serving := v.Placement().NIC(n.Name)
		if serving == nil {
			return Skips("no CPU may serve it: guests have them all")
		}
		if n.Channels == nil {
			return Skips("the driver does not tell its channels")
		}
		most := n.Channels.MaxCombined
		if max := v.Readings.At(a).Max; max != nil {
			most = int(*max)
		}
		want := min(len(serving.CPUs), most)
		return onNIC(n, Wants(setting.Least(int64(want)), fmt.Sprintf("%s may serve it (%s); the driver has at most %s",
			count(len(serving.CPUs), "CPU"), serving.Why, count(most, "queue"))))
	},
}
