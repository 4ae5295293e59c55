package bottleneck

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
)

// vhostThreads blames vhost threads that wait for a CPU, or that are full.
func vhostThreads(p *path) (found []suspect) {
	for _, g := range p.guests {
		lost, share := p.lossTo(g)
		for _, t := range g.vhost {
			var f suspect
			is := false
			if p.waitsMoreThan(t, g.vcpus) {
				f, is = p.contention(t)
			}
			if !is && p.saturated(t) {
				f, is = p.fullVhost(g, t), true
			}
			if !is {
				continue
			}
			f.keys = append(f.keys, g.keys()...)
			f.lost += lost
			f.share = max(f.share, share)
			if lost > 0 {
				f.show("lost before "+g.name, p.rate(lost), "packets/s", "tx_dropped of its taps")
			}
			found = append(found, f)
		}
	}
	return keepStrongest(found)
}

// keepStrongest keeps the strongest of several suspects of the same kind and guests, with the keys of all.
func keepStrongest(found []suspect) []suspect {
	var kept []suspect
	for _, f := range found {
		k := facts.Find(kept, func(o *suspect) bool {
			return o.kind == f.kind && slices.Equal(guestKeys(o.keys), guestKeys(f.keys))
		})
		switch {
		case k == nil:
			kept = append(kept, f)
		case f.strength > k.strength:
			f.keys = append(f.keys, k.keys...)
			*k = f
		default:
			k.keys = append(k.keys, f.keys...)
		}
	}
	return kept
}

// guestKeys returns the guests that a suspect concerns, sorted, each once.
func guestKeys(keys []string) []string {
	found := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return !strings.HasPrefix(key, "guest:") })
	slices.Sort(found)
	return slices.Compact(found)
}

// keys returns the keys of a guest and its taps.
func (g *guest) keys() []string {
	keys := []string{"guest:" + g.name}
	for _, d := range g.taps {
		keys = append(keys, deviceKey(d))
	}
	return keys
}

// fullVhost returns the suspect of a full vhost thread with the reason.
func (p *path) fullVhost(g *guest, t *facts.ThreadLoad) suspect {
	at := cpuOf(t)
	busy := p.busy(t)
	f := suspect{
		kind: Vhost, object: label(t), keys: []string{cpuKey(at)},
		strength: min(0.80+1.5*max(max(busy, t.Ran+t.Waited)-threadFull, 0), 0.95),
		say:      fmt.Sprintf("%s is at %s of CPU %d", label(t), percent(busy), at),
	}
	f.show(fmt.Sprintf("share of CPU %d that %s used", at, label(t)), busy, "share", schedstat(t))
	if busy < threadFull {
		f.say += fmt.Sprintf(" and ready for %s more", percent(t.Waited))
		f.show("share of the time that it was ready and had no CPU", t.Waited, "share", schedstat(t))
	}
	if vcpu := busiestThread(g.vcpus, effective); vcpu != nil {
		use := effective(vcpu)
		f.show("share of a CPU that the busiest vCPU of "+g.name+" used, halt polling left out", use, "share",
			schedstat(vcpu))
		f.say += fmt.Sprintf(" while vCPUs are at %s", percent(use))
		if use >= threadFull { // one of the two waits for the other, but which one cannot be determined
			f.strength -= 0.15
		}
	}
	// a guest's packets are forwarded in its vhost thread's time
	if costly, is := p.costByProfile(at, max(busy, 0.5)); is {
		f.say += ": " + costly.say
		f.become(costly)
		return f
	}
	if use := p.softirqUse(at); use >= 0.3 && p.nicInterrupts(at) {
		f.kind, f.stage, f.strength = IRQBesideVhost, "vhost", min(0.7+0.4*use, 0.93)
		f.say += fmt.Sprintf(", of which interrupts of NICs have %s", percent(use))
		f.show("softirq and interrupts on "+cpuName(at), use, "share", "/proc/stat")
		return f
	}
	others, most := 0, 0.0 // the NIC's other queues, and the use of the busiest one's thread
	for _, o := range g.vhost {
		if o.TID != t.TID && (o.NIC == t.NIC || t.NIC == "") {
			others++
			most = max(most, o.Ran)
		}
	}
	vcpus := len(g.vcpus)
	if g.inventory != nil {
		vcpus = max(vcpus, g.inventory.VCPUs)
	}
	switch {
	case others == 0 && vcpus > 1:
		f.kind, f.stage, f.strength = OneQueue, "vhost", f.strength-0.02
		f.knobs = []string{"domain.queues", "guest.channels", "vhost.threads"}
		f.say += fmt.Sprintf(": %s has %s and one queue", g.name, count(vcpus, "vCPU"))
		f.show("queues of "+g.name, 1, "queues", "vhost threads of its interface")
	case others > 0 && most < 0.15:
		f.kind, f.stage, f.strength = QueueImbalance, "vhost", f.strength-0.05
		f.knobs = []string{"nic.flow_hash.udp4", "nic.flow_hash.udp6", "guest.xps", "domain.queues"}
		f.say += fmt.Sprintf(", and the other %s at most at %s", count(others, "queue"), percent(most))
		f.show("share of a CPU that the next busiest queue's thread used", most, "share", anySchedstat)
	}
	return f
}

// nicInterrupts reports whether softirqs on a CPU are a NIC's packets rather than those of the thread that runs there:
// a NIC is known to interrupt there, or packets go to guests and the CPU receives at least 30 % of them.
func (p *path) nicInterrupts(cpu int) bool {
	return !p.outwards && p.softnetShare(cpu) >= 0.3 ||
		slices.ContainsFunc(p.nics(), func(d *facts.DeviceLoad) bool {
			return p.rate(float64(d.RxPackets)) >= minPPS && slices.Contains(p.servingCPUs(d), cpu)
		})
}

// emulatedNICs blames QEMU's main thread where it carries a guest's packets itself: if it has no time left, and if the
// NIC is a model that takes exits to QEMU for each packet (e1000, rtl8139 …) wherever packets are lost before the
// guest.
func emulatedNICs(p *path) (found []suspect) {
	for _, g := range p.guests {
		if len(g.vhost) > 0 || len(g.taps) == 0 || p.rate(g.toGuest+g.fromGuest) < 1 {
			continue
		}
		lost, share := p.lossTo(g)
		t, model := busiestThread(g.emulators, p.busy), g.emulatedModel()
		if t == nil || p.rate(g.toGuest+g.fromGuest+lost) < minPPS ||
			!p.saturated(t) && !p.waiting(t) && (model == "" || lost == 0) {
			continue
		}
		f := suspect{
			kind: NoVhost, object: label(t), strength: 0.9, lost: lost, share: share,
			keys: append(g.keys(), cpuKey(cpuOf(t))),
		}
		if p.waiting(t) {
			if c, is := p.contention(t); is && c.kind == CPUHog {
				c.lost, c.share, c.keys = lost, share, append(c.keys, g.keys()...)
				found = append(found, c)
				continue
			}
		}
		perPacket := t.Ran * p.seconds / (g.toGuest + g.fromGuest) * 1e6
		f.say = fmt.Sprintf("%s has no vhost thread: QEMU carries its packets itself, %.0f µs each, and is at %s of "+
			"CPU %d", g.name, perPacket, percent(p.busy(t)), cpuOf(t))
		if model != "" {
			f.strength = 0.94
			f.say = fmt.Sprintf("the NIC of %s is an emulated %s: QEMU carries each packet itself, %.0f µs each, and "+
				"is at %s of CPU %d", g.name, model, perPacket, percent(p.busy(t)), cpuOf(t))
		}
		f.show("share of a CPU that QEMU's main thread used", p.busy(t), "share", schedstat(t))
		f.show("its time for each packet", perPacket, "us", schedstat(t)+", packets of its taps")
		if t.Exits > 0 {
			f.show("exits of its vCPUs for each packet", float64(t.Exits)/(g.toGuest+g.fromGuest), "exits",
				"/sys/kernel/debug/kvm")
		}
		f.show("vhost threads of "+g.name, 0, "threads", "/proc")
		found = append(found, f)
	}
	return found
}

// emulatedModel returns the model of a guest's NIC behind one of its taps that is no virtio; empty if there is none, or
// none is known.
func (g *guest) emulatedModel() string {
	if g.inventory == nil {
		return ""
	}
	for _, n := range g.inventory.NICs() {
		if n.Model != "" && !n.Virtio() && slices.ContainsFunc(g.taps, func(d *facts.DeviceLoad) bool {
			return d.Name == n.Tap
		}) {
			return n.Model
		}
	}
	return ""
}

// wrongNode blames full vhost threads that run on another NUMA node than the guest's memory, or than the NIC if the
// memory's node is not known.
func wrongNode(p *path) (found []suspect) {
	if len(p.h.Topology.Nodes) < 2 {
		return nil
	}
	nicNode, nicName := p.nicNode()
	for _, g := range p.guests {
		lost, share := p.lossTo(g)
		full := lost > 0
		var far, all float64
		want, of := nicNode, nicName
		for _, t := range slices.Concat(g.vhost, g.vcpus) {
			if node, share := mostMemory(t.Memory); share >= 0.7 {
				want, of = node, "memory of "+g.name
			}
		}
		if want < 0 {
			continue
		}
		for _, t := range g.vhost {
			full = full || p.busy(t) >= threadFull
			if t.Node < 0 {
				continue
			}
			all += t.Ran
			if t.Node != want {
				far += t.Ran
			}
		}
		if all < 0.5 || far < 0.8*all || !full {
			continue
		}
		f := suspect{
			kind: WrongNode, object: "vhost threads of " + g.name, strength: 0.82, lost: lost, share: share,
			keys: g.keys(),
			say: fmt.Sprintf("%s of the time of %s's vhost threads is spent on another NUMA node than %s, which is "+
				"on node %d", percent(far/all), g.name, of, want),
		}
		f.show("share of the vhost threads' time on another node", far/all, "share", "/proc/PID/task/TID/stat")
		f.show("node of "+of, float64(want), "node", "/proc/PID/numa_maps, /sys/class/net")
		found = append(found, f)
	}
	return found
}

// nicNode returns the node and name of the busiest NIC; −1 if the node is not known.
func (p *path) nicNode() (node int, name string) {
	node = -1
	var packets uint64
	for _, d := range p.nics() {
		if n := p.nic(d.Name); n != nil && d.RxPackets+d.TxPackets > packets {
			packets, node, name = d.RxPackets+d.TxPackets, n.Node, n.Name
		}
	}
	return node, name
}

// mostMemory returns the node with most of a thread's memory, −1 if none is known, and its share.
func mostMemory(by map[int]uint64) (node int, share float64) {
	var all, most uint64
	node = -1
	for at, n := range by {
		all += n
		if n > most || n == most && at < node {
			node, most = at, n
		}
	}
	if all == 0 {
		return -1, 0
	}
	return node, float64(most) / float64(all)
}
