package queuepath

import (
	"fmt"
	"slices"

	"mpps/internal/model/facts"
	"mpps/internal/words"
)

// overlays are the kinds of devices that encapsulate packets. A packet loses its queue in one that has a single queue
// (net/core/dev.c, netdev_core_pick_tx).
var overlays = []string{"vxlan", "geneve", "gretap", "ip6gretap", "gre", "vlan"}

// funnels returns the devices where lanes come together: with more senders than queues, and fewer queues than the NICs
// after them. Whether that does harm is a second question (harmfulFunnels). A guest's own NIC does not count: a guest
// with one queue has one lane, and that is its own choice.
func (j *judge) funnels() []Fault {
	var all []Fault
	for _, side := range j.orderedSides() {
		d := j.Device(side.Device)
		if side.Direction != Tx || d == nil || d.TxQueues < 1 || j.inward(d) {
			continue
		}
		l := j.sides[side]
		from := l.senders(senderPart)
		if len(from) <= d.TxQueues || !j.matters(l.packets) {
			continue
		}
		if d.TxQueues > 1 && (d.Terminal() || d.TxQueues >= j.widestBehind(side)) {
			continue
		}
		f := Fault{Kind: Funnel, Object: d.Name, Device: d.Name, Queues: j.queuesOf(side), Packets: l.packets,
			Share: j.share(l.packets), origins: queueSet(from)}
		f.Evidence = fmt.Sprintf("%s (%s) enter %s, which has %s and takes %s lock; sent by %s",
			words.Count(len(from), "queue"), devicesOf(from), d.Name, words.Count(d.TxQueues, "transmit queue"),
			words.Either(d.locks(), "a", "no"), cpuWords(l.cpus()))
		f.Cause, f.Mend = funnelCause(d), funnelMend(d)
		all = append(all, f)
	}
	return all
}

// widestBehind returns the most queues of any device that lanes reach after a side.
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

// harmfulFunnels returns the funnels that do harm: several CPUs share their lock or ring, or lanes that went through
// together come out on the same queue of the NIC. A lockless tunnel above a NIC with XPS does none: lanes come out
// apart.
func (j *judge) harmfulFunnels(funnels, collisions []Fault) []Fault {
	return slices.DeleteFunc(slices.Clone(funnels), func(f Fault) bool {
		d := j.Device(f.Device)
		if (d.locks() || d.Terminal()) && len(j.sides[Side{f.Device, Tx}].cpus()) > 1 {
			return false
		}
		return !slices.ContainsFunc(collisions, func(c Fault) bool { return c.Follows == f.Name() })
	})
}

// locks reports whether senders by a device take a lock: its own, or that of a queue discipline, which devices without
// a lock of their own (NETIF_F_LLTX) can have too.
func (d *Device) locks() bool { return !d.Lockless || d.Qdisc != "" && d.Qdisc != "noqueue" }

func funnelCause(d *Device) string {
	what := fmt.Sprintf("%s has %s", d.Name, words.Count(d.TxQueues, "transmit queue"))
	switch {
	case d.Terminal() && !d.locks():
		return what + ": all CPUs that send through it share one ring"
	case !d.locks():
		return what + ": it does not keep a packet's queue but erases it, and the device after it chooses again"
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
			Command: steerCommand, Knob: "overlay.queue_mapping"}
	case d.Lockless && !slices.Contains(facts.TunnelTypes, d.Kind):
		return Mend{Text: fmt.Sprintf("let it send without %s", d.Qdisc),
			Command: fmt.Sprintf("tc qdisc replace dev %s root noqueue", d.Name), Knob: "overlay.queues"}
	case d.Lockless: // except for the discipline
		return Mend{Text: fmt.Sprintf(
			"let it send without %s (noqueue), and carry each packet's queue past it to the NIC", d.Qdisc),
			Command: steerCommand, Knob: "overlay.queues"}
	}
	if slices.Contains(facts.GRETaps, d.Kind) {
		return Mend{Text: "make it again without sequence numbers (oseq), or without checksums (ocsum) where UDP is " +
			"around it: it takes the lock for them, and more queues would have numbers arrive late",
			Command: steerCommand, Knob: "overlay.queues"}
	}
	return Mend{
		Text: "recreate it with as many queues as the NIC (numtxqueues), which cuts its guests off meanwhile; " +
			"then mpps path --steer carries each packet's queue past it",
		Command: "ip -d link show " + d.Name, Knob: "overlay.queues",
	}
}

// rootMend returns the remedy for the lock of one queue discipline for all queues of a device: no discipline on a
// software device, from which steering removes it, else mq.
func rootMend(d *Device) Mend {
	if slices.Contains(facts.TunnelTypes, d.Kind) && d.Lockless {
		return Mend{Text: "it is a device of software and needs none: noqueue", Command: steerCommand,
			Knob: "overlay.queues"}
	}
	return Mend{Text: "one for each queue", Command: fmt.Sprintf("tc qdisc replace dev %s root mq", d.Name)}
}
