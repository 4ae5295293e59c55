package placement

import (
	"slices"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// maxSettling is how often guests are placed again because some of them are better left as they are.
const maxSettling = 6

// settle places the guests of an ask so that no rule becomes worse than it is today. A guest whose move would make one
// worse, for it or for another guest, or mend none, is left as it is, and the others are placed around it. Only what
// the user asked for may make a rule worse: a guest that is new, that the user gave CPUs, or that a latency is for. The
// result then says so (GivesWay).
func settle(ask Ask) *Result {
	ask.Guests = slices.Clone(ask.Guests)
	for round := 0; ; round++ {
		r := placeAgain(ask)
		for ask.leaveSharers(r) {
			r = placeAgain(ask)
		}
		t := newTable(ask)
		found := t.foundStandings()
		before, after := t.judge(found), t.judge(t.standings(r, found))
		changes := t.changes(r, found)
		if round >= maxSettling {
			if !leaveAll(&ask, changes, before) {
				t.giveWay(r, found, changes, before, after)
				return r
			}
			continue
		}
		if !leaveOwn(&ask, r, changes, before, after) && !t.leaveCulprits(&ask, found, changes, before, after) &&
			!t.leaveHanded(&ask, r, found, changes, before) {
			t.giveWay(r, found, changes, before, after)
			return r
		}
	}
}

// leaveSharers leaves guests as they are that share CPUs and that a result gives dedicated ones where others go on to
// share: pinned, they could not move away from these. It reports whether there are any. Where the user names a guest,
// nothing is planned for the others.
func (a *Ask) leaveSharers(r *Result) (left bool) {
	if slices.ContainsFunc(a.Guests, func(g Guest) bool { return g.Named }) {
		return false
	}
	var shared setting.CPUSet
	for _, l := range r.Left {
		if g := a.guestNamed(l.Guest); g.Shared && l.Rule == "" && len(l.Paths) == 0 {
			shared = shared.Or(l.CPUs)
		}
	}
	t := newTable(*a)
	for g := range facts.Each(a.Guests) {
		p := r.Guest(g.Name)
		if g.Shared && g.left == nil && p != nil && len(p.VCPUSet().And(shared)) > 0 {
			l := t.sharing(g)
			g.left, left = &l, true
		}
	}
	return left
}

// change is what a placement changes for an existing guest.
type change struct {
	guest          *Guest
	vcpus, threads bool
	cores, was     map[int]bool   // of its new CPUs, and of those where its vCPUs and other threads may run today
	nodes          setting.CPUSet // where its vCPUs may run today
}

// asked reports whether a guest's place is what the user asked for, whichever rules that makes worse: it is new or may
// move, it is named and not pinned, or it is off the CPUs that it was given, or off the isolated ones for a wake-up
// latency.
func (g *Guest) asked(before breaches) bool {
	return g.isNew || g.free || g.Named && len(g.Pins) == 0 || before[Given] > 0 || g.Realtime && before[SetAside] > 0
}

// changes returns what a placement changes.
func (t *table) changes(r *Result, found []standing) []change {
	var all []change
	then := t.standings(r, found)
	for i := range then {
		c := change{guest: then[i].guest, vcpus: true, threads: true, cores: then[i].cores(t)}
		if i < len(found) {
			c.nodes, c.was = t.nodesOfAll(found[i].vcpus), found[i].cores(t)
			c.vcpus = !slices.EqualFunc(found[i].vcpus, then[i].vcpus, setting.CPUSet.Equal)
			c.threads = !slices.EqualFunc(found[i].vhost, then[i].vhost, setting.CPUSet.Equal)
		}
		all = append(all, c)
	}
	return all
}

// leaveOwn leaves the guests as they are whose change makes a rule worse for themselves, or mends none. Before that it
// looks for a place on their own nodes. It reports whether there are any.
func leaveOwn(ask *Ask, r *Result, changes []change, before, after map[string]breaches) (left bool) {
	for g := range facts.Each(ask.Guests) { // a guest without another place is still where it is
		switch was := before[g.Name]; {
		case r.Refusal(g.Name) == nil || was == nil || g.refused || g.stays != "" || !g.isBound():
		case g.asked(was) || len(g.nodes) == 0 && len(g.Pins) != g.VCPUs:
			g.refused, left = true, true
		default:
			g.stays, left = nothingMended, true
		}
	}
	own := ask.byName()
	for _, c := range changes {
		g := own[c.guest.Name]
		was, is := before[g.Name], after[g.Name]
		drags := len(g.Emulator) > 0 && g.threadsStay && len(is.worse(was, threadRules)) > 0
		if was != nil && !g.pinStays && !g.Fixed && !g.freesCores(was, is) &&
			(drags || len(is.worse(was, emulatorRules)) > 0) {
			g.pinStays, left = true, true
		}
		if g.asked(was) || g.Fixed || was == nil {
			continue
		}
		worse := is.worse(was, vcpuRules)
		switch {
		case !c.vcpus || g.stays != "":
		case len(worse) > 0:
			g.stayNear(c.nodes, worse[0])
			left = true
			continue // its threads are judged where its vCPUs will be
		case len(was.worse(is, vcpuRules)) == 0:
			g.stays, left = nothingMended, true
			continue
		}
		if c.threads && !g.threadsStay && g.knowsWorkers() &&
			(len(is.worse(was, threadRules)) > 0 || len(was.worse(is, threadRules)) == 0) {
			g.threadsStay, left = true, true
		} else if c.vcpus && g.threadsStay && g.stays == "" && len(is.worse(was, threadRules)) > 0 {
			g.stayNear(c.nodes, is.worse(was, threadRules)[0])
			left = true
		}
	}
	return left
}

// freesCores reports whether the emulator threads of a guest that is to answer in time leave the isolated cores that
// vCPUs have. Whom they meet instead gives way.
func (g *Guest) freesCores(was, is breaches) bool {
	return g.Realtime && was[EmulatorAside] > 0 && was[EmulatorCore] > 0 && is[EmulatorAside] == 0
}

// stayNear looks for a place of a guest on its own nodes, if they are known, before it leaves it as it is because of a
// rule.
func (g *Guest) stayNear(own setting.CPUSet, rule Rule) {
	if len(g.nodes) == 0 && len(own) > 0 {
		g.nodes = own
		return
	}
	g.stays = rule
}

// isBound reports whether a thread of a guest is pinned to one CPU, so that it keeps others off.
func (g *Guest) isBound() bool {
	return slices.ContainsFunc(g.masks(), func(set setting.CPUSet) bool { return len(set) == 1 }) ||
		slices.ContainsFunc(g.Workers, func(w Worker) bool { return len(w.CPUs) == 1 })
}

// nothingMended is in place of a rule for a move that would mend none.
const nothingMended = "none"

// notOurs is in place of a rule for vCPUs that no plan moves, because libvirt does not know their guest.
const notOurs = "unmanaged"

// leaveCulprits leaves the guests as they are whose change makes a rule worse for another guest: those that come to
// cores where threads of that one may run. It reports whether there are any.
func (t *table) leaveCulprits(ask *Ask, found []standing, changes []change, before, after map[string]breaches) bool {
	return t.leaveBeside(ask, found, changes, before, after,
		func(g *Guest, c *change, of *Guest, near map[int]bool) bool {
			return g.Name != of.Name && meet(near, c.cores)
		})
}

// leaveHanded leaves the guests as they are that only their platform moves, if it ever does, where the others would
// make a rule worse until then. It reports whether there are any.
func (t *table) leaveHanded(ask *Ask, r *Result, found []standing, changes []change, before map[string]breaches) bool {
	until := t.standings(r, found)
	for i := range found {
		if found[i].guest.handed {
			until[i] = found[i]
		}
	}
	return t.leaveBeside(ask, until, changes, before, t.judge(until),
		func(g *Guest, c *change, _ *Guest, near map[int]bool) bool {
			return g.handed && meet(near, c.was)
		})
}

// leaveBeside leaves the guests as they are that are to blame for a rule that becomes worse for another one, given the
// cores where that one's threads may run (near). It reports whether there are any.
func (t *table) leaveBeside(ask *Ask, all []standing, changes []change, before, after map[string]breaches,
	blamed func(g *Guest, c *change, of *Guest, near map[int]bool) bool) bool {
	left, own := false, ask.byName()
	for _, s := range all {
		worse := after[s.guest.Name].worse(before[s.guest.Name], allRules)
		if len(worse) == 0 {
			continue
		}
		near := s.cores(t)
		for c := range facts.Each(changes) {
			g := own[c.guest.Name]
			switch {
			case g.asked(before[g.Name]) || g.Fixed || !blamed(g, c, s.guest, near):
			case c.threads && g.knowsWorkers() && !g.threadsStay:
				g.threadsStay, left = true, true
			case c.vcpus && g.stays == "":
				g.stays, left = worse[0], true
			}
		}
	}
	return left
}

// leaveAll leaves all guests as they are that the user did not ask to place, and reports whether that changes anything.
func leaveAll(ask *Ask, changes []change, before map[string]breaches) (left bool) {
	own := ask.byName()
	for _, c := range changes {
		g := own[c.guest.Name]
		if g.asked(before[g.Name]) || g.Fixed {
			continue
		}
		if c.vcpus && g.stays == "" {
			g.stays, left = nothingMended, true
		}
		if c.threads && !g.threadsStay && g.knowsWorkers() {
			g.threadsStay, left = true, true
		}
	}
	return left
}

// giveWay lists in a result the rules that it makes worse, each with the guest whose change is the cause.
func (t *table) giveWay(r *Result, found []standing, changes []change, before, after map[string]breaches) {
	for _, s := range found {
		name := s.guest.Name
		for _, rule := range after[name].worse(before[name], allRules) {
			w := GivesWay{Rule: rule, Guest: name, For: name, Found: before[name][rule], Then: after[name][rule]}
			own := facts.Find(changes, func(c *change) bool { return c.guest.Name == name })
			if near := s.cores(t); own == nil || !own.vcpus && !own.threads {
				if c := facts.Find(changes, func(c *change) bool {
					return (c.vcpus || c.threads) && meet(near, c.cores)
				}); c != nil {
					w.For = c.guest.Name
				}
			}
			r.GivesWay = append(r.GivesWay, w)
		}
	}
}

func meet(a, b map[int]bool) bool {
	for core := range a {
		if b[core] {
			return true
		}
	}
	return false
}

// byName returns the guests of the ask by name.
func (a *Ask) byName() map[string]*Guest {
	all := make(map[string]*Guest, len(a.Guests))
	for g := range facts.Each(a.Guests) {
		if all[g.Name] == nil {
			all[g.Name] = g
		}
	}
	return all
}

// knowsWorkers reports whether all vhost threads of a guest are known.
func (g *Guest) knowsWorkers() bool {
	for _, i := range g.NICs {
		for q := range queuesOf(i) {
			if w := g.worker(i.MAC, q); w == nil || len(w.CPUs) == 0 {
				return false
			}
		}
	}
	return true
}
