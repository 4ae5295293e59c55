package bottleneck

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
)

// vhostThreads are vhost threads that wait for a CPU, or that have one and nothing of it left.
func vhostThreads(k *look) (found []suspect) {
	for _, g := range k.guests {
		lost, share := k.lostTo(g)
		for _, t := range g.vhost {
			var f suspect
			var is bool
			if vcpu := busiest(g.vcpus, wants); k.waits(t) && (vcpu == nil || wants(vcpu) < threadFull ||
				wants(vcpu) < wants(t)) {
				f, is = k.starved(t)
			}
			if !is && k.noneLeft(t) {
				f, is = k.fullVhost(g, t), true
			}
			if !is {
				continue
			}
			f.keys = append(f.keys, g.keys()...)
			f.lost += lost
			f.share = max(f.share, share)
			if lost > 0 {
				f.evidence = append(f.evidence, Evidence{"lost before " + g.name, k.rate(lost), "packets/s",
					"tx_dropped of its taps"})
			}
			found = append(found, f)
		}
	}
	return strongest(found)
}

// strongest keeps of several threads with the same reason the one that shows it best.
func strongest(found []suspect) []suspect {
	var kept []suspect
	for _, f := range found {
		same := func(o suspect) bool { return o.kind == f.kind && slices.Equal(guestKeys(o.keys), guestKeys(f.keys)) }
		if at := slices.IndexFunc(kept, same); at >= 0 {
			if f.strength > kept[at].strength {
				keys := kept[at].keys
				kept[at] = f
				kept[at].keys = append(kept[at].keys, keys...)
			} else {
				kept[at].keys = append(kept[at].keys, f.keys...)
			}
			continue
		}
		kept = append(kept, f)
	}
	return kept
}

// guestKeys are the guests that a suspect concerns, each once.
func guestKeys(keys []string) []string {
	found := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return !strings.HasPrefix(key, "guest:") })
	slices.Sort(found)
	return slices.Compact(found)
}

// keys are the places of a guest: itself and its taps.
func (g *guest) keys() []string {
	keys := []string{"guest:" + g.name}
	for _, d := range g.taps {
		keys = append(keys, "dev:"+called(d))
	}
	return keys
}

// fullVhost says why a vhost thread has nothing left of its CPU.
func (k *look) fullVhost(g *guest, t *facts.ThreadLoad) suspect {
	at := where(t)
	busy := k.busy(t)
	f := suspect{
		kind: Vhost, object: label(t), keys: []string{fmt.Sprintf("cpu:%d", at)},
		strength: min(0.80+1.5*max(max(busy, t.Ran+t.Waited)-threadFull, 0), 0.95),
		evidence: []Evidence{{fmt.Sprintf("share of CPU %d that %s used", at, label(t)), busy, "share", schedstat(t)}},
		say:      fmt.Sprintf("%s is at %s of CPU %d", label(t), percent(busy), at),
	}
	if busy < threadFull {
		f.say += fmt.Sprintf(" and ready for %s more", percent(t.Waited))
		f.evidence = append(f.evidence, Evidence{"share of the time that it was ready and had no CPU", t.Waited,
			"share", schedstat(t)})
	}
	if vcpu := busiest(g.vcpus, effective); vcpu != nil {
		use := effective(vcpu)
		f.evidence = append(f.evidence, Evidence{"share of a CPU that the busiest vCPU of " + g.name +
			" used, halt polling left out", use, "share", schedstat(vcpu)})
		f.say += fmt.Sprintf(" while vCPUs are at %s", percent(use))
		if use >= threadFull { // one of the two waits for the other, and which cannot be told from here
			f.strength -= 0.15
		}
	}
	// what a guest sends is forwarded in its vhost thread's time
	if costly, is := k.costlyByProfile(at, max(busy, 0.5)); is {
		f.kind, f.stage, f.object, f.strength = costly.kind, costly.stage, costly.object, costly.strength
		f.say += ": " + costly.say
		f.evidence = append(f.evidence, costly.evidence...)
		f.keys = append(f.keys, costly.keys...)
		return f
	}
	if c := k.cpus[at]; c != nil && k.handling(at) >= 0.3 && k.interrupted(at) {
		f.kind, f.stage, f.strength = IRQBesideVhost, "vhost", min(0.7+0.4*k.handling(at), 0.93)
		f.say += fmt.Sprintf(", of which interrupts of NICs have %s", percent(k.handling(at)))
		f.evidence = append(f.evidence, Evidence{fmt.Sprintf("softirq and interrupts on CPU %d", at), k.handling(at),
			"share", "/proc/stat"})
		return f
	}
	var sisters []*facts.ThreadLoad
	rest := 0.0
	for _, o := range g.vhost {
		if o.TID != t.TID && (o.NIC == t.NIC || t.NIC == "") {
			sisters = append(sisters, o)
			rest = max(rest, o.Ran)
		}
	}
	vcpus := len(g.vcpus)
	if g.known != nil {
		vcpus = max(vcpus, g.known.VCPUs)
	}
	switch {
	case len(sisters) == 0 && vcpus > 1:
		f.kind, f.stage, f.strength = OneQueue, "vhost", f.strength-0.02
		f.knobs = []string{"domain.queues", "guest.channels", "vhost.threads"}
		f.say += fmt.Sprintf(": %s has %s and one queue", g.name, some(vcpus, "vCPU"))
		f.evidence = append(f.evidence, Evidence{"queues of " + g.name, 1, "queues", "vhost threads of its interface"})
	case len(sisters) > 0 && rest < 0.15:
		f.kind, f.stage, f.strength = QueueImbalance, "vhost", f.strength-0.05
		f.knobs = []string{"nic.flow_hash.udp4", "nic.flow_hash.udp6", "guest.xps", "domain.queues"}
		f.say += fmt.Sprintf(", and the other %s at most at %s", some(len(sisters), "queue"), percent(rest))
		f.evidence = append(f.evidence, Evidence{"share of a CPU that the next busiest queue's thread used", rest,
			"share", "/proc/PID/task/TID/schedstat"})
	}
	return f
}

// interrupted reports whether packets are received on a CPU that a NIC brings there, so that its softirqs are not those
// of the thread that runs there: that is known of the NIC, or nobody else receives so many and they are on their way to
// guests.
func (k *look) interrupted(cpu int) bool {
	if !k.outwards && k.softnetShare(cpu) >= 0.3 {
		return true
	}
	for _, d := range k.hardware() {
		if k.rate(float64(d.RxPackets)) >= quiet && slices.Contains(k.servers(d), cpu) {
			return true
		}
	}
	return false
}

// emulated are guests whose packets QEMU carries itself.
func emulated(k *look) (found []suspect) {
	for _, g := range k.guests {
		if len(g.vhost) > 0 || len(g.taps) == 0 || k.rate(g.in+g.out) < quiet {
			continue
		}
		t := busiest(g.emulators, k.busy)
		if t == nil || !k.noneLeft(t) && !k.waits(t) {
			continue
		}
		lost, share := k.lostTo(g)
		found = append(found, suspect{
			kind: NoVhost, object: label(t), strength: 0.9, lost: lost, share: share,
			keys: append(g.keys(), fmt.Sprintf("cpu:%d", where(t))),
			say: fmt.Sprintf("%s has no vhost thread: QEMU carries its packets itself and is at %s of CPU %d", g.name,
				percent(k.busy(t)), where(t)),
			evidence: []Evidence{
				{"share of a CPU that QEMU's main thread used", k.busy(t), "share", schedstat(t)},
				{"vhost threads of " + g.name, 0, "threads", "/proc"},
			},
		})
	}
	return found
}

// wrongNode are guests whose threads work on another NUMA node than their memory or the NIC, where they have nothing
// left.
func wrongNode(k *look) (found []suspect) {
	if len(k.h.Topology.Nodes) < 2 {
		return nil
	}
	nicNode, nicName := k.nicNode()
	for _, g := range k.guests {
		lost, share := k.lostTo(g)
		full := lost > 0
		var far, all float64
		memory, of := -1, ""
		for _, t := range slices.Concat(g.vhost, g.vcpus) {
			if at, share := mostMemory(t.Memory); share >= 0.7 {
				memory, of = at, "memory of "+g.name
			}
		}
		want := memory
		if want < 0 {
			want, of = nicNode, nicName
		}
		if want < 0 {
			continue
		}
		for _, t := range g.vhost {
			full = full || k.busy(t) >= threadFull
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
		found = append(found, suspect{
			kind: WrongNode, object: "vhost threads of " + g.name, strength: 0.82, lost: lost, share: share,
			keys: g.keys(),
			say: fmt.Sprintf("%s of the time of %s's vhost threads is spent on another NUMA node than %s, which is "+
				"on node %d", percent(far/all), g.name, of, want),
			evidence: []Evidence{
				{"share of the vhost threads' time on another node", far / all, "share", "/proc/PID/task/TID/stat"},
				{"node of " + of, float64(want), "node", "/proc/PID/numa_maps, /sys/class/net"},
			},
		})
	}
	return found
}

// nicNode is the node of the busiest NIC; −1 where it is not known.
func (k *look) nicNode() (node int, name string) {
	node = -1
	var most uint64
	for _, d := range k.hardware() {
		if n := k.nic(d.Name); n != nil && d.RxPackets+d.TxPackets > most {
			most, node, name = d.RxPackets+d.TxPackets, n.Node, n.Name
		}
	}
	return node, name
}

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
