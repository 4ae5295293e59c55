package bottleneck

import (
	"fmt"
	"maps"
	"slices"

	"mpps/internal/model/facts"
)

// quotas are guests whose cgroup is held back.
func quotas(k *look) (found []suspect) {
	for _, g := range k.guests {
		if k.rate(g.in+g.out) < 1 && g.inside == nil {
			continue // its work is not packets
		}
		var worst *facts.ThreadLoad
		used := map[int]float64{}
		for _, t := range slices.Concat(g.vcpus, g.vhost, g.emulators) {
			used[t.PID] += t.Ran
			if worst == nil || t.Throttle > worst.Throttle {
				worst = t
			}
		}
		if worst == nil || worst.Throttle < heldBack {
			continue
		}
		lost, share := k.lostTo(g)
		f := suspect{
			kind: GuestQuota, object: g.name, strength: min(0.85+0.5*worst.Throttle, 0.98), lost: lost, share: share,
			keys: g.keys(),
			say:  fmt.Sprintf("the cgroup of %s is held back %s of the time", g.name, percent(worst.Throttle)),
			evidence: []Evidence{{"share of the time that " + label(worst) + "'s cgroup was throttled", worst.Throttle,
				"share", "cpu.stat"}},
		}
		if worst.Role == "vhost" {
			f.stage = "vhost"
		}
		if worst.Quota > 0 {
			f.say += fmt.Sprintf(": it may use %.3g CPUs", worst.Quota)
			f.evidence = append(f.evidence, Evidence{"CPUs that it may use", worst.Quota, "CPUs", "cpu.max"})
		}
		for _, t := range slices.Concat(g.vcpus, g.vhost) {
			f.keys = append(f.keys, fmt.Sprintf("cpu:%d", where(t)))
		}
		found = append(found, f)
	}
	return found
}

// vcpus are guests whose vCPUs have nothing left, as far as it is seen from outside: where packets wait before them.
func vcpus(k *look) (found []suspect) {
	for _, g := range k.guests {
		if k.rate(g.in+g.out) < 1 {
			continue
		}
		lost, share := k.lostTo(g)
		v := busiest(g.vcpus, func(t *facts.ThreadLoad) float64 { return effective(t) + t.Waited })
		if v == nil {
			continue
		}
		if vhost := busiest(g.vhost, wants); k.waits(v) && (vhost == nil || wants(vhost) < threadFull ||
			wants(vhost) < wants(v)) {
			if f, is := k.starved(v); is {
				f.lost, f.share = lost, share
				f.keys = append(f.keys, g.keys()...)
				if f.kind == VhostShared {
					f.kind = VCPUShared
				}
				found = append(found, f)
				continue
			}
		}
		v = busiest(g.vcpus, wanted)
		vhost := busiest(g.vhost, k.busy)
		if wanted(v) < threadFull-0.04 || vhost != nil && k.busy(vhost) >= 0.97 {
			continue
		}
		if f, is := k.fullGuest(g, v, lost, share); is {
			found = append(found, f)
		}
	}
	return found
}

// fullGuest says what of a guest whose busiest vCPU is full can be said from outside.
func (k *look) fullGuest(g *guest, v *facts.ThreadLoad, lost, share float64) (suspect, bool) {
	full, idle := 0, 0
	for _, t := range g.vcpus {
		switch {
		case wanted(t) >= threadFull-0.04:
			full++
		case effective(t) < 0.5:
			idle++
		}
	}
	active := 0
	for _, t := range g.vhost {
		if t.Ran >= 0.08 {
			active++
		}
	}
	f := suspect{
		kind: GuestCPU, object: label(v), strength: 0.85, lost: lost, share: share, keys: g.keys(),
		say: fmt.Sprintf("%s is at %s of CPU %d", label(v), percent(effective(v)), where(v)),
		evidence: []Evidence{
			{"share of a CPU that " + label(v) + " used, halt polling left out", effective(v), "share", schedstat(v)},
			{"vCPUs that are full", float64(full), "vCPUs", "/proc/PID/task/TID/schedstat"},
		},
	}
	if vhost := busiest(g.vhost, k.busy); vhost != nil {
		f.say += fmt.Sprintf(" while vhost threads are at %s", percent(k.busy(vhost)))
		f.evidence = append(f.evidence, Evidence{"share of a CPU that " + label(vhost) + " used", k.busy(vhost),
			"share", schedstat(vhost)})
	}
	switch {
	case lost > 0:
		f.evidence = append(f.evidence, Evidence{"lost before " + g.name, k.rate(lost), "packets/s",
			"tx_dropped of its taps"})
	case g.out > g.in:
		f.strength = 0.62 // it sends as fast as it can: its CPU is what bounds it, and what else it does is not seen
	default:
		return f, false // its work need not be packets: none waits
	}
	if full == 1 && idle >= 1 && idle >= len(g.vcpus)/2 && active >= 2 {
		f.kind, f.object, f.strength = GuestIRQ, label(v), min(f.strength, 0.78)
		f.say = fmt.Sprintf("packets reach %s by %s, and only %s is busy, at %s", g.name, some(active, "queue"),
			label(v), percent(effective(v)))
		f.evidence = append(f.evidence, Evidence{"queues that carry packets", float64(active), "queues",
			"vhost threads"})
	}
	return f, true
}

// insideGuests are guests as their agents see them.
func insideGuests(k *look) (found []suspect) {
	for _, g := range k.guests {
		if g.inside == nil {
			continue
		}
		lost, share := k.lostTo(g)
		for _, s := range k.lost(inGuest) {
			if s.guest == g.name {
				lost, share = lost+s.packets, max(share, s.share)
			}
		}
		for _, s := range k.lost(atReader) {
			if s.guest == g.name {
				found = append(found, suspect{
					kind: GuestSocket, object: "socket in " + g.name, strength: 0.9, lost: s.packets, share: s.share,
					keys: append(g.keys(), "inside:"+g.name),
					say: fmt.Sprintf("sockets in %s lose %s of what reaches them: the application does not read "+
						"fast enough", g.name, percent(s.share)),
					evidence: []Evidence{{"lost at receive buffers", k.rate(s.packets), "packets/s", s.source}},
				})
			}
		}
		full, busy, handling := -1, 0.0, 0.0
		spare := false
		for _, c := range g.inside.CPUs {
			if 1-c.Idle > busy {
				full, busy, handling = c.CPU, 1-c.Idle, c.Softirq+c.IRQ
			}
			spare = spare || c.Idle >= 0.5
		}
		if busy < 0.85 || full < 0 {
			continue
		}
		f := suspect{
			kind: GuestCPU, object: fmt.Sprintf("%s vCPU %d", g.name, full), strength: 0.84, lost: lost, share: share,
			keys: append(g.keys(), "inside:"+g.name),
			say: fmt.Sprintf("CPU %d of %s is at %s, %s of it for packets", full, g.name, percent(busy),
				percent(handling)),
			evidence: []Evidence{
				{fmt.Sprintf("CPU %d inside %s", full, g.name), busy, "share", "/proc/stat inside " + g.name},
				{"softirq and interrupts on it", handling, "share", "/proc/stat inside " + g.name},
			},
		}
		if handling < 0.3 && lost == 0 {
			continue // its own work
		}
		if at, irqs, queues := interruptsInside(g.inside); spare && handling >= 0.4 && at == full && irqs >= 0.85 &&
			queues >= 2 {
			f.kind, f.strength = GuestIRQ, 0.92
			f.say = fmt.Sprintf("inside %s vCPU %d takes %s of the interrupts of %s and is at %s while others are idle",
				g.name, full, percent(irqs), some(queues, "queue"), percent(busy))
			f.evidence = append(f.evidence, Evidence{fmt.Sprintf("interrupts of the NIC that come to vCPU %d", full),
				irqs, "share", "/proc/interrupts inside " + g.name})
			if runs, told := g.inside.Service["irqbalance"]; told && !runs {
				f.say += "; irqbalance does not run there"
			}
		} else if handling < 0.15 && lost == 0 {
			continue
		}
		found = append(found, f)
	}
	return found
}

// interruptsInside is the CPU of a guest with most of its NICs' interrupts, its share, and how many interrupts came at
// all.
func interruptsInside(g *facts.GuestLoad) (cpu int, share float64, active int) {
	by := map[int]uint64{}
	var all uint64
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
	cpu = -1
	var most uint64
	for _, at := range slices.Sorted(maps.Keys(by)) {
		if by[at] > most {
			cpu, most = at, by[at]
		}
	}
	if all == 0 {
		return -1, 0, 0
	}
	return cpu, float64(most) / float64(all), active
}

// exhausted tells that no CPU of the host has anything left, and threads of the path wait.
func exhausted(k *look) []suspect {
	if len(k.l.CPUs) < 2 {
		return nil
	}
	for _, c := range k.l.CPUs {
		if !k.full(c.CPU) {
			return nil
		}
	}
	waited, threads, bound, own := 0.0, 0, 0, 0.0
	var keys []string
	for i := range k.l.Threads {
		t := &k.l.Threads[i]
		switch t.Role {
		case "vhost", "vcpu", "napi", "emulator":
			own += t.Ran
			if t.Waited >= waitsLong {
				threads++
				if len(t.Affinity) == 1 {
					bound++ // it waits for that one CPU
				}
				waited = max(waited, t.Waited)
				keys = append(keys, fmt.Sprintf("cpu:%d", where(t)), "guest:"+t.Guest)
			}
		}
	}
	if threads < 2 || threads <= len(k.l.CPUs)/2 || 2*bound > threads || own < 0.6*float64(len(k.l.CPUs)) {
		return nil
	}
	f := suspect{
		kind: CPUExhausted, object: fmt.Sprintf("all %d CPUs", len(k.l.CPUs)), strength: min(0.85+0.2*waited, 0.95),
		keys: keys,
		say: fmt.Sprintf("all %d CPUs are full, and %s of guests wait for one up to %s of the time", len(k.l.CPUs),
			some(threads, "thread"), percent(waited)),
		evidence: []Evidence{
			{"CPUs with nothing left", float64(len(k.l.CPUs)), "CPUs", "/proc/stat"},
			{"threads of guests that wait for a CPU", float64(threads), "threads", "/proc/PID/task/TID/schedstat"},
			{"longest share of the time that one waited", waited, "share", "/proc/PID/task/TID/schedstat"},
		},
	}
	for _, s := range k.lost(atTap) {
		f.lose(s)
	}
	return []suspect{f}
}

// stolen tells that the hypervisor of this host gives its CPUs to others. It comes last: nothing else explains what is
// full.
func stolen(k *look) []suspect {
	worst := facts.CPULoad{CPU: -1}
	for _, c := range k.l.CPUs {
		if c.Steal > worst.Steal && k.full(c.CPU) {
			worst = c
		}
	}
	if worst.CPU < 0 || worst.Steal < 0.2 {
		return nil
	}
	return []suspect{{
		kind: Steal, object: fmt.Sprintf("CPU %d", worst.CPU), strength: min(0.4+worst.Steal, 0.85),
		keys: []string{"steal"},
		say: fmt.Sprintf("the hypervisor below takes %s of CPU %d away, which has nothing left",
			percent(worst.Steal), worst.CPU),
		evidence: []Evidence{{fmt.Sprintf("stolen of CPU %d", worst.CPU), worst.Steal, "share", "/proc/stat, steal"}},
	}}
}
