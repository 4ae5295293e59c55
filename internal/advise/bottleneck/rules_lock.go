package bottleneck

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"mpps/internal/model/facts"
)

// queueLocks blames transmit queues and queue disciplines whose lock CPUs wait for: a tunnel's only queue, or a NIC's
// queue that several CPUs send to.
func queueLocks(p *path) (found []suspect) {
	for _, w := range p.l.Locks {
		if w.Share < 0.12 {
			continue
		}
		d := p.device(w.Device)
		f := suspect{kind: QueueLock, object: w.Lock, strength: min(0.7+0.6*w.Share, 0.95)}
		f.show("waiting for the lock of "+w.Lock, w.Share, "share of a CPU", "profile")
		f.show("samples that waited", float64(w.Waits), "samples", "profile")
		if d != nil {
			f.object = deviceName(d)
			f.keys = []string{deviceKey(d)}
		}
		f.say = fmt.Sprintf("CPUs wait for each other at %s (%s): %s of a CPU", f.object, w.Lock, percent(w.Share))
		if d == nil || d.Kind == "tunnel" {
			p.blameTunnel(&f)
		}
		found = append(found, f)
	}
	byLock := len(found) > 0
	for _, cpu := range slices.Sorted(maps.Keys(p.profile)) {
		share, function := p.profileShare(cpu, "lock")
		if share < 0.15 || byLock || p.idle(cpu) > 0.4 {
			continue
		}
		f := suspect{
			kind: QueueLock, object: cpuName(cpu), strength: min(0.6+0.7*share, 0.92), keys: []string{cpuKey(cpu)},
			say: fmt.Sprintf("CPU %d spends %s of its time waiting for locks (%s)", cpu, percent(share), function),
		}
		f.show(fmt.Sprintf("share of CPU %d in waits for locks", cpu), share, "share", "profile: "+function)
		p.blameTunnel(&f)
		found = append(found, f)
	}
	slices.SortStableFunc(found, func(a, b suspect) int {
		return cmp.Or(cmp.Compare(b.strength, a.strength), cmp.Compare(a.object, b.object))
	})
	return mergeCauses(found)
}

// blameTunnel makes a tunnel with one locked transmit queue the reason of a wait for locks, if most packets use one.
func (p *path) blameTunnel(f *suspect) {
	d := p.lockedTunnel()
	if d == nil {
		return
	}
	f.kind, f.stage, f.object = TunnelQueue, "overlay", deviceName(d)
	f.say = fmt.Sprintf("all packets go through the only transmit queue of %s, and CPUs wait for its lock", f.object)
	f.keys = append(f.keys, deviceKey(d))
	f.show("transmit queues of "+f.object, 1, "queues", "/sys/class/net/"+d.Name+"/queues")
}

// lockedTunnel returns a tunnel with one locked transmit queue and at least 30 % of the packets; nil if there is none.
func (p *path) lockedTunnel() *facts.DeviceLoad {
	d := p.tunnel()
	if d == nil || float64(max(d.RxPackets, d.TxPackets)) < 0.3*p.packets {
		return nil
	}
	queues := facts.Count(d.Queues, func(q facts.QueueLoad) bool { return q.Direction == "tx" })
	for _, t := range p.h.Tunnels {
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

// tunnelOnOneCPU returns the suspect of a CPU that decapsulates all packets of a tunnel while there are other CPUs: the
// outer packets are one flow, or one queue receives them. The cost is mostly that of the outer packets' path, which a
// profile does not tell from other packets.
func (p *path) tunnelOnOneCPU(cpu int) (suspect, bool) {
	t, share := p.tunnel(), p.softnetShare(cpu)
	if t == nil || len(p.l.CPUs) < 2 || share < 0.9 || t.RxPackets < t.TxPackets ||
		float64(t.RxPackets) < 0.5*p.packets {
		return suspect{}, false
	}
	f := suspect{
		kind: TunnelOneCPU, stage: "overlay", object: deviceName(t), strength: 0.85, keys: []string{deviceKey(t)},
		say: fmt.Sprintf("CPU %d takes all packets out of the tunnel %s, and has %s left", cpu, deviceName(t),
			percent(p.idle(cpu))),
	}
	if facts.Find(p.h.Tunnels, func(h *facts.Tunnel) bool {
		return h.Name == t.Name && slices.Contains(facts.GRETaps, h.Type) && !h.InUDP
	}) != nil {
		f.say += "; GRE has no ports outside, and RPS of the NIC spreads by what is inside"
		f.knobs = []string{"nic.rps", "nic.channels", "nic.irq_affinity"}
	}
	f.show("packets out of the tunnel "+deviceName(t), p.rate(float64(t.RxPackets)), "packets/s",
		"/sys/class/net/"+t.Name+"/statistics")
	f.show("packets received on "+cpuName(cpu), share, "share", "/proc/net/softnet_stat")
	return f, true
}
