package knob

import (
	"fmt"
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

// irqsHigh is from how many interrupts a second and queue on their cost counts: at about 2 µs each, 50,000 are a tenth
// of a CPU.
const irqsHigh = 50_000

var coalesceFields = []string{"adaptive-rx", "adaptive-tx", "rx-usecs", "tx-usecs"}

var nicCoalesce = &Knob{
	ID: "nic.coalesce", Stage: datapath.NIC, Risk: goal.None,
	After: []string{"nic.channels"}, Tiers: tiers(goal.Standard, goal.Aggressive, goal.Realtime),
	Where: eachNIC(func(n *facts.NIC) bool { return len(n.Coalesce) > 0 }, func(n *facts.NIC) []setting.Address {
		var all []setting.Address
		for _, field := range coalesceFields {
			if _, has := n.Coalesce[field]; has {
				all = append(all, setting.Of(setting.NICCoalesce, n.Name, field))
			}
		}
		return all
	}),
	Want: func(v *View, a setting.Address) Advice {
		n, advice, ok := v.nic(a)
		if !ok {
			return advice
		}
		field := a.Rest()
		if v.Tier == goal.Realtime {
			if strings.HasPrefix(field, "adaptive") {
				return onNIC(n, Wants(setting.Exact("off"), "adaptive moderation makes latency jump"))
			}
			return onNIC(n, Wants(setting.Most(10), "each microsecond of moderation is one of latency"))
		}
		if advice, needed := v.needsInterval(); needed {
			return advice
		}
		queues := max(1, n.RxQueues)
		each := float64(v.Interval.IRQs[n.Name]) / v.Interval.Seconds / float64(queues)
		if each < irqsHigh {
			return Fine(fmt.Sprintf("%.0f interrupts a second and queue %s are few", each, v.over()))
		}
		because := fmt.Sprintf("%.0f interrupts a second and queue %s cost CPU time", each, v.over())
		if strings.HasPrefix(field, "adaptive") {
			return onNIC(n, Wants(setting.Exact("off"), because+", although moderation adapts"))
		}
		return onNIC(n, Wants(setting.Least(30), because))
	},
}
