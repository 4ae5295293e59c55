package knob

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// maxGrowth returns the largest increase among some counters of a device, and that counter. A driver has several and
// uses one: rx_missed_errors, which every device has, does not grow where mlx5 counts rx_out_of_buffer. # in a name
// stands for a queue number; all queues are added up.
func (v *View) maxGrowth(device string, counters []string) (most uint64, name string) {
	sums := map[string]uint64{}
	for counter, grown := range v.Interval.Devices[device] {
		sums[queueNumber(counter)] += grown
	}
	for _, counter := range counters {
		if grown := sums[counter]; grown > most {
			most, name = grown, counter
		}
	}
	return most, name
}

// queueNumber returns a counter's name with # for a number between underscores: tx_queue_#_restart for
// "tx_queue_3_restart".
func queueNumber(counter string) string {
	parts := strings.Split(counter, "_")
	i := slices.IndexFunc(parts, func(part string) bool { return part != "" && strings.Trim(part, "0123456789") == "" })
	if i >= 0 {
		parts[i] = "#"
	}
	return strings.Join(parts, "_")
}

func nicFlowHash(flow, title string) *Knob {
	return &Knob{
		ID: "nic.flow_hash." + flow, Title: title, Stage: datapath.NIC, Risk: goal.None, Tiers: viaKernel(),
		Where: eachNIC(func(n *facts.NIC) bool { return len(n.FlowHash) > 0 }, onlyNIC(setting.NICFlowHash, flow)),
		Want: forNIC(func(v *View, n *facts.NIC, a setting.Address) Advice {
			queues := max(n.RxQueues, v.channelsThen(n))
			if queues < 2 {
				return Skips("one receive queue: nothing to spread over")
			}
			reading := v.Readings.At(a)
			if reading.State == setting.Known && strings.Contains(reading.Value, "f") && strings.Contains(reading.Value,
				"n") && strings.Contains(reading.Value, "s") && strings.Contains(reading.Value, "d") {
				return Fine("addresses and ports are in the hash")
			}
			return exact("sdfn", fmt.Sprintf("without the ports all UDP between two addresses lands on one of %d "+
				"queues", queues)).At(High)
		}),
	}
}

var (
	nicFlowHashUDP4 = nicFlowHash("udp4", "UDP over IPv4 spreads by ports too")
	nicFlowHashUDP6 = nicFlowHash("udp6", "UDP over IPv6 spreads by ports too")
)

// irqsHigh is the interrupt rate, per second and queue, from which the cost matters: at about 2 µs each, 50,000 take a
// tenth of a CPU.
const irqsHigh = 50_000

var coalesceFields = []string{"adaptive-rx", "adaptive-tx", "rx-usecs", "tx-usecs"}

var nicCoalesce = &Knob{
	ID: "nic.coalesce", Title: "Interrupt moderation",
	Stage: datapath.NIC, Risk: goal.Blip, After: []string{"nic.channels"},
	Tiers: tiers(goal.Standard, goal.Aggressive, goal.Realtime),
	Where: eachNIC(func(n *facts.NIC) bool { return len(n.Coalesce) > 0 }, func(n *facts.NIC) []setting.Address {
		var all []setting.Address
		for _, field := range coalesceFields {
			if _, has := n.Coalesce[field]; has {
				all = append(all, setting.Of(setting.NICCoalesce, n.Name, field))
			}
		}
		return all
	}),
	Want: forNIC(func(v *View, n *facts.NIC, a setting.Address) Advice {
		field := a.Rest()
		if v.Tier == goal.Realtime {
			if strings.HasPrefix(field, "adaptive") {
				return onNIC(n, exact("off", "adaptive moderation makes latency jump"))
			}
			return onNIC(n, Wants(setting.Most(10), "each microsecond of moderation is one of latency"))
		}
		if advice, needed := v.noInterval(); needed {
			return advice
		}
		queues := max(1, n.RxQueues)
		each := float64(v.Interval.IRQs[n.Name]) / v.Interval.Seconds / float64(queues)
		if each < irqsHigh {
			return Fine(fmt.Sprintf("%.0f interrupts a second and queue %s are few", each, v.overInterval()))
		}
		because := fmt.Sprintf("%.0f interrupts a second and queue %s cost CPU time", each, v.overInterval())
		if strings.HasPrefix(field, "adaptive") {
			return onNIC(n, exact("off", because+", although moderation adapts"))
		}
		return onNIC(n, Wants(setting.Least(30), because))
	}),
}

var nicRSSTable = &Knob{
	ID: "nic.rss_table", Title: "The NIC's table spreads over all of its queues",
	Stage: datapath.NIC, Risk: goal.None, After: []string{"nic.channels"}, Tiers: viaKernel(), Check: true,
	Where: eachNIC(func(n *facts.NIC) bool { return n.RxQueues > 0 }, onlyNIC(setting.Fact, "rss_table")),
	Want: forNIC(func(v *View, n *facts.NIC, a setting.Address) Advice {
		switch {
		case n.RxQueues < 2:
			return Skips("one receive queue: nothing to spread over")
		case n.RSS == nil || len(n.RSS.Queues) == 0:
			return Unsure("the driver does not report its table")
		}
		found := Count(len(n.RSS.Queues), "queue")
		reach := hashReach(n)
		wanted := min(n.RxQueues, n.RSS.Entries, reach)
		if n.Channels != nil && n.Channels.Combined > 0 { // there may be further queues for other purposes
			wanted = min(wanted, n.Channels.Combined)
		}
		if len(n.RSS.Queues) >= wanted && reach < n.RxQueues {
			return fact(found, Fine(fmt.Sprintf("as many as its hash can reach: of %s the others get TCP alone, by "+
				"what was sent (Flow Director)", Count(n.RxQueues, "queue"))))
		}
		if len(n.RSS.Queues) >= wanted {
			return fact(found, Fine("each queue has a part of the flows"))
		}
		return fact(found, exact(Count(wanted, "queue"), fmt.Sprintf("the table of %d entries names %s: the others "+
			"get no packets by the hash. Somebody set it (ethtool -X), which new channels leave as it is, or the "+
			"hardware has no more", n.RSS.Entries, found)).At(Low))
	}),
}

// hashReach returns how many queues a NIC's hash can choose from. With ixgbe 82599 and X540, whose table has 128
// entries, choose from 16, and X550 with its 512 from 64 (ixgbe_ethtool.c, ixgbe_rss_indir_tbl_max).
func hashReach(n *facts.NIC) int {
	switch {
	case n.Driver != "ixgbe" || n.RSS == nil:
	case n.RSS.Entries == 128:
		return 16
	case n.RSS.Entries == 512:
		return 64
	}
	return maxQueues
}
