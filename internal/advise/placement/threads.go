package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/reach"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// placeThreads assigns CPUs to the vhost and emulator threads, after all vCPUs have theirs.
func (t *table) placeThreads(r *Result, items []item, choice []int) {
	t.onKept = 0
	for j, it := range items {
		if it.options[choice[j]].vhost.kind == onKept {
			t.onKept += it.vhost
		}
	}
	for p := range facts.Each(r.Guests) { // those that stay
		t.onKept += len(r.Housekeeping.And(p.VhostCPUs()))
	}
	taken := make([]option, len(items)) // guests of one kind share their options
	for j := range items {
		taken[j] = items[j].options[choice[j]]
	}
	for _, g := range t.ask.Guests { // largest first, like the vCPUs
		p := r.Guest(g.Name)
		if p == nil {
			continue
		}
		j := slices.IndexFunc(items, func(it item) bool { return it.guest.Name == g.Name })
		switch {
		case j >= 0:
			o := &taken[j]
			pool := t.pool(r, p, &items[j], o)
			t.assignVhost(p, &g, pool)
			t.leaveThreads(p, &g)
			t.placeEmulator(r, p, &g, pool)
			t.explainVhost(p, &items[j], o)
			t.followEmulator(p, &g)
		case g.Seat == nil:
			t.leaveThreads(p, &g)
			t.placeEmulator(r, p, &g, nil)
			t.followEmulator(p, &g)
			t.explainQueues(p, &g)
		}
	}
	// the remaining free cores, and so the alternatives, are known only now
	for j := range items {
		if p := r.Guest(items[j].guest.Name); p != nil && items[j].vhost > 0 {
			t.alternatives(p, &items[j], &taken[j])
		}
	}
}

// pool returns the CPUs of an option's vhost threads, at least one for each of its cores. Where the siblings that it
// counts on have vCPUs by now, it makes another place of the option.
func (t *table) pool(r *Result, p *Placed, it *item, o *option) setting.CPUSet {
	switch o.vhost.kind {
	case onCores:
		own := it.guest.Emulator
		others := t.emulatorOn.Minus(own)
		c := t.cells[o.vhost.cell]
		var pool setting.CPUSet
		for _, core := range c.take(o.vhost.cores, func(o core) int {
			return count01(slices.ContainsFunc(o.seats, own.Has)) - count01(slices.ContainsFunc(o.seats, others.Has))
		}) {
			seats := own.And(core.seats)
			if len(seats) == 0 {
				seats = core.seats[:min(c.threads, (it.vhost+o.vhost.cores-1)/o.vhost.cores)]
			}
			pool = pool.Or(seats)
		}
		return pool
	case onSiblings:
		idle := t.idleSiblings(p.VCPUSet())
		if len(it.guest.Confined) > 0 {
			idle = idle.And(it.guest.Confined)
		}
		t.shortOfSiblings = t.shortOfSiblings || len(idle) < t.siblings(it, o.parts)
		if len(idle) > 0 {
			return idle
		}
		// all its vCPUs share their cores
		if o.vhost.kind = onKept; t.keptIsFull(it.guest) {
			o.vhost.kind = onOwn
		}
	}
	if o.vhost.kind == onKept {
		if kept := t.kept(r, p); len(kept) > 0 {
			return kept
		}
		o.vhost.kind = onOwn
	}
	if o.vhost.kind == onOwn {
		return p.VCPUSet()
	}
	return nil
}

// kept returns the CPUs that the host keeps for itself and a guest's control groups have: those without a daemon, off
// the cores of vCPUs, and on the guest's nodes, as far as there are enough for the vhost threads that go there.
func (t *table) kept(r *Result, p *Placed) setting.CPUSet {
	own := r.Housekeeping
	if g := t.ask.guestNamed(p.Name); len(g.Confined) > 0 {
		own = own.And(g.Confined)
	}
	for _, better := range []setting.CPUSet{own.Minus(t.daemonCPUs), t.offVCPUs(own), own.And(t.cpusOf(p.Nodes))} {
		if both := own.And(better); len(both) > 0 && len(both)*maxPerKept >= min(t.onKept, len(own)*maxPerKept) {
			own = both
		}
	}
	return own
}

// maxPerKept is how many vhost threads a CPU kept for the host takes before one that is less good is used too.
const maxPerKept = 4

// offVCPUs returns those of some CPUs whose cores have no vCPU.
func (t *table) offVCPUs(cpus setting.CPUSet) setting.CPUSet {
	return slices.DeleteFunc(slices.Clone(cpus), func(cpu int) bool {
		return slices.ContainsFunc(t.cores[t.cpus[cpu].Core], func(other int) bool { return t.vcpuOn[other] != "" })
	})
}

// keepThreads lets the vhost threads of a guest that stays be where they are, if that is good or they must not move:
// each pinned to a dedicated CPU, on the guest's node, on a core without a vCPU.
func (t *table) keepThreads(p *Placed, g *Guest) {
	var places []Vhost
	good := g.knowsWorkers() && !g.threadsStay
	for _, i := range g.NICs {
		for q := range queuesOf(i) {
			if w := g.worker(i.MAC, q); good && len(w.CPUs) == 1 {
				places = append(places, Vhost{NIC: i.MAC, Queue: q, CPU: w.CPUs[0]})
				continue
			}
			return
		}
	}
	for i, w := range places {
		c, online := t.cpus[w.CPU]
		alone := t.vhostOn[w.CPU] == 0 &&
			!slices.ContainsFunc(places[:i], func(v Vhost) bool { return v.CPU == w.CPU })
		if !g.Fixed && (!online || !alone || !p.Nodes.Has(c.Node) || t.ask.Taken.Has(w.CPU) ||
			len(t.offVCPUs(setting.CPUs(w.CPU))) == 0) {
			return
		}
	}
	for _, w := range places {
		t.vhostOn[w.CPU]++
	}
	aside := func(w Vhost) bool { return t.ask.setAside(t.cpus[w.CPU]) }
	if len(g.Emulator) == 0 && slices.ContainsFunc(places, aside) {
		for w := range facts.Each(places) { // a pin of the emulator would have to take it to isolated CPUs
			w.Stays = setting.CPUs(w.CPU)
		}
	}
	p.Vhost, p.VhostWhy = places, "pinned already, each to a CPU of its own apart from all vCPUs"
	if g.Fixed {
		p.VhostWhy = "they are not to be moved"
	}
}

// leaveThreads leaves the vhost threads of a guest where they are, if they are to stay. A thread that may use several
// CPUs counts for the one of them that it would be given.
func (t *table) leaveThreads(p *Placed, g *Guest) {
	if !g.threadsStay || len(p.Vhost) > 0 {
		return
	}
	for _, i := range g.NICs {
		for q := range queuesOf(i) {
			mask := t.anywhere()
			if w := g.worker(i.MAC, q); w != nil && len(w.CPUs) > 0 {
				mask = t.reach(w.CPUs, mask)
			} else if len(g.Emulator) > 0 { // where libvirt will start it
				mask = t.reach(g.Emulator, mask)
			}
			if len(mask) == 0 {
				continue
			}
			cpu := t.fewestVhost(mask)
			if len(mask) > 1 {
				t.vhostOn[cpu]++
			}
			p.Vhost = append(p.Vhost, Vhost{NIC: i.MAC, Queue: q, CPU: cpu, Stays: mask})
		}
	}
	p.VhostWhy = "they stay where they may run today: no other place is better"
	if g.Fixed {
		p.VhostWhy = "they are not to be moved"
	}
	if len(g.Declined) > 0 {
		p.VhostWhy = fmt.Sprintf("they stay where they may run today: mpps has no rules for the way of its packets "+
			"(%s)", reach.Words(g.Declined))
	}
}

// followEmulator puts the vhost threads that no plan moves by themselves where the emulator's new pin takes them.
func (t *table) followEmulator(p *Placed, g *Guest) {
	pin := g.repinned(p, t.anywhere())
	for v := range facts.Each(p.Vhost) {
		if to := g.reaches(v, v.Stays, pin); len(v.Stays) > 0 && !to.Equal(v.Stays) {
			v.Stays, p.VhostWhy = to, "libvirt keeps them in the cpuset of the emulator, which moves"
			if !to.Has(v.CPU) {
				v.CPU = t.fewestVhost(to)
			}
		}
	}
}

// assignVhost assigns a pool's CPUs to a guest's vhost threads. A thread that is pinned to one of them stays, while no
// CPU gets more of them than necessary; the others get CPUs whose core has the fewest vhost threads.
func (t *table) assignVhost(p *Placed, g *Guest, pool setting.CPUSet) {
	if len(pool) == 0 {
		return
	}
	for _, n := range g.NICs {
		for q := range queuesOf(n) {
			p.Vhost = append(p.Vhost, Vhost{NIC: n.MAC, Queue: q, CPU: -1})
		}
	}
	own, enough := map[int]int{}, (len(p.Vhost)+len(pool)-1)/len(pool)
	assign := func(v *Vhost, cpu int) {
		v.CPU = cpu
		own[cpu]++
		t.vhostOn[cpu]++
	}
	for v := range facts.Each(p.Vhost) {
		w := g.worker(v.NIC, v.Queue)
		if w != nil && len(w.CPUs) == 1 && pool.Has(w.CPUs[0]) && own[w.CPUs[0]] < enough {
			assign(v, w.CPUs[0])
		}
	}
	for v := range facts.Each(p.Vhost) {
		if v.CPU < 0 {
			assign(v, t.fewestVhost(pool))
		}
	}
}

// fewestVhost returns the first of some CPUs whose core has the fewest vhost threads, and of these the one that has the
// fewest itself.
func (t *table) fewestVhost(cpus setting.CPUSet) int {
	onCore := func(cpu int) (n int) {
		for _, sibling := range t.cores[t.cpus[cpu].Core] {
			n += t.vhostOn[sibling]
		}
		return n
	}
	return slices.MinFunc(cpus, func(a, b int) int {
		return cmp.Or(cmp.Compare(onCore(a), onCore(b)), cmp.Compare(t.vhostOn[a], t.vhostOn[b]))
	})
}

// placeEmulator leaves a guest's emulator threads where they are pinned off all vCPUs and off isolated CPUs, if its
// vhost threads have these CPUs too or stay: libvirt keeps them in the emulator's cpuset. Otherwise the emulator gets
// its CPUs of today and those of its vhost threads; or else only the latter; or else CPUs that the host keeps. Of these
// it takes the first that is best: off all vCPUs' cores, or at least off their CPUs.
func (t *table) placeEmulator(r *Result, p *Placed, g *Guest, pool setting.CPUSet) {
	var choices []setting.CPUSet
	stays := slices.ContainsFunc(p.Vhost, func(w Vhost) bool { return len(w.Stays) > 0 })
	if len(g.Emulator) == 0 && (stays || g.pinStays) {
		p.Emulator = t.anywhere() // as today: a pin would take threads along that are to stay, or make a rule worse
		return
	}
	aside := func(set setting.CPUSet) bool {
		return t.hasOrdinary() && slices.ContainsFunc(set, func(cpu int) bool { return t.cpus[cpu].Isolated })
	}
	crowds := func(set setting.CPUSet) bool {
		return slices.ContainsFunc(set, func(cpu int) bool { return t.vcpuOn[cpu] != "" })
	}
	if len(g.Emulator) > 0 && len(g.Emulator.Minus(t.online())) == 0 {
		own := g.Emulator
		if !g.threadsStay {
			own = own.Or(p.VhostCPUs())
		}
		holds := g.threadsStay && (g.pinStays || !g.vhostFollow) // a pin elsewhere would take vhost threads along
		if holds || !crowds(own) && (g.pinStays || !aside(own) && own.Equal(g.Emulator)) {
			p.Emulator = own
			return
		}
		choices = append(choices, own)
	}
	if len(pool) > 0 {
		choices = append(choices, pool)
	}
	if len(p.Vhost) > 0 && !g.threadsStay {
		choices = append(choices, p.VhostCPUs())
	}
	if kept := t.kept(r, p); len(kept) > 0 {
		if !g.threadsStay {
			kept = kept.Or(p.VhostCPUs())
		}
		choices = append(choices, kept)
	}
	nearness := func(set setting.CPUSet) int {
		switch off := t.offVCPUs(set); {
		case aside(set):
			return 3
		case len(off) == len(set):
			return 0
		case !crowds(set):
			return 1
		}
		return 2
	}
	if len(g.Emulator) == 0 && len(p.Vhost) == 0 && aside(p.VCPUSet()) {
		choices = append(choices, t.anywhere()) // as today
	}
	choices = append(choices, p.VCPUSet())
	if len(g.Confined) > 0 {
		choices = within(choices, g.Confined)
	}
	p.Emulator = slices.MinFunc(choices, func(a, b setting.CPUSet) int {
		return cmp.Compare(nearness(a), nearness(b))
	})
}

// within returns what of some choices is among some CPUs, and what these have besides vCPUs; these CPUs if nothing is.
func within(choices []setting.CPUSet, cpus setting.CPUSet) (all []setting.CPUSet) {
	vcpus := choices[len(choices)-1]
	for _, set := range append([]setting.CPUSet{cpus.Minus(vcpus)}, choices...) {
		if both := set.And(cpus); len(both) > 0 {
			all = append(all, both)
		}
	}
	return append(all, cpus)
}

// online returns the CPUs of the ask.
func (t *table) online() setting.CPUSet {
	all := facts.Map(t.ask.CPUs, func(c CPU) int { return c.ID })
	return setting.CPUs(all...)
}

// explainVhost sets how many queues a guest's NICs have and where its vhost threads run, and why.
func (t *table) explainVhost(p *Placed, it *item, o *option) {
	t.explainQueues(p, it.guest)
	if it.vhost > 0 {
		p.VhostWhy = t.vhostReason(p, it, o)
	}
}

// explainQueues sets how many queues a guest's NICs have, and why.
func (t *table) explainQueues(p *Placed, g *Guest) {
	for _, n := range g.NICs {
		if n.VF {
			continue
		}
		allow := "what the host's CPUs allow"
		if aside := t.ask.isolatedCPUs(); len(aside) > 0 {
			allow += fmt.Sprintf(" (without the isolated %s)", cpuList(aside))
		}
		why := fmt.Sprintf("%s for each of its data NICs is %s, and no more than its %s can serve",
			words.Count(max(1, n.Queues), "vhost thread"), allow, words.Count(g.VCPUs, "vCPU"))
		switch {
		case g.queuesSet && !n.resized:
			why = "as its definition says"
		case n.Aside != "":
			why = n.Aside + ": one queue will do (--data-nic names those that carry the target)"
		case g.Rate > 0 && n.Queues < g.VCPUs && n.fromRate:
			why = fmt.Sprintf("one for each %.0f kpps that it is to carry", PerQueue/1e3)
		}
		p.Queues = append(p.Queues, Queued{NIC: n.MAC, Queues: max(1, n.Queues), Why: why})
	}
}

// vhostReason returns the reasons for and against the place of a guest's vhost threads.
func (t *table) vhostReason(p *Placed, it *item, o *option) string {
	drawback := t.drawback(p, it, o)
	switch b := o.vhost; b.kind {
	case onCores:
		c := t.cells[b.cell]
		if p.Nodes.Has(c.node) {
			return joined(fmt.Sprintf("whole cores of node %d without a vCPU", c.node), drawback, "; ")
		}
		text := joined(fmt.Sprintf("whole cores of node %d", c.node), drawback, ": ")
		if t.siblings(it, o.parts) > 0 {
			return text + fmt.Sprintf("; node %s has no cores left, and the sibling threads there would take half of "+
				"the vCPUs' cores", p.Nodes)
		}
		return text + fmt.Sprintf("; node %s has too few cores left", p.Nodes)
	case onSiblings:
		return "the sibling threads of the guest's own cores: " + drawback
	case onKept:
		return "the CPUs kept for the host: " + drawback
	}
	return "the guest's own CPUs: " + drawback
}

// drawback returns what speaks against a place of vhost threads, "" if nothing does.
func (t *table) drawback(p *Placed, it *item, o *option) string {
	switch b := o.vhost; b.kind {
	case onCores:
		c := t.cells[b.cell]
		var against []string
		if !p.Nodes.Has(c.node) {
			against = append(against, fmt.Sprintf("every packet crosses to node %s (%s, distance %d more)", p.Nodes,
				words.Count(it.vhost, "thread"), t.distance(c.node, p.Nodes[0])))
		}
		if b.cores < it.vhost {
			against = append(against, fmt.Sprintf("%d threads share %s", it.vhost, words.Count(b.cores, "core")))
		}
		return strings.Join(against, "; ")
	case onSiblings:
		return "on its node, but each takes half of a vCPU's core"
	case onKept:
		return "in the way of the host's interrupts and threads"
	}
	return "they take turns with its vCPUs"
}

func joined(a, b, between string) string {
	if b == "" {
		return a
	}
	return a + between + b
}

// alternatives lists the other places for a guest's vhost threads, each in its cheapest variant, the cheapest first.
func (t *table) alternatives(p *Placed, it *item, own *option) {
	// the place with any number of cores
	place := func(o *option) vhostPlace { return vhostPlace{kind: o.vhost.kind, cell: o.vhost.cell} }
	seen := map[vhostPlace]bool{}
	for o := range facts.Each(it.options) {
		if o.refused || !slices.Equal(o.parts, own.parts) || o.page != own.page {
			continue
		}
		taken := o.vhost == own.vhost
		if seen[place(o)] || !taken && (place(o) == place(own) ||
			o.vhost.kind == onCores && o.vhost.cores > len(t.cells[o.vhost.cell].free)) {
			continue
		}
		seen[place(o)] = true
		p.Others = append(p.Others, Alternative{What: t.describePlace(p, o, taken), Cost: o.points,
			Why: cmp.Or(t.drawback(p, it, o), "on its node, a core for each thread"), Chosen: taken})
	}
	slices.SortStableFunc(p.Others, func(a, b Alternative) int { return cmp.Compare(a.Cost, b.Cost) })
}

// describePlace names a place of vhost threads.
func (t *table) describePlace(p *Placed, o *option, taken bool) string {
	switch o.vhost.kind {
	case onCores:
		text := fmt.Sprintf("%s of node %d", words.Count(o.vhost.cores, "core"), t.cells[o.vhost.cell].node)
		if taken {
			text += fmt.Sprintf(" (%s)", cpuList(p.VhostCPUs()))
		}
		return text
	case onSiblings:
		return fmt.Sprintf("sibling threads on node %s (%s)", p.Nodes, cpuList(t.idleSiblings(p.VCPUSet())))
	case onKept:
		return "CPUs kept for the host"
	}
	return fmt.Sprintf("the vCPUs' own CPUs (%s)", p.VCPUSet())
}

// cpuList formats a set with its noun.
func cpuList(set setting.CPUSet) string {
	if len(set) == 1 {
		return "CPU " + set.String()
	}
	return "CPUs " + set.String()
}
