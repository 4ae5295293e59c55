package queuepath

import (
	"fmt"
	"slices"

	"mpps/internal/model/facts"
)

// overlays are the devices that make packets of packets; a packet that goes through one loses its queue where the
// device has one (net/core/dev.c, netdev_core_pick_tx).
var overlays = []string{"vxlan", "geneve", "gretap", "ip6gretap", "gre", "vlan"}

// funnels are the devices where lanes come together: more senders than the device has queues, and fewer queues than the
// NICs behind it. Whether that does harm is a second question (harmful). Inside a guest's own NIC they are not looked
// for: a guest with one queue has one lane, and that is its affair.
func (j *judge) funnels() []Fault {
	var all []Fault
	for _, side := range j.orderedSides() {
		d := j.Device(side.Device)
		if side.Direction != Tx || d == nil || d.TxQueues < 1 || j.inward(d) {
			continue
		}
		l := j.sides[side]
		from := l.senders(sender)
		if len(from) <= d.TxQueues || !j.weighs(l.packets) {
			continue
		}
		if d.TxQueues > 1 && (d.Terminal() || d.TxQueues >= j.widestBehind(side)) {
			continue
		}
		f := Fault{Kind: Funnel, Object: d.Name, Device: d.Name, Queues: j.queuesOf(side), Packets: l.packets,
			Share: j.share(l.packets), origins: map[Queue]bool{}}
		for _, q := range from {
			f.origins[q] = true
		}
		lock := "no lock"
		if d.locks() {
			lock = "a lock"
		}
		f.Evidence = fmt.Sprintf("%s (%s) enter %s, which has %s and takes %s; sent by %s", some(len(from), "queue"),
			devicesOf(from), d.Name,
			some(d.TxQueues, "transmit queue"), lock, cpuWords(l.cpus(party)))
		f.Cause, f.Mend = funnelCause(d), funnelMend(d)
		all = append(all, f)
	}
	return all
}

// widestBehind is the most queues of any device that lanes reach behind a side.
func (j *judge) widestBehind(s Side) int {
	most := 0
	for i := range j.lanes {
		stops := j.lanes[i].Stops
		at := slices.IndexFunc(stops, func(p Stop) bool { return p.Side() == s })
		for k := at + 1; at >= 0 && k < len(stops); k++ {
			if d := j.Device(stops[k].Device); d != nil {
				most = max(most, d.TxQueues)
			}
		}
	}
	return most
}

// harmful are the funnels that do harm: with a lock or a ring that several CPUs share, or because lanes that went
// through together come out on the same queue of the NIC. A lockless tunnel above a NIC whose XPS goes by CPU does
// none: lanes come out apart.
func (j *judge) harmful(funnels, collisions []Fault) []Fault {
	return slices.DeleteFunc(slices.Clone(funnels), func(f Fault) bool {
		d := j.Device(f.Device)
		if (d.locks() || d.Terminal()) && len(j.sides[Side{f.Device, Tx}].cpus(party)) > 1 {
			return false
		}
		return !slices.ContainsFunc(collisions, func(c Fault) bool { return c.Follows == f.Name() })
	})
}

// locks reports whether who sends by a device takes a lock: the device's own, or that of a queue discipline, which also
// devices that need none (NETIF_F_LLTX) can have.
func (d *Device) locks() bool { return !d.Lockless || d.Qdisc != "" && d.Qdisc != "noqueue" }

func funnelCause(d *Device) string {
	what := fmt.Sprintf("%s has %s", d.Name, some(d.TxQueues, "transmit queue"))
	switch {
	case d.Terminal() && !d.locks():
		return what + ": all CPUs that send through it share one ring"
	case !d.locks():
		return what + ": it does not keep a packet's queue but erases it, and what comes behind chooses anew"
	case d.Qdisc != "" && d.Qdisc != "noqueue":
		return what + fmt.Sprintf(" with the queue discipline %s, whose lock all CPUs that send through it take in "+
			"turn", d.Qdisc)
	}
	return what + ", whose lock all CPUs that send through it take in turn"
}

func funnelMend(d *Device) Mend {
	if d.Terminal() {
		return Mend{Text: "give it as many channels as there are CPUs that send", Command: "mpps plan",
			Knob: "nic.channels"}
	}
	switch {
	case !d.locks():
		return Mend{Text: "carry each packet's queue past it to the NIC, or let the NIC choose by CPU (XPS)",
			Command: steer, Knob: "overlay.queue_mapping"}
	case d.Lockless && !slices.Contains(facts.TunnelTypes, d.Kind):
		return Mend{Text: fmt.Sprintf("let it send without %s", d.Qdisc),
			Command: fmt.Sprintf("tc qdisc replace dev %s root noqueue", d.Name), Knob: "overlay.queues"}
	case d.Lockless: // but for the discipline
		return Mend{Text: fmt.Sprintf(
			"let it send without %s (noqueue), and carry each packet's queue past it to the NIC", d.Qdisc),
			Command: steer, Knob: "overlay.queues"}
	}
	return Mend{
		Text: "make it anew with as many queues as the NIC (numtxqueues), which cuts its guests off meanwhile; " +
			"then mpps path --steer carries each packet's queue past it",
		Command: "ip -d link show " + d.Name, Knob: "overlay.queues",
	}
}

// rootMend is what mends the lock of one discipline for all queues of a device: none, where it is one of software whose
// discipline steering takes off.
func rootMend(d *Device) Mend {
	if slices.Contains(facts.TunnelTypes, d.Kind) && d.Lockless {
		return Mend{Text: "it is a device of software and needs none: noqueue", Command: steer, Knob: "overlay.queues"}
	}
	return Mend{Text: "one for each queue", Command: fmt.Sprintf("tc qdisc replace dev %s root mq", d.Name)}
}
