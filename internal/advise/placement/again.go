package placement

import (
	"slices"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// maxAgain is how often guests are placed again from where a placement has put them.
const maxAgain = 4

// placedAgain places the guests of an ask again from where a placement has put them, until nothing moves or maxAgain is
// reached: a plan made of the result leaves little for another one. What a later placement does not move keeps the
// reasons of the one that moved it.
func placedAgain(ask Ask, r *Result) *Result {
	if slices.ContainsFunc(ask.Guests, func(g Guest) bool { return g.isNew || g.free }) {
		return r // the user chose what moves
	}
	t := newTable(ask)
	found := t.foundStandings()
	before := t.judge(found)
	if !slices.ContainsFunc(t.changes(r, found), func(c change) bool { return c.vcpus || c.threads }) {
		return r
	}
	for range maxAgain {
		next := settle(ask.carriedOut(r))
		if slices.ContainsFunc(r.Guests, func(p Placed) bool { return next.Guest(p.Name) == nil }) {
			return r
		}
		moved := !next.Housekeeping.Equal(r.Housekeeping) || !slices.EqualFunc(next.NICs, r.NICs,
			func(a, b Serving) bool { return a.Name == b.Name && slices.Equal(a.CPUs, b.CPUs) })
		for p := range facts.Each(next.Guests) {
			moved = p.keepFrom(r.Guest(p.Name)) || moved
		}
		if !moved {
			return r
		}
		next.Moved, next.GivesWay = nil, nil
		t.reportMoved(next)
		t.giveWay(next, found, t.changes(next, found), before, t.judge(t.standings(next, found)))
		next.Proved, next.Cost = next.Proved && r.Proved, Score(ask, next)
		if next.isWorse(r) {
			return r
		}
		r = next
	}
	return r
}

// isWorse reports whether a rule gives way in a placement, for a guest or by so much, that does not in another one.
func (r *Result) isWorse(other *Result) bool {
	return slices.ContainsFunc(r.GivesWay, func(w GivesWay) bool {
		return !slices.ContainsFunc(other.GivesWay, func(o GivesWay) bool {
			return o.Rule == w.Rule && o.Guest == w.Guest && o.Then >= w.Then
		})
	})
}

// keepFrom keeps the parts of a guest's earlier place that are the same in this one, with their reasons. It reports
// whether anything differs.
func (p *Placed) keepFrom(was *Placed) (differs bool) {
	if was == nil {
		return true
	}
	if slices.Equal(p.VCPUs, was.VCPUs) {
		p.Kept, p.Why = was.Kept, was.Why
		p.Memory, p.Nodes, p.PageSize, p.MemoryWhy = was.Memory, was.Nodes, was.PageSize, was.MemoryWhy
	} else {
		differs = true
	}
	p.Queues = was.Queues
	stay := slices.ContainsFunc(p.Vhost, func(v Vhost) bool { return len(v.Stays) > 0 })
	same := func(v, w Vhost) bool { return v.CPU == w.CPU && len(w.Stays) == 0 }
	if stay || slices.EqualFunc(p.Vhost, was.Vhost, same) {
		p.Vhost, p.VhostWhy, p.Others = was.Vhost, was.VhostWhy, was.Others
	} else {
		differs = true
	}
	return differs || !p.Emulator.Equal(was.Emulator)
}

// Crowded reports whether the guests that run have more vCPUs than there are CPUs for them, some find no place, and the
// user names none: those without a place float over all CPUs, and a guest that is not pinned stays free to move away.
func (a *Ask) Crowded(r *Result) bool {
	vcpus := 0
	for _, g := range a.Guests {
		if vcpus += g.VCPUs; g.Named {
			return false
		}
	}
	online := setting.CPUs(facts.Map(a.CPUs, func(c CPU) int { return c.ID })...)
	return len(r.Refused) > 0 && vcpus > len(online.Minus(a.Taken))-len(r.Housekeeping)
}

// carriedOut returns an ask with its guests where a plan for a placement puts them.
func (a Ask) carriedOut(r *Result) Ask {
	a.Guests = slices.Clone(a.Guests)
	anywhere, crowded := newTable(a).anywhere(), a.Crowded(r)
	for g := range facts.Each(a.Guests) {
		p := r.Guest(g.Name)
		if p == nil || g.Fixed || g.handed || crowded && len(g.Pins) == 0 {
			continue
		}
		was := *g
		if g.was == nil {
			g.was = &was
		}
		pin := g.repinned(p, anywhere)
		if !g.unmanaged {
			g.Pins, g.Masks, g.Shared = nil, nil, false
			for _, v := range p.VCPUs {
				g.Pins = append(g.Pins, v.CPU)
			}
			if len(a.Nodes) > 1 && len(p.Nodes) == 1 { // domain.numatune
				g.Home = p.Nodes
			}
			if len(pin) > 0 {
				g.Emulator = pin
			}
		}
		g.Workers = slices.Clone(g.Workers)
		for w := range facts.Each(g.Workers) {
			switch v := p.Queue(w.NIC, w.Queue); {
			case v == nil:
			case len(v.Stays) == 0 && !g.vhostFollow && p.VCPUSet().Has(v.CPU):
				w.CPUs = p.VCPUSet()
			default:
				w.CPUs = g.reaches(v, w.CPUs, pin)
			}
		}
		g.addStarting()
		g.threadsStay = g.staysWithEmulator()
	}
	return a
}

// repinned returns the CPUs that a plan pins a guest's emulator threads to, none if it leaves them where they are.
func (g *Guest) repinned(p *Placed, anywhere setting.CPUSet) setting.CPUSet {
	stays := slices.ContainsFunc(p.Vhost, func(v Vhost) bool { return len(v.Stays) > 0 })
	if g.unmanaged || p.Emulator.Equal(g.Emulator) || len(g.Emulator) == 0 && (stays || p.Emulator.Equal(anywhere)) {
		return nil
	}
	return p.Emulator
}

// reaches returns where a placed vhost thread may run that is within a mask today, once the guest's emulator threads
// are pinned to some CPUs, or to no others than today.
func (g *Guest) reaches(v *Vhost, mask, emulator setting.CPUSet) setting.CPUSet {
	switch {
	case len(v.Stays) == 0 && !g.vhostFollow:
		return setting.CPUs(v.CPU)
	case len(emulator) == 0:
		return mask
	}
	return Within(mask, emulator)
}

// Within returns the CPUs that a thread with a mask may use once it is in a cpuset: those of both, or the whole cpuset
// if they have none in common.
func Within(mask, cpuset setting.CPUSet) setting.CPUSet {
	if both := mask.And(cpuset); len(both) > 0 {
		return both
	}
	return cpuset
}
