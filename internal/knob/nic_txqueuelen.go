package knob

import (
	"fmt"

	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

// maxTxQueueLen bounds what is planned: at 1 Mpps 10,000 packets are 10 ms of delay.
const maxTxQueueLen = 10_000

var nicTxQueueLen = &Knob{
	ID: "nic.txqueuelen", Title: "Packets waiting before a tap or NIC", Stage: datapath.NIC, Risk: goal.None,
	Tiers: viaKernel(),
	Doc: Doc{
		Want: "twice as long, up to 10,000, while packets are dropped before it; else as it is",
		Why: "On a tap it is the ring between the bridge and vhost: when the guest is slow for a moment, packets wait here, and when it is full they are dropped (tx_dropped of the tap). " +
			"On a NIC it bounds the queueing discipline. Sized by drops: longer only where packets are lost, because a longer queue is a longer delay.",
		Cost:   "Delay under overload: 1000 packets are 1 ms at 1 Mpps.",
		Verify: "ip -s link show DEV: TX dropped stops growing.",
		Traps: []string{
			"A tap's ring is allocated anew at the change and keeps what is in it.",
			"With fq_codel or noqueue as the qdisc the NIC's value does nothing.",
			"tx_queue_size in the domain XML is another queue (the guest's transmit ring) and cannot exceed 256 on a tap.",
		},
		Sources: []Source{
			{"a tap's ring follows it", "drivers/net/tun.c, tun_queue_resize; NETDEV_CHANGE_TX_QUEUE_LEN"},
			{"drops when it is full", "drivers/net/tun.c, tun_net_xmit: ptr_ring_produce, dev_core_stats_tx_dropped_inc"},
		},
	},
	Where: func(h *facts.Host) []setting.Address {
		var all []setting.Address
		for _, n := range h.NICs {
			all = append(all, setting.Of(setting.Sysfs, "class/net", n.Name, "tx_queue_len"))
		}
		for _, t := range h.Taps {
			all = append(all, setting.Of(setting.Sysfs, "class/net", t.Name, "tx_queue_len"))
		}
		return all
	},
	Want: func(v *View, a setting.Address) Advice {
		device, _ := queueFile(setting.Of(a.Kind, a.Path, "x-0", "x"))
		tap := v.taps[device]
		if tap == nil {
			if _, advice, ok := v.nicNamed(device); !ok {
				return advice
			}
		} else if tap.Guest != "" && !v.Goal.ForGuest(tap.Guest) {
			return Skips("the goal is for guest " + v.Goal.Guest)
		}
		if advice, needed := v.needsInterval(); needed {
			return advice
		}
		lost, counter := v.Interval.Counter(device, "tx_dropped")
		now, known := number(v.Readings.At(a))
		switch {
		case counter == "":
			return Unsure("the device does not count drops")
		case lost == 0:
			return Fine("nothing was dropped " + v.over())
		case known && now >= maxTxQueueLen:
			return Fine(fmt.Sprintf("%d packets were dropped %s, but a longer queue would only delay: what empties it is too slow", lost, v.over()))
		}
		want := min(maxTxQueueLen, max(2000, 2*now))
		return Wants(setting.Least(want), fmt.Sprintf("%d packets were dropped before it %s", lost, v.over()))
	},
}
