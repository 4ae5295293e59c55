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
	ID: "nic.coalesce", Title: "Interrupt moderation", Stage: datapath.NIC, Risk: goal.None,
	After: []string{"nic.channels"}, Tiers: tiers(goal.Standard, goal.Aggressive, goal.Realtime),
	Doc: Doc{
		Want: "adaptive off and 30 µs or more where interrupts cost (50,000 a second and queue); for realtime adaptive off and at most 10 µs; else as it is",
		Why: "The NIC waits for rx-usecs before it interrupts, so that one interrupt serves several packets. Under load NAPI polls and hardly needs interrupts; moderation matters in between. " +
			"Adaptive moderation changes the wait by itself and makes latency and measurements jump; a fixed value is better when the interrupt rate is high.",
		Cost:   "Each microsecond of waiting is a microsecond of latency at low load.",
		Verify: "ethtool -c DEV; interrupts a second (/proc/interrupts) fall, softirq time with them.",
		Traps: []string{
			"One field that a driver does not know makes ethtool refuse all fields of the same call: mpps sets each field on its own and says which one was refused.",
			"igb and ixgbe tie tx to rx when queues are shared (tx-usecs then answers EINVAL); igb takes 0, 1, 3 and 10–10000.",
			"rx-usecs 0 means an interrupt for each packet until NAPI polls: best for latency, worst for the CPU.",
			"virtio_net moderates only where the device offers VIRTIO_NET_F_NOTF_COAL.",
		},
		Sources: []Source{
			{"unknown fields are refused as a whole", "net/ethtool/coalesce.c, ethnl_set_coalesce; net/ethtool/ioctl.c, ethtool_set_coalesce_supported"},
			{"accepted values of igb", "drivers/net/ethernet/intel/igb/igb_ethtool.c, igb_set_coalesce"},
			{"users ask for field by field", "redhat-performance/tuned issues 726, 819, 852"},
		},
	},
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
