package knob

import (
	"fmt"
	"strconv"
	"strings"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

func queueFiles(direction, file string, queues func(n *facts.NIC) int) func(n *facts.NIC) []setting.Address {
	return func(n *facts.NIC) []setting.Address {
		var all []setting.Address
		for q := range min(queues(n), maxQueues) {
			all = append(all,
				setting.Of(setting.SysfsCPUs, "class/net", n.Name, "queues", direction+"-"+strconv.Itoa(q), file))
		}
		return all
	}
}

// queueFile returns device and queue number of "class/net/eth0/queues/tx-3/xps_cpus".
func queueFile(a setting.Address) (device string, queue int) {
	parts := strings.Split(a.Path, "/")
	if len(parts) < 5 {
		return "", 0
	}
	queue, err := strconv.Atoi(parts[4][strings.IndexByte(parts[4], '-')+1:])
	if err != nil {
		return "", 0
	}
	return parts[2], queue
}

// spreadOf returns which CPUs should use which transmit queue of a NIC, computed once.
func (v *View) spreadOf(n *facts.NIC) []setting.CPUSet {
	spread, ok := v.spread[n.Name]
	if !ok {
		spread = v.Placement().Spread(v.Topology.Online, n.TxQueues)
		v.spread[n.Name] = spread
	}
	return spread
}

// sharesXPS reads the XPS masks of a NIC. ok reports whether no transmit queue serves more of the given CPUs than
// necessary; covered are all CPUs with a queue; hits counts the given CPUs over all masks.
func (v *View) sharesXPS(n *facts.NIC, of map[int]bool) (covered map[int]bool, hits int, ok bool) {
	covered = map[int]bool{}
	for q := range n.TxQueues {
		cpus, known := v.cpusAt(setting.XPS(n.Name, q))
		busy := 0
		for _, cpu := range cpus {
			covered[cpu] = true
			if of[cpu] {
				busy++
			}
		}
		if !known || busy > (len(of)+n.TxQueues-1)/n.TxQueues {
			return nil, 0, false
		}
		hits += busy
	}
	return covered, hits, true
}

// spreadsWell reports whether XPS of a NIC is as good as the placement's: every CPU has a queue, and no queue serves
// more vhost threads' CPUs than necessary.
func (v *View) spreadsWell(n *facts.NIC) bool {
	well, known := v.xpsGood[n.Name]
	if known {
		return well
	}
	workers := map[int]bool{}
	for _, p := range v.Placement().Guests {
		for _, w := range p.Vhost {
			workers[w.CPU] = true
		}
	}
	covered, _, well := v.sharesXPS(n, workers)
	for _, cpu := range v.Topology.Online {
		well = well && covered[cpu]
	}
	v.xpsGood[n.Name] = well
	return well
}

var nicXPS = &Knob{
	ID: "nic.xps", Title: "Transmit queues by CPU",
	Stage: datapath.NIC, Risk: goal.None, After: []string{"nic.channels"}, Tiers: viaKernel(),
	Where: eachNIC(func(n *facts.NIC) bool { return n.TxQueues > 1 },
		queueFiles("tx", "xps_cpus", func(n *facts.NIC) int { return n.TxQueues })),
	Want: func(v *View, a setting.Address) Advice {
		device, queue := queueFile(a)
		n, advice, ok := v.nicByName(device)
		if !ok {
			return advice
		}
		if n.Steered {
			return Fine("packets of guests carry the number of their queue (mpps path --steer), and XPS would " +
				"come before it")
		}
		spread := v.spreadOf(n)
		if queue >= len(spread) {
			return Skips("no such queue")
		}
		if len(spread[queue]) == 0 {
			return Skips("more queues than CPUs: this one is not needed")
		}
		if v.spreadsWell(n) {
			return Fine("every CPU has a queue, and guests' vhost threads share one no more than they must")
		}
		return exact(spread[queue].String(), "the CPUs of two guests' vhost threads share a transmit queue only "+
			"where there are fewer queues than threads").At(Low)
	},
}

var nicRPS = &Knob{
	ID: "nic.rps", Title: "No software steering where the NIC steers",
	Stage: datapath.NIC, Risk: goal.None, After: []string{"nic.channels"}, Tiers: viaKernel(),
	Where: eachNIC(func(n *facts.NIC) bool { return n.RxQueues > 0 },
		queueFiles("rx", "rps_cpus", func(n *facts.NIC) int { return n.RxQueues })),
	Want: func(v *View, a setting.Address) Advice {
		device, _ := queueFile(a)
		n, advice, ok := v.nicByName(device)
		if !ok {
			return advice
		}
		serving := v.serving(n.Name)
		if serving != nil && n.RxQueues < v.usefulQueues(serving) {
			return Fine(fmt.Sprintf("%s, and the target has a use for %s: steering in software can pay, measuring "+
				"decides", Count(n.RxQueues, "queue"), Count(v.usefulQueues(serving), "CPU")))
		}
		if tunnel := v.byAddresses(n); tunnel != "" {
			return Fine(fmt.Sprintf("packets of %s have no ports outside, so that the NIC puts all from one host on "+
				"one queue; steering in software spreads them by what is inside", tunnel))
		}
		return exact("", fmt.Sprintf("the NIC spreads over %s itself: handing packets on to other CPUs is a detour",
			Count(n.RxQueues, "queue"))).At(Low)
	},
}

// maxTxQueueLen is the longest queue that is planned: at 1 Mpps 10,000 packets are 10 ms of delay.
const maxTxQueueLen = 10_000

var nicTxQueueLen = &Knob{
	ID: "nic.txqueuelen", Title: "Packets waiting before a tap or NIC",
	Stage: datapath.NIC, Risk: goal.None, Tiers: viaKernel(),
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
		switch {
		case tap == nil:
			return Fine("on a NIC it bounds queueing disciplines without their own limit, whose drops " +
				"'tc -s qdisc' counts and the device does not (mpps diagnose)")
		case tap.Guest != "" && !v.Goal.ForGuest(tap.Guest):
			return Skips("the goal is for guest " + v.Goal.Guest)
		}
		if advice, needed := v.noInterval(); needed {
			return advice
		}
		lost, counter := v.Interval.Counter(device, "tx_dropped")
		passed, _ := v.Interval.Counter(device, "tx_packets")
		now, known := number(v.Readings.At(a))
		switch {
		case counter == "":
			return Unsure("the device does not count drops")
		case lost == 0:
			return Fine("nothing was dropped " + v.overInterval())
		case lost > passed:
			return Fine(fmt.Sprintf("%d packets were dropped and %d taken %s: a longer queue would only delay them, "+
				"as the guest does not keep up", lost, passed, v.overInterval()))
		case known && now >= maxTxQueueLen:
			return Fine(fmt.Sprintf("%d packets were dropped %s, but a longer queue would only delay: what empties "+
				"it is too slow", lost, v.overInterval()))
		}
		want := min(maxTxQueueLen, max(2000, 2*now))
		return Wants(setting.Least(want), fmt.Sprintf("%d packets were dropped before it %s", lost,
			v.overInterval())).At(min(Medium, lossSeverity(lost, passed)))
	},
}
