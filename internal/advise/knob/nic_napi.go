package knob

import (
	"fmt"
	"strings"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// The values that are tried together: after 10 polls in a row without packets, each 20 µs after the last, interrupts
// are used again (kernel commit 6f8b12d661d0, its example).
const (
	deferPolls = 10
	pollEvery  = 20_000 // nanoseconds
)

// chatter is the interrupt rate, per second and queue, from which polling by timer is tried: each interrupt then has
// few packets to serve.
const chatter = 10_000

var nicIRQDeferral = &Knob{
	ID: "nic.irq_deferral", Title: "Queues are polled by a timer between interrupts",
	Stage: datapath.NIC, Risk: goal.None, After: []string{"nic.channels"}, Tiers: viaKernel(),
	Where: eachNIC(func(n *facts.NIC) bool { return n.RxQueues > 0 }, func(n *facts.NIC) []setting.Address {
		return []setting.Address{napiFile(n, "napi_defer_hard_irqs"), napiFile(n, "gro_flush_timeout")}
	}),
	Want: func(v *View, a setting.Address) Advice {
		device, _ := queueFile(setting.Of(a.Kind, a.Path, "x-0", "x"))
		n, advice, ok := v.nicByName(device)
		if !ok {
			return advice
		}
		if v.Readings.At(a).State == setting.Absent {
			return Skips("the kernel has it since 5.8")
		}
		if advice, needed := v.noInterval(); needed {
			return advice
		}
		polls, _ := number(v.Readings.At(napiFile(n, "napi_defer_hard_irqs")))
		timeout, _ := number(v.Readings.At(napiFile(n, "gro_flush_timeout")))
		ofTimeout := strings.HasSuffix(a.Path, "/gro_flush_timeout")
		if polls > 0 && timeout > 0 {
			return v.judgeDeferral(n, timeout, ofTimeout)
		}
		each := float64(v.Interval.IRQs[n.Name]) / v.Interval.Seconds / float64(n.RxQueues)
		fine := Fine(fmt.Sprintf("interrupts are used as they come: %.0f a second and queue %s", each,
			v.overInterval()))
		if each < chatter || !v.underLoad(n.Name) {
			return fine
		}
		because := fmt.Sprintf("%.0f interrupts a second and queue %s: a poll by timer may serve more packets at once",
			each, v.overInterval())
		if ofTimeout {
			return fine.trying(setting.Exact(fmt.Sprint(pollEvery)), because)
		}
		return fine.trying(setting.Exact(fmt.Sprint(deferPolls)), because)
	},
}

func napiFile(n *facts.NIC, name string) setting.Address {
	return setting.Of(setting.Sysfs, "class/net", n.Name, name)
}

// judgeDeferral returns advice on a NIC that is polled by a timer, in nanoseconds: a ring must hold what comes between
// two polls.
func (v *View) judgeDeferral(n *facts.NIC, timeout int64, ofTimeout bool) Advice {
	packets, _ := v.Interval.Counter(n.Name, "rx_packets")
	each := float64(packets) / v.Interval.Seconds / float64(n.RxQueues)
	if n.Rings == nil || n.Rings.Rx == 0 || each == 0 || !ofTimeout {
		return Fine(fmt.Sprintf("polled by a timer, every %d µs", timeout/1000))
	}
	between := each * float64(timeout) / 1e9
	if between <= float64(n.Rings.Rx)/2 {
		return Fine(fmt.Sprintf("%.0f packets come between two polls, and a ring holds %d", between, n.Rings.Rx))
	}
	most := max(int64(float64(n.Rings.Rx)/2/each*1e9), pollEvery)
	return Wants(setting.Most(most), fmt.Sprintf("%.0f packets of a queue come between two polls %s, and its ring "+
		"holds %d", between, v.overInterval(), n.Rings.Rx))
}

var nicThreaded = &Knob{
	ID: "nic.threaded", Title: "Packets are received by their own threads",
	Stage: datapath.NIC, Risk: goal.None, After: []string{"nic.channels"}, Tiers: viaKernel(),
	Where: eachNIC(func(n *facts.NIC) bool { return n.RxQueues > 0 }, func(n *facts.NIC) []setting.Address {
		return []setting.Address{napiFile(n, "threaded")}
	}),
	Want: func(v *View, a setting.Address) Advice {
		device, _ := queueFile(setting.Of(a.Kind, a.Path, "x-0", "x"))
		n, advice, ok := v.nicByName(device)
		if !ok {
			return advice
		}
		serving := v.serving(n.Name)
		reading := v.Readings.At(a)
		switch {
		case reading.State == setting.Absent:
			return Skips("the kernel has it since 5.12")
		case reading.Value == "1":
			return Fine("a thread for each queue (napi/" + n.Name + "-N): mpps places none of them, so see that they " +
				"have dedicated CPUs")
		case serving == nil || n.RxQueues >= v.usefulQueues(serving) || !v.underLoad(n.Name):
			return Fine("the CPU that a queue interrupts receives its packets")
		}
		return Fine("the CPU that a queue interrupts receives its packets").trying(setting.Exact("1"), fmt.Sprintf(
			"%s, and the target has a use for %s: the scheduler may find threads a CPU that is free",
			Count(n.RxQueues, "queue"), Count(v.usefulQueues(serving), "CPU")))
	},
}
