package bottleneck

import (
	"fmt"
	"slices"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// softirqs are the CPUs on which handling packets leaves nothing over, each with the reason: what a packet costs there,
// or that all packets come there.
func softirqs(k *look) (found []suspect) {
	for _, c := range k.l.CPUs {
		if !k.full(c.CPU) || k.handling(c.CPU) < 0.2 {
			continue
		}
		f := k.softirqOn(c.CPU)
		if f.lost == 0 && k.handling(c.CPU) < 0.4 {
			continue
		}
		costly, is := k.costly(c.CPU)
		if !is || costly.kind == TunnelCost { // on one CPU it is not what it costs, but that nobody shares it
			if one, funnel := k.tunnelOn(c.CPU); funnel {
				costly, is = one, true
			}
		}
		if is {
			f.kind, f.stage, f.strength, f.object = costly.kind, costly.stage, costly.strength, costly.object
			f.say, f.evidence = costly.say, append(f.evidence, costly.evidence...)
			f.keys = append(f.keys, costly.keys...)
		} else if f.lost > 0 && k.handling(c.CPU) >= 0.4 || k.handling(c.CPU) >= 0.8 {
			k.concentrated(c.CPU, &f)
		} else {
			continue // threads have the rest, which give way to packets
		}
		found = append(found, f)
	}
	return merge(found)
}

// merge makes one suspect of several CPUs that have the same reason.
func merge(found []suspect) []suspect {
	var merged []suspect
	for _, f := range found {
		at := slices.IndexFunc(merged, func(m suspect) bool {
			return m.kind == f.kind &&
				(m.object == f.object || f.kind == Softirq)
		})
		if at < 0 {
			merged = append(merged, f)
			continue
		}
		m := &merged[at]
		m.evidence, m.keys = append(m.evidence, f.evidence...), append(m.keys, f.keys...)
		m.lost += f.lost
		m.share = max(m.share, f.share)
		if f.strength > m.strength {
			m.strength, m.say, m.object = f.strength, f.say, f.object
		}
	}
	return merged
}

// softirqOn is a full CPU with what is lost because of it.
func (k *look) softirqOn(cpu int) suspect {
	c := k.cpus[cpu]
	f := suspect{
		kind: Softirq, object: fmt.Sprintf("CPU %d", cpu), strength: 0.62 + 0.25*k.handling(cpu),
		keys: []string{fmt.Sprintf("cpu:%d", cpu)},
		say: fmt.Sprintf("CPU %d spends %s of its time on receiving and forwarding, and has %s left", cpu,
			percent(k.handling(cpu)), percent(c.Idle)),
		evidence: []Evidence{
			{fmt.Sprintf("softirq and interrupts on CPU %d", cpu), k.handling(cpu), "share", "/proc/stat"},
			{fmt.Sprintf("idle of CPU %d", cpu), c.Idle, "share", "/proc/stat"},
		},
	}
	for _, s := range k.lost(atBacklog) {
		if s.cpu == cpu || s.cpu < 0 {
			f.lose(s)
		}
	}
	for _, s := range k.lost(atRing) {
		if servers := k.servers(s.device); len(servers) == 0 || slices.Contains(servers, cpu) {
			f.lose(s)
			f.keys = append(f.keys, "dev:"+called(s.device))
		}
	}
	for _, s := range k.lost(atDevice) { // a veth's ring is emptied by the CPU that filled it
		f.lose(s)
		f.keys = append(f.keys, "dev:"+called(s.device))
	}
	for _, s := range k.l.Softnet {
		if s.CPU == cpu && s.Squeezed > 0 {
			f.evidence = append(f.evidence, Evidence{fmt.Sprintf("rounds of the softirq cut short on CPU %d", cpu),
				k.rate(float64(s.Squeezed)), "rounds/s", "/proc/net/softnet_stat, time_squeeze"})
		}
	}
	return f
}

// lose adds what is lost because of a suspect. The share is that of the worst place.
func (s *suspect) lose(l loss) {
	s.lost += l.packets
	s.share = max(s.share, l.share)
	s.evidence = append(s.evidence, Evidence{"lost: " + string(l.at), l.packets, "packets", l.source})
}

// concentrated finds out why a CPU has all packets: one queue, one of several, interrupts, or software steering.
func (k *look) concentrated(cpu int, f *suspect) {
	if softnet, all := k.softnet(cpu); softnet != nil && softnet.RPS > 0 &&
		float64(softnet.RPS) >= 0.3*float64(softnet.Processed) && float64(softnet.Processed) >= 0.4*all {
		f.kind, f.strength = RPS, 0.8
		f.say = fmt.Sprintf("software steering (RPS) sends %s of CPU %d's packets there, and it has %s left",
			percent(min(float64(softnet.RPS)/float64(softnet.Processed), 1)), cpu, percent(k.idle(cpu)))
		f.evidence = append(f.evidence, Evidence{fmt.Sprintf("packets steered to CPU %d", cpu),
			k.rate(float64(softnet.RPS)), "packets/s", "/proc/net/softnet_stat, received_rps"})
		return
	}
	d := k.feeds(cpu)
	if d == nil || !k.spare() {
		return
	}
	_, all := k.softnet(cpu)
	of, active := k.activeQueues(d)
	switch {
	case of == 1:
		f.kind, f.stage, f.object, f.strength = OneQueue, "nic", called(d), 0.68
		f.say = fmt.Sprintf("%s has one queue, and CPU %d that serves it has %s left while others are idle", called(d),
			cpu, percent(k.idle(cpu)))
		f.knobs = []string{"nic.channels", "nic.irq_affinity", "nic.rps"}
		f.evidence = append(f.evidence, Evidence{"receive queues of " + called(d), 1, "queues", "/sys/class/net/" +
			d.Name + "/queues"})
	case of > 1 && len(active) == 1 && active[0].Packets > 0:
		f.kind, f.stage, f.object, f.strength = QueueImbalance, "nic", called(d), 0.82
		f.say = fmt.Sprintf("queue %d of %s has nearly all packets of %d queues", active[0].Index, called(d), of)
		f.evidence = append(f.evidence, Evidence{fmt.Sprintf("packets of queue %d of %s", active[0].Index, called(d)),
			k.rate(float64(active[0].Packets)), "packets/s", "ethtool -S " + d.Name})
	case of > 1 && k.onlyOn(d, active, cpu), of > 1 && len(active) == 0 && all > 0 && k.softnetShare(cpu) >= 0.9:
		f.kind, f.strength = IRQOneCPU, 0.88
		f.say = fmt.Sprintf("all %d queues of %s interrupt CPU %d, which has %s left while others are idle", of,
			called(d), cpu, percent(k.idle(cpu)))
		f.evidence = append(f.evidence,
			Evidence{"receive queues of " + called(d), float64(of), "queues", "/sys/class/net/" + d.Name + "/queues"},
			Evidence{fmt.Sprintf("packets received on CPU %d", cpu), k.softnetShare(cpu), "share",
				"/proc/net/softnet_stat"})
	}
	f.keys = append(f.keys, "dev:"+called(d))
}

func (k *look) softnet(cpu int) (row *facts.Softnet, all float64) {
	for i := range k.l.Softnet {
		all += float64(k.l.Softnet[i].Processed)
		if k.l.Softnet[i].CPU == cpu {
			row = &k.l.Softnet[i]
		}
	}
	return row, all
}

func (k *look) softnetShare(cpu int) float64 {
	row, all := k.softnet(cpu)
	if row == nil || all == 0 {
		return 0
	}
	return float64(row.Processed) / all
}

// feeds is the NIC that most packets of a CPU come from: of those that it serves, or where that is not known of all,
// the busiest.
func (k *look) feeds(cpu int) *facts.DeviceLoad {
	var found *facts.DeviceLoad
	for _, d := range k.hardware() {
		if servers := k.servers(d); len(servers) > 0 && !slices.Contains(servers, cpu) {
			continue
		}
		if d.RxPackets > 0 && (found == nil || d.RxPackets > found.RxPackets) {
			found = d
		}
	}
	return found
}

// activeQueues are how many receive queues a device has (0: not known), and those with a part of the packets.
func (k *look) activeQueues(d *facts.DeviceLoad) (of int, active []facts.QueueLoad) {
	var all uint64
	for _, q := range d.Queues {
		if q.Direction == "rx" {
			of++
			all += q.Packets
		}
	}
	for _, q := range d.Queues {
		if q.Direction == "rx" && all > 0 && float64(q.Packets) >= 0.05*float64(all) {
			active = append(active, q)
		}
	}
	if n := k.nic(d.Name); n != nil {
		switch {
		case n.Channels != nil && n.Channels.Combined+n.Channels.Rx > 0:
			of = max(of, n.Channels.Combined+n.Channels.Rx)
		default:
			of = max(of, n.RxQueues)
		}
	}
	return of, active
}

// onlyOn reports whether all queues that have packets are served by one CPU.
func (k *look) onlyOn(d *facts.DeviceLoad, active []facts.QueueLoad, cpu int) bool {
	if len(active) < 2 {
		return false
	}
	for _, q := range active {
		if len(q.CPUs) > 0 && !q.CPUs.Equal(setting.CPUs(cpu)) {
			return false
		}
	}
	return len(active[0].CPUs) > 0 || slices.Equal(k.servers(d), []int{cpu}) || k.softnetShare(cpu) >= 0.9
}

// reading is a number that stands at an address.
func (k *look) reading(a setting.Address) (n float64, known bool) {
	r := k.h.Readings.At(a)
	if r.State != setting.Known {
		return 0, false
	}
	_, err := fmt.Sscanf(r.Value, "%g", &n)
	return n, err == nil
}

// What rules ask of the host's settings.
var (
	maxBacklog  = setting.Of(setting.Sysctl, "net.core.netdev_max_backlog")
	netdevTurns = setting.Of(setting.Sysctl, "net.core.netdev_budget")
	netdevTime  = setting.Of(setting.Sysctl, "net.core.netdev_budget_usecs")
	devWeight   = setting.Of(setting.Sysctl, "net.core.dev_weight")
)

// bridgeNF hand bridged frames of every bridge to iptables, where a bridge's own switch does not (br_netfilter_hooks.c,
// br_nf_pre_routing).
var bridgeNF = []setting.Address{
	setting.Of(setting.Sysctl, "net.bridge.bridge-nf-call-iptables"),
	setting.Of(setting.Sysctl, "net.bridge.bridge-nf-call-ip6tables"),
	setting.Of(setting.Sysctl, "net.bridge.bridge-nf-call-arptables"),
}

// Addresses are the settings that a diagnosis asks for.
func Addresses() []setting.Address {
	return append([]setting.Address{maxBacklog, netdevTurns, netdevTime, devWeight}, bridgeNF...)
}
