package bottleneck

import (
	"fmt"
	"maps"
	"slices"

	"mpps/internal/model/facts"
)

// quotas blames cgroups of guests that are throttled.
func quotas(p *path) (found []suspect) {
	for _, g := range p.guests {
		if p.rate(g.toGuest+g.fromGuest) < 1 && g.inside == nil {
			continue // the guest does not use the network
		}
		worst := busiestThread(slices.Concat(g.vcpus, g.vhost, g.emulators),
			func(t *facts.ThreadLoad) float64 { return t.Throttle })
		if worst == nil || worst.Throttle < minThrottle {
			continue
		}
		lost, share := p.lossTo(g)
		f := suspect{
			kind: GuestQuota, object: g.name, strength: min(0.85+0.5*worst.Throttle, 0.98), lost: lost, share: share,
			keys: g.keys(),
			say:  fmt.Sprintf("the cgroup of %s is held back %s of the time", g.name, percent(worst.Throttle)),
		}
		f.show("share of the time that "+label(worst)+"'s cgroup was throttled", worst.Throttle, "share", "cpu.stat")
		if worst.Role == "vhost" {
			f.stage = "vhost"
		}
		if worst.Quota > 0 {
			f.say += fmt.Sprintf(": it may use %.3g CPUs", worst.Quota)
			f.show("CPUs that it may use", worst.Quota, "CPUs", "cpu.max")
		}
		for _, t := range slices.Concat(g.vcpus, g.vhost) {
			f.keys = append(f.keys, cpuKey(cpuOf(t)))
		}
		found = append(found, f)
	}
	return found
}

// vcpus blames vCPUs that are full as seen from outside, where packets wait for them.
func vcpus(p *path) (found []suspect) {
	for _, g := range p.guests {
		v := busiestThread(g.vcpus, demand)
		if p.rate(g.toGuest+g.fromGuest) < 1 || v == nil {
			continue
		}
		lost, share := p.lossTo(g)
		if p.waitsMoreThan(v, g.vhost) {
			if f, is := p.contention(v); is {
				f.lost, f.share = lost, share
				f.keys = append(f.keys, g.keys()...)
				if f.kind == VhostShared {
					f.kind = VCPUShared
				}
				found = append(found, f)
				continue
			}
		}
		v = busiestThread(g.vcpus, vcpuDemand)
		vhost := busiestThread(g.vhost, p.busy)
		if vcpuDemand(v) < threadFull-0.04 || vhost != nil && p.busy(vhost) >= 0.97 {
			continue
		}
		if f, is := p.fullGuest(g, v, vhost, lost, share); is {
			found = append(found, f)
		}
	}
	return found
}

// fullGuest returns the suspect of a guest whose busiest vCPU is full, as far as it is visible from outside.
func (p *path) fullGuest(g *guest, v, vhost *facts.ThreadLoad, lost, share float64) (suspect, bool) {
	full, idle, active := 0, 0, 0
	for _, t := range g.vcpus {
		switch {
		case vcpuDemand(t) >= threadFull-0.04:
			full++
		case effective(t) < 0.5:
			idle++
		}
	}
	for _, t := range g.vhost {
		if t.Ran >= 0.08 {
			active++
		}
	}
	f := suspect{
		kind: GuestCPU, object: label(v), strength: 0.85, lost: lost, share: share, keys: g.keys(),
		say: fmt.Sprintf("%s is at %s of CPU %d", label(v), percent(effective(v)), cpuOf(v)),
	}
	f.show("share of a CPU that "+label(v)+" used, halt polling left out", effective(v), "share", schedstat(v))
	f.show("vCPUs that are full", float64(full), "vCPUs", anySchedstat)
	if vhost != nil {
		f.say += fmt.Sprintf(" while vhost threads are at %s", percent(p.busy(vhost)))
		f.showUse(vhost, p.busy(vhost))
	}
	switch {
	case lost > 0:
		f.show("lost before "+g.name, p.rate(lost), "packets/s", "tx_dropped of its taps")
	case g.fromGuest > g.toGuest:
		f.strength = 0.62 // its CPU limits what it sends, but the load does not show what else it does
	default:
		return f, false // its work may not be packets: none of them waits
	}
	if full == 1 && idle >= 1 && idle >= len(g.vcpus)/2 && active >= 2 {
		f.kind, f.strength = GuestIRQ, min(f.strength, 0.78)
		f.say = fmt.Sprintf("packets reach %s by %s, and only %s is busy, at %s", g.name, count(active, "queue"),
			label(v), percent(effective(v)))
		f.show("queues that carry packets", float64(active), "queues", "vhost threads")
	}
	return f, true
}

// insideGuests blames CPUs and sockets of guests that their agents report on.
func insideGuests(p *path) (found []suspect) {
	for _, g := range p.guests {
		if g.inside == nil {
			continue
		}
		lost, share := p.lossTo(g)
		for _, s := range p.lossesAt(inGuest) {
			if s.guest == g.name {
				lost, share = lost+s.packets, max(share, s.share)
			}
		}
		keys := append(g.keys(), "inside:"+g.name)
		for _, s := range p.lossesAt(atReader) {
			if s.guest == g.name {
				found = append(found, suspect{
					kind: GuestSocket, object: "socket in " + g.name, strength: 0.9, lost: s.packets, share: s.share,
					keys: slices.Clone(keys),
					say: fmt.Sprintf("sockets in %s lose %s of what reaches them: the application does not read "+
						"fast enough", g.name, percent(s.share)),
					evidence: []Evidence{{"lost at receive buffers", p.rate(s.packets), "packets/s", s.source}},
				})
			}
		}
		c := most(facts.Each(g.inside.CPUs), func(c *facts.CPULoad) float64 { return 1 - c.Idle })
		if c == nil || 1-c.Idle < 0.85 {
			continue
		}
		busy, handling := 1-c.Idle, c.Softirq+c.IRQ
		if lost == 0 && handling < 0.3 {
			continue // its own work
		}
		f := suspect{
			kind: GuestCPU, object: fmt.Sprintf("%s vCPU %d", g.name, c.CPU), strength: 0.84, lost: lost, share: share,
			keys: keys,
			say: fmt.Sprintf("CPU %d of %s is at %s, %s of it for packets", c.CPU, g.name, percent(busy),
				percent(handling)),
		}
		f.show(fmt.Sprintf("CPU %d inside %s", c.CPU, g.name), busy, "share", "/proc/stat inside "+g.name)
		f.show("softirq and interrupts on it", handling, "share", "/proc/stat inside "+g.name)
		spare := slices.ContainsFunc(g.inside.CPUs, func(c facts.CPULoad) bool { return c.Idle >= 0.5 })
		if at, irqs, queues := interruptsInside(g.inside); spare && handling >= 0.4 && at == c.CPU && irqs >= 0.85 &&
			queues >= 2 {
			f.kind, f.strength = GuestIRQ, 0.92
			f.say = fmt.Sprintf("inside %s vCPU %d takes %s of the interrupts of %s and is at %s while others are idle",
				g.name, c.CPU, percent(irqs), count(queues, "queue"), percent(busy))
			f.show(fmt.Sprintf("interrupts of the NIC that come to vCPU %d", c.CPU), irqs, "share",
				"/proc/interrupts inside "+g.name)
			if runs, known := g.inside.Service["irqbalance"]; known && !runs {
				f.say += "; irqbalance does not run there"
			}
		}
		found = append(found, f)
	}
	return found
}

// interruptsInside returns the CPU of a guest that gets most of its NICs' interrupts (−1: none came), its share of
// them, and how many interrupt vectors are active.
func interruptsInside(g *facts.GuestLoad) (cpu int, share float64, active int) {
	by := map[int]uint64{}
	var all, most uint64
	for _, irq := range g.IRQs {
		var n uint64
		for at, count := range irq {
			by[at] += count
			n += count
		}
		all += n
		if n >= 100 {
			active++
		}
	}
	if all == 0 {
		return -1, 0, 0
	}
	for _, at := range slices.Sorted(maps.Keys(by)) {
		if by[at] > most {
			cpu, most = at, by[at]
		}
	}
	return cpu, float64(most) / float64(all), active
}

// exhaustedCPUs reports a host without idle time on any CPU while threads of the path wait.
func exhaustedCPUs(p *path) []suspect {
	cpus := len(p.l.CPUs)
	if cpus < 2 || slices.ContainsFunc(p.l.CPUs, func(c facts.CPULoad) bool { return !p.full(c.CPU) }) {
		return nil
	}
	waited, threads, bound, own := 0.0, 0, 0, 0.0
	var keys []string
	for t := range facts.Each(p.l.Threads) {
		if !slices.Contains([]string{"vhost", "vcpu", "napi", "emulator"}, t.Role) {
			continue
		}
		own += t.Ran
		if t.Waited >= minWait {
			threads++
			if len(t.Affinity) == 1 {
				bound++ // it waits for that one CPU
			}
			waited = max(waited, t.Waited)
			keys = append(keys, cpuKey(cpuOf(t)), "guest:"+t.Guest)
		}
	}
	if threads < 2 || threads <= cpus/2 || 2*bound > threads || own < 0.6*float64(cpus) {
		return nil
	}
	f := suspect{
		kind: CPUExhausted, object: fmt.Sprintf("all %d CPUs", cpus), strength: min(0.85+0.2*waited, 0.95), keys: keys,
		say: fmt.Sprintf("all %d CPUs are full, and %s of guests wait for one up to %s of the time", cpus,
			count(threads, "thread"), percent(waited)),
	}
	f.show("CPUs with nothing left", float64(cpus), "CPUs", "/proc/stat")
	f.show("threads of guests that wait for a CPU", float64(threads), "threads", anySchedstat)
	f.show("longest share of the time that one waited", waited, "share", anySchedstat)
	for _, s := range p.lossesAt(atTap) {
		f.addLoss(s)
	}
	return []suspect{f}
}

// stolenCPUs reports that this host's hypervisor gives its CPUs to others. Nothing else explains a full CPU then.
func stolenCPUs(p *path) []suspect {
	worst := most(facts.Each(p.l.CPUs), func(c *facts.CPULoad) float64 {
		if !p.full(c.CPU) {
			return -1
		}
		return c.Steal
	})
	if worst == nil || worst.Steal < 0.2 {
		return nil
	}
	f := suspect{
		kind: Steal, object: cpuName(worst.CPU), strength: min(0.4+worst.Steal, 0.85), keys: []string{"steal"},
		say: fmt.Sprintf("the hypervisor below takes %s of CPU %d away, which has nothing left",
			percent(worst.Steal), worst.CPU),
	}
	f.show("stolen of "+cpuName(worst.CPU), worst.Steal, "share", "/proc/stat, steal")
	return []suspect{f}
}
