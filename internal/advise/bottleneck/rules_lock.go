package bottleneck

import (
	"cmp"
	"fmt"
	"slices"

	"mpps/internal/model/facts"
)

// queueLocks are waits for a transmit queue or its discipline: a tunnel's only queue, or a NIC's that several CPUs send
// to.
func queueLocks(k *look) (found []suspect) {
	for _, w := range k.l.Locks {
		if w.Share < 0.12 {
			continue
		}
		d := k.device(w.Device)
		f := suspect{
			kind: QueueLock, object: w.Lock, strength: min(0.7+0.6*w.Share, 0.95),
			evidence: []Evidence{{"waiting for the lock of " + w.Lock, w.Share, "share of a CPU", "profile"},
				{"samples that waited", float64(w.Waits), "samples", "profile"}},
		}
		if d != nil {
			f.object = called(d)
			f.keys = []string{"dev:" + called(d)}
		}
		f.say = fmt.Sprintf("CPUs wait for each other at %s (%s): %s of a CPU", f.object, w.Lock, percent(w.Share))
		if d != nil && d.Kind == "tunnel" || d == nil && k.funnel() != nil {
			k.asFunnel(&f)
		}
		found = append(found, f)
	}
	for cpu := range k.profile {
		share, function := k.part(cpu, "lock")
		if share < 0.15 || len(found) > 0 && len(k.l.Locks) > 0 || k.idle(cpu) > 0.4 {
			continue
		}
		f := suspect{
			kind: QueueLock, object: fmt.Sprintf("CPU %d", cpu), strength: min(0.6+0.7*share, 0.92),
			keys: []string{fmt.Sprintf("cpu:%d", cpu)},
			say:  fmt.Sprintf("CPU %d spends %s of its time waiting for locks (%s)", cpu, percent(share), function),
			evidence: []Evidence{{fmt.Sprintf("share of CPU %d in waits for locks", cpu), share, "share", "profile: " +
				function}},
		}
		if k.funnel() != nil {
			k.asFunnel(&f)
		}
		found = append(found, f)
	}
	slices.SortFunc(found, func(a, b suspect) int {
		return cmp.Or(cmp.Compare(b.strength, a.strength), cmp.Compare(a.object, b.object))
	})
	return merge(found)
}

// funnel is a tunnel with one transmit queue and a lock that most packets go through.
func (k *look) funnel() *facts.DeviceLoad {
	d := k.tunnel()
	if d == nil || float64(max(d.RxPackets, d.TxPackets)) < 0.3*k.packets {
		return nil
	}
	queues := 0
	for _, q := range d.Queues {
		if q.Direction == "tx" {
			queues++
		}
	}
	for _, t := range k.h.Tunnels {
		if t.Name == d.Name {
			if t.Lockless && len(d.Qdisc) == 0 {
				return nil
			}
			queues = max(queues, t.TxQueues)
		}
	}
	if queues > 1 {
		return nil
	}
	return d
}

// tunnelOn reports whether a CPU takes all packets out of a tunnel while there are others: a tunnel whose outer packets
// are one flow, or that is received by one queue. What that costs is mostly the way of the outer packets, which a
// profile does not tell from that of others.
func (k *look) tunnelOn(cpu int) (suspect, bool) {
	t, share := k.tunnel(), k.softnetShare(cpu)
	if t == nil || len(k.l.CPUs) < 2 || share < 0.9 || t.RxPackets < t.TxPackets ||
		float64(t.RxPackets) < 0.5*k.packets {
		return suspect{}, false
	}
	return suspect{
		kind: TunnelOneCPU, stage: "overlay", object: called(t), strength: 0.85, keys: []string{"dev:" + called(t)},
		say: fmt.Sprintf("CPU %d takes all packets out of the tunnel %s, and has %s left", cpu, called(t),
			percent(k.idle(cpu))),
		evidence: []Evidence{
			{"packets out of the tunnel " + called(t), k.rate(float64(t.RxPackets)), "packets/s", "/sys/class/net/" +
				t.Name + "/statistics"},
			{fmt.Sprintf("packets received on CPU %d", cpu), share, "share", "/proc/net/softnet_stat"},
		},
	}, true
}

func (k *look) asFunnel(f *suspect) {
	d := k.funnel()
	if d == nil {
		return
	}
	f.kind, f.stage, f.object = TunnelQueue, "overlay", called(d)
	f.say = fmt.Sprintf("all packets go through the only transmit queue of %s, and CPUs wait for its lock", called(d))
	f.keys = append(f.keys, "dev:"+called(d))
	f.evidence = append(f.evidence, Evidence{"transmit queues of " + called(d), 1, "queues", "/sys/class/net/" +
		d.Name + "/queues"})
}
