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
	ID: "nic.txqueuelen", Stage: datapath.NIC, Risk: goal.None,
	Tiers: viaKernel(),
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
