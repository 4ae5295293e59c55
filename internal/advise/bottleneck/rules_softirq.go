package bottleneck

import (
	"fmt"
	"slices"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// softirqs blames CPUs that packet handling fills, each with the reason: the cost of a packet there, or that all
// packets arrive there.
func softirqs(p *path) (found []suspect) {
	for _, c := range p.l.CPUs {
		use := p.softirqUse(c.CPU)
		if !p.full(c.CPU) || use < 0.2 {
			continue
		}
		f := p.softirqSuspect(c.CPU)
		costly, is := p.packetCost(c.CPU)
		receives := is && costly.kind == Receiver // what it loses nobody counts
		if f.lost == 0 && (use < 0.4 || !p.pressed(c.CPU) && !receives) {
			continue // its time goes to programs, which give way to packets
		}
		if !is || costly.kind == TunnelCost { // on one CPU the problem is not the cost, but that no other CPU shares it
			if one, only := p.tunnelOnOneCPU(c.CPU); only {
				costly, is = one, true
			}
		}
		if is {
			f.say = costly.say
			f.become(costly)
		} else if f.lost > 0 && use >= 0.4 || use >= 0.8 {
			p.explainConcentration(c.CPU, &f)
		} else {
			continue
		}
		found = append(found, f)
	}
	return mergeCauses(found)
}

// pressed reports whether a CPU does not keep up with its packets though none is lost: rounds of the softirq are cut
// short, or the thread that goes on with them has much to do or waits for the CPU.
func (p *path) pressed(cpu int) bool {
	row, _ := p.softnet(cpu)
	return row != nil && p.rate(float64(row.Squeezed)) >= 10 ||
		slices.ContainsFunc(p.l.Threads, func(t facts.ThreadLoad) bool {
			return (t.Role == "ksoftirqd" || t.Role == "napi") && cpuOf(&t) == cpu &&
				(t.Waited >= minWait || t.Ran >= 0.3)
		})
}

// mergeCauses merges the suspects of several CPUs that have the same cause.
func mergeCauses(found []suspect) []suspect {
	var merged []suspect
	for _, f := range found {
		m := facts.Find(merged, func(m *suspect) bool {
			return m.kind == f.kind && (m.object == f.object || f.kind == Softirq)
		})
		if m == nil {
			merged = append(merged, f)
			continue
		}
		m.evidence, m.keys = append(m.evidence, f.evidence...), append(m.keys, f.keys...)
		m.lost += f.lost
		m.share = max(m.share, f.share)
		if f.strength > m.strength {
			m.strength, m.say, m.object = f.strength, f.say, f.object
		}
	}
	return merged
}

// softirqSuspect returns a full CPU with the packets that are lost because of it.
func (p *path) softirqSuspect(cpu int) suspect {
	use, idle := p.softirqUse(cpu), p.cpus[cpu].Idle
	f := suspect{
		kind: Softirq, object: cpuName(cpu), strength: 0.62 + 0.25*use, keys: []string{cpuKey(cpu)},
		say: fmt.Sprintf("CPU %d spends %s of its time on receiving and forwarding, and has %s left", cpu, percent(use),
			percent(idle)),
	}
	f.show("softirq and interrupts on "+cpuName(cpu), use, "share", "/proc/stat")
	f.show("idle of "+cpuName(cpu), idle, "share", "/proc/stat")
	for _, s := range p.lossesAt(atBacklog) {
		if s.cpu == cpu || s.cpu < 0 {
			f.addLoss(s)
		}
	}
	for _, s := range p.lossesAt(atRing) {
		if cpus := p.servingCPUs(s.device); len(cpus) == 0 || slices.Contains(cpus, cpu) {
			f.addLoss(s)
			f.keys = append(f.keys, deviceKey(s.device))
		}
	}
	for _, s := range p.lossesAt(atDevice) { // the CPU that fills a veth's ring empties it too
		f.addLoss(s)
		f.keys = append(f.keys, deviceKey(s.device))
	}
	if row, _ := p.softnet(cpu); row != nil && row.Squeezed > 0 {
		f.show("rounds of the softirq cut short on "+cpuName(cpu), p.rate(float64(row.Squeezed)), "rounds/s",
			"/proc/net/softnet_stat, time_squeeze")
	}
	return f
}

// explainConcentration adds why a CPU has all packets: RPS, one queue, one of several queues, or interrupts.
func (p *path) explainConcentration(cpu int, f *suspect) {
	row, all := p.softnet(cpu)
	if row != nil && row.RPS > 0 && float64(row.RPS) >= 0.3*float64(row.Processed) &&
		float64(row.Processed) >= 0.4*all {
		f.kind, f.strength = RPS, 0.8
		f.say = fmt.Sprintf("software steering (RPS) sends %s of CPU %d's packets there, and it has %s left",
			percent(min(float64(row.RPS)/float64(row.Processed), 1)), cpu, percent(p.idle(cpu)))
		f.show("packets steered to "+cpuName(cpu), p.rate(float64(row.RPS)), "packets/s",
			"/proc/net/softnet_stat, received_rps")
		return
	}
	d := p.feedingNIC(cpu)
	if d == nil || !p.spare() {
		return
	}
	name, folder := deviceName(d), "/sys/class/net/"+d.Name+"/queues"
	of, active := p.activeQueues(d)
	switch {
	case of == 1:
		f.kind, f.stage, f.object, f.strength = OneQueue, "nic", name, 0.68
		f.say = fmt.Sprintf("%s has one queue, and CPU %d that serves it has %s left while others are idle", name,
			cpu, percent(p.idle(cpu)))
		f.knobs = []string{"nic.channels", "nic.irq_affinity", "nic.rps"}
		f.show("receive queues of "+name, 1, "queues", folder)
	case of > 1 && len(active) == 1:
		q := active[0]
		f.kind, f.stage, f.object, f.strength = QueueImbalance, "nic", name, 0.82
		f.say = fmt.Sprintf("queue %d of %s has nearly all packets of %d queues", q.Index, name, of)
		f.show(fmt.Sprintf("packets of queue %d of %s", q.Index, name), p.rate(float64(q.Packets)), "packets/s",
			"ethtool -S "+d.Name)
	case of > 1 && p.allOn(d, active, cpu), of > 1 && len(active) == 0 && p.softnetShare(cpu) >= 0.9:
		f.kind, f.strength = IRQOneCPU, 0.88
		f.say = fmt.Sprintf("all %d queues of %s interrupt CPU %d, which has %s left while others are idle", of, name,
			cpu, percent(p.idle(cpu)))
		f.show("receive queues of "+name, float64(of), "queues", folder)
		f.show("packets received on "+cpuName(cpu), p.softnetShare(cpu), "share", "/proc/net/softnet_stat")
	}
	f.keys = append(f.keys, deviceKey(d))
}

// softnet returns a CPU's row of softnet_stat, nil if there is none, and the packets that all CPUs processed.
func (p *path) softnet(cpu int) (row *facts.Softnet, all float64) {
	for s := range facts.Each(p.l.Softnet) {
		all += float64(s.Processed)
		if s.CPU == cpu {
			row = s
		}
	}
	return row, all
}

// softnetShare returns a CPU's share of all processed packets.
func (p *path) softnetShare(cpu int) float64 {
	row, all := p.softnet(cpu)
	if row == nil || all == 0 {
		return 0
	}
	return float64(row.Processed) / all
}

// feedingNIC returns the NIC that most packets of a CPU come from: the busiest of those that it serves, or of those
// whose CPUs are not known.
func (p *path) feedingNIC(cpu int) *facts.DeviceLoad {
	return most(slices.Values(p.nics()), func(d *facts.DeviceLoad) float64 {
		cpus := p.servingCPUs(d)
		if d.RxPackets == 0 || len(cpus) > 0 && !slices.Contains(cpus, cpu) {
			return -1
		}
		return float64(d.RxPackets)
	})
}

// activeQueues returns the number of a device's receive queues (0: not known), and those with at least 5 % of the
// packets.
func (p *path) activeQueues(d *facts.DeviceLoad) (of int, active []facts.QueueLoad) {
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
	switch n := p.nic(d.Name); {
	case n == nil:
	case n.Channels != nil && n.Channels.Combined+n.Channels.Rx > 0:
		of = max(of, n.Channels.Combined+n.Channels.Rx)
	default:
		of = max(of, n.RxQueues)
	}
	return of, active
}

// allOn reports whether one CPU serves all queues that have packets.
func (p *path) allOn(d *facts.DeviceLoad, active []facts.QueueLoad, cpu int) bool {
	if len(active) < 2 {
		return false
	}
	for _, q := range active {
		if len(q.CPUs) > 0 && !q.CPUs.Equal(setting.CPUs(cpu)) {
			return false
		}
	}
	return len(active[0].CPUs) > 0 || slices.Equal(p.servingCPUs(d), []int{cpu}) || p.softnetShare(cpu) >= 0.9
}

// reading returns the number at an address; false if it is absent, unknown or not a number.
func (p *path) reading(a setting.Address) (n float64, known bool) {
	r := p.h.Readings.At(a)
	if r.State != setting.Known {
		return 0, false
	}
	_, err := fmt.Sscanf(r.Value, "%g", &n)
	return n, err == nil
}

// Settings of the host that rules use, or that explain a recorded load.
var (
	maxBacklog        = setting.Of(setting.Sysctl, "net.core.netdev_max_backlog")
	netdevBudget      = setting.Of(setting.Sysctl, "net.core.netdev_budget")
	netdevBudgetUsecs = setting.Of(setting.Sysctl, "net.core.netdev_budget_usecs")
	devWeight         = setting.Of(setting.Sysctl, "net.core.dev_weight")
)

// bridgeNF pass bridged frames of every bridge to iptables, even where the bridge's own switch does not
// (br_netfilter_hooks.c, br_nf_pre_routing).
var bridgeNF = []setting.Address{
	setting.Of(setting.Sysctl, "net.bridge.bridge-nf-call-iptables"),
	setting.Of(setting.Sysctl, "net.bridge.bridge-nf-call-ip6tables"),
	setting.Of(setting.Sysctl, "net.bridge.bridge-nf-call-arptables"),
}

// Addresses returns the settings that a diagnosis reads.
func Addresses() []setting.Address {
	return append([]setting.Address{maxBacklog, netdevBudget, netdevBudgetUsecs, devWeight}, bridgeNF...)
}
