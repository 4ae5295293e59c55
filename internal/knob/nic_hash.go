package knob

import (
	"fmt"
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

func nicFlowHash(flow string) *Knob {
	return &Knob{
		ID: "nic.flow_hash." + flow, Stage: datapath.NIC, Risk: goal.None,
		Tiers: viaKernel(),
		Where: eachNIC(func(n *facts.NIC) bool { return len(n.FlowHash) > 0 }, func(n *facts.NIC) []setting.Address {
			return []setting.Address{setting.Of(setting.NICFlowHash, n.Name, flow)}
		}),
		Want: func(v *View, a setting.Address) Advice {
			n, advice, ok := v.nic(a)
			if !ok {
				return advice
			}
			if n.RxQueues < 2 {
				return Skips("one receive queue: nothing to spread over")
			}
			reading := v.Readings.At(a)
			if reading.State == setting.Known && strings.Contains(reading.Value, "f") && strings.Contains(reading.Value, "n") && strings.Contains(reading.Value, "s") && strings.Contains(reading.Value, "d") {
				return Fine("addresses and ports are in the hash")
			}
			return Wants(setting.Exact("sdfn"), fmt.Sprintf("without the ports all UDP between two addresses lands on one of %d queues", n.RxQueues)).At(High)
		},
	}
}

var nicFlowHashUDP4, nicFlowHashUDP6 = nicFlowHash("udp4"), nicFlowHash("udp6")
