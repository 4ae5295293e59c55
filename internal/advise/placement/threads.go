package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/setting"
)

// threads gives the vhost threads and emulators their CPUs, after all vCPUs have theirs.
func (t *table) threads(r *Result, items []item, choice []int) {
	for _, g := range t.ask.Guests { // largest first, as they were seated
		p := r.Guest(g.Name)
		if p == nil {
			continue
		}
		j := slices.IndexFunc(items, func(it item) bool { return it.guest.Name == g.Name })
		switch {
		case j >= 0:
			o := &items[j].options[choice[j]]
			pool := t.pool(r, p, &items[j], o)
			t.hand(p, &g, pool)
			t.emulator(r, p, &g, pool)
			t.explainVhost(p, &items[j], o)
		case len(p.Vhost) == 0 && g.Seat == nil:
			t.emulator(r, p, &g, nil)
		}
	}
	// Which places were left for others is known only now.
	for j := range items {
		if p := r.Guest(items[j].guest.Name); p != nil && items[j].threads > 0 {
			t.alternatives(p, &items[j], choice[j])
		}
	}
}

// pool is the CPUs of an option's berth, one or more for each core of it.
func (t *table) pool(r *Result, p *Placed, it *item, o *option) setting.CPUSet {
	switch o.vhost.kind {
	case onCores:
		held := it.guest.Emulator
		c := &t.cells[o.vhost.cell]
		var pool []int
		for _, core := range c.take(o.vhost.cores,
			func(o core) bool { return slices.ContainsFunc(o.seats, held.Has) }) {
			seats := held.And(core.seats)
			if len(seats) == 0 {
				seats = core.seats[:min(c.threads, (it.threads+o.vhost.cores-1)/o.vhost.cores)]
			}
			pool = append(pool, seats...)
		}
		return setting.CPUs(pool...)
	case onSiblings:
		idle := t.idleSiblings(p.VCPUSet())
		t.fellBack = t.fellBack || len(idle) < t.siblings(it, o.parts)
		if len(idle) > 0 {
			return idle
		}
		return t.kept(r, p) // all its vCPUs share their cores
	case onKept:
		return t.kept(r, p)
	case onOwn:
		return p.VCPUSet()
	}
	return nil
}

// kept is the CPUs that the host keeps for itself: on a guest's nodes, where there are any.
func (t *table) kept(r *Result, p *Placed) setting.CPUSet {
	own := r.Housekeeping.Minus(t.housed)
	if len(own) == 0 {
		own = r.Housekeeping
	}
	if near := own.And(t.cpusOf(p.Nodes)); len(near) > 0 {
		return near
	}
	return own
}

// hand gives out the CPUs of a pool to a guest's vhost threads: those whose core has the fewest first.
func (t *table) hand(p *Placed, g *Guest, pool setting.CPUSet) {
	onCore := func(cpu int) (n int) {
		for _, sibling := range t.cores[t.cpus[cpu].Core] {
			n += t.worked[sibling]
		}
		return n
	}
	for _, n := range g.NICs {
		if n.VF || len(pool) == 0 {
			continue
		}
		for q := range max(1, n.Queues) {
			cpu := slices.MinFunc(pool, func(a, b int) int {
				return cmp.Or(cmp.Compare(onCore(a), onCore(b)), cmp.Compare(t.worked[a], t.worked[b]))
			})
			t.worked[cpu]++
			p.Vhost = append(p.Vhost, Vhost{NIC: n.MAC, Queue: q, CPU: cpu})
		}
	}
}

// emulator gives a guest's emulator threads the CPUs of its vhost threads, which libvirt keeps in the emulator's
// cpuset, or, where it has none, those that the host keeps. CPUs that it has today and no vCPU needs stay with it.
func (t *table) emulator(r *Result, p *Placed, g *Guest, pool setting.CPUSet) {
	switch {
	case len(pool) > 0:
		p.Emulator = pool
	case len(p.Vhost) > 0:
		p.Emulator = p.vhostCPUs()
	case len(r.Housekeeping) > 0:
		p.Emulator = t.kept(r, p)
	default:
		p.Emulator = p.VCPUSet()
	}
	if len(g.Emulator) > 0 && len(g.Emulator.Minus(t.online())) == 0 && len(g.Emulator.And(t.vcpus())) == 0 {
		p.Emulator = g.Emulator.Or(p.vhostCPUs())
	}
}

func (p *Placed) vhostCPUs() setting.CPUSet {
	var all []int
	for _, v := range p.Vhost {
		all = append(all, v.CPU)
	}
	return setting.CPUs(all...)
}

// explainVhost says where a guest's vhost threads are and how many queues its NICs have, and why.
func (t *table) explainVhost(p *Placed, it *item, o *option) {
	for _, n := range it.guest.NICs {
		if n.VF {
			continue
		}
		why := fmt.Sprintf("%s for each of its NICs is what the host's CPUs allow, and no more than its %s can serve",
			many(max(1, n.Queues), "vhost thread"), many(it.guest.VCPUs, "vCPU"))
		switch {
		case it.guest.tuned:
			why = "as its definition says"
		case it.guest.Rate > 0 && n.Queues < it.guest.VCPUs && n.asked:
			why = fmt.Sprintf("one for each %.0f kpps that it is to carry", PerQueue/1e3)
		}
		p.Queues = append(p.Queues, Queued{NIC: n.MAC, Queues: max(1, n.Queues), Why: why})
	}
	if it.threads > 0 {
		p.VhostWhy = t.reason(p, it, o)
	}
}

// reason says what speaks for and against the place of a guest's vhost threads.
func (t *table) reason(p *Placed, it *item, o *option) string {
	against := t.against(p, it, o)
	switch b := o.vhost; b.kind {
	case onCores:
		c := &t.cells[b.cell]
		if p.Nodes.Has(c.node) {
			return joined(fmt.Sprintf("whole cores of node %d without a vCPU", c.node), against, "; ")
		}
		text := joined(fmt.Sprintf("whole cores of node %d", c.node), against, ": ")
		if t.siblings(it, o.parts) > 0 {
			return text + fmt.Sprintf("; node %s has no cores left, and the sibling threads there would take half of "+
				"the vCPUs' cores", p.Nodes)
		}
		return text + fmt.Sprintf("; node %s has too few cores left", p.Nodes)
	case onSiblings:
		return "the sibling threads of the guest's own cores: " + against
	case onKept:
		return "the CPUs kept for the host: " + against
	}
	return "the guest's own CPUs: " + against
}

// against is what a place of vhost threads costs, in words; "" where nothing speaks against it.
func (t *table) against(p *Placed, it *item, o *option) string {
	switch b := o.vhost; b.kind {
	case onCores:
		c := &t.cells[b.cell]
		var words []string
		if !p.Nodes.Has(c.node) {
			words = append(words, fmt.Sprintf("every packet crosses to node %s (%s, distance %d more)", p.Nodes,
				many(it.threads, "thread"), t.apart(c.node, p.Nodes[0])))
		}
		if b.cores < it.threads {
			words = append(words, fmt.Sprintf("%d threads share %s", it.threads, many(b.cores, "core")))
		}
		return strings.Join(words, "; ")
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

// alternatives lists where else a guest's vhost threads could be, each with its cheapest variant, dearest last.
func (t *table) alternatives(p *Placed, it *item, chosen int) {
	own := &it.options[chosen]
	seen := map[berth]bool{}
	for j := range it.options {
		o := &it.options[j]
		if !sameSeats(o, own) || o.refused {
			continue
		}
		taken := o.vhost == own.vhost
		key := berth{kind: o.vhost.kind, cell: o.vhost.cell}
		if seen[key] || !taken && key == (berth{kind: own.vhost.kind, cell: own.vhost.cell}) {
			continue
		}
		if !taken && o.vhost.kind == onCores && o.vhost.cores > len(t.cells[o.vhost.cell].free) {
			continue
		}
		seen[key] = true
		p.Others = append(p.Others, Alternative{What: t.what(p, o, taken), Cost: o.points,
			Why: cmp.Or(t.against(p, it, o), "on its node, a core for each thread"), Chosen: taken})
	}
	slices.SortStableFunc(p.Others, func(a, b Alternative) int { return cmp.Compare(a.Cost, b.Cost) })
}

func sameSeats(a, b *option) bool { return slices.Equal(a.parts, b.parts) && a.page == b.page }

// what names a place of vhost threads.
func (t *table) what(p *Placed, o *option, taken bool) string {
	switch o.vhost.kind {
	case onCores:
		text := fmt.Sprintf("%s of node %d", many(o.vhost.cores, "core"), t.cells[o.vhost.cell].node)
		if taken {
			text += fmt.Sprintf(" (%s)", cpus(p.vhostCPUs()))
		}
		return text
	case onSiblings:
		return fmt.Sprintf("sibling threads on node %s (%s)", p.Nodes, cpus(t.idleSiblings(p.VCPUSet())))
	case onKept:
		return "CPUs kept for the host"
	}
	return fmt.Sprintf("the vCPUs' own CPUs (%s)", p.VCPUSet())
}

// many writes a number with its noun.
func many(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// cpus writes a set with its noun.
func cpus(set setting.CPUSet) string {
	if len(set) == 1 {
		return "CPU " + set.String()
	}
	return "CPUs " + set.String()
}

func (t *table) online() setting.CPUSet {
	all := make([]int, len(t.ask.CPUs))
	for i, c := range t.ask.CPUs {
		all[i] = c.ID
	}
	return setting.CPUs(all...)
}

func (t *table) vcpus() setting.CPUSet {
	all := make([]int, 0, len(t.taken))
	for cpu := range t.taken {
		all = append(all, cpu)
	}
	return setting.CPUs(all...)
}

func (t *table) cpusOf(nodes setting.CPUSet) setting.CPUSet {
	var cpus []int
	for _, c := range t.ask.CPUs {
		if nodes.Has(c.Node) {
			cpus = append(cpus, c.ID)
		}
	}
	return setting.CPUs(cpus...)
}
