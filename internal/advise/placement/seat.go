package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// seat assigns CPUs to the chosen options: each node's lowest cores to the host, the next to the guests, the largest
// guest first. The cores of a node are equal, so any will do; a guest that fits behind one L3 cache gets cores there.
func (t *table) seat(r *Result, items []item, choice []int) {
	crowds := make([]crowd, len(t.cells))
	for j := range items {
		o := &items[j].options[choice[j]]
		for _, p := range o.parts {
			crowds[p.cell].vcpus += p.vcpus
		}
		if o.vhost.kind == onCores {
			crowds[o.vhost.cell].vhost += o.vhost.cores
		}
	}
	for i, c := range t.cells {
		used := min(crowds[i].vcpus+crowds[i].vhost, t.limit(c))
		kept := min(max(c.wantKept, c.serving), max(c.mustKeep, len(c.free)-used))
		for _, core := range c.free[:kept] {
			r.Housekeeping = r.Housekeeping.Or(t.cores[core.id])
		}
		c.free = c.free[kept:]
		crowds[i].sharing = c.sharing(crowds[i].vcpus+crowds[i].vhost, len(c.free))
		crowds[i].sharedCores = c.takeShared(crowds[i].sharing)
	}
	r.Housekeeping = r.Housekeeping.Or(slices.DeleteFunc(slices.Clone(t.shared),
		func(cpu int) bool { return t.vcpuOn[cpu] != "" }))
	for _, p := range t.frozen {
		r.Guests = append(r.Guests, *p)
	}
	var seated []*Placed
	for _, g := range t.ask.Guests { // largest first
		j := slices.IndexFunc(items, func(it item) bool { return it.guest.Name == g.Name && it.seated == nil })
		if j < 0 {
			continue
		}
		o := &items[j].options[choice[j]]
		switch {
		case o.refused:
			r.Refused = append(r.Refused, Refusal{Guest: g.Name})
			continue
		case o.left:
			t.leave(&g, "")
			continue
		}
		p := &Placed{Name: g.Name, PageSize: o.page}
		for _, part := range o.parts {
			for _, core := range t.cells[part.cell].take(crowds[part.cell].divide(p, part.vcpus), t.offStaying) {
				t.assignVCPU(p, core.seats[0])
			}
		}
		p.Memory = divideMemory(g.Memory, o.page, t.sharesOf(o.parts))
		for _, m := range p.Memory {
			p.Nodes = p.Nodes.Or(setting.CPUs(m.Node))
		}
		seated = append(seated, p)
	}
	for _, c := range crowds {
		t.placeSharers(c)
	}
	for _, p := range seated {
		t.explainSeat(p)
		r.Guests = append(r.Guests, *p)
	}
	for p := range facts.Each(r.Guests) {
		t.explainMemory(p)
	}
	slices.SortFunc(r.Guests, func(a, b Placed) int { return strings.Compare(a.Name, b.Name) })
}

// crowd is what runs in a cell.
type crowd struct {
	vcpus, vhost int
	sharing      int       // vCPUs that must share a core
	sharers      []*Placed // the guest of each of them
	sharedCores  []core
}

// divide returns how many of a guest's vCPUs in a cell have a core alone. The others become sharers; each guest has a
// proportional part of them.
func (c *crowd) divide(p *Placed, vcpus int) (alone int) {
	share := 0
	if c.vcpus > 0 {
		share = (vcpus*(c.sharing-len(c.sharers)) + c.vcpus - 1) / c.vcpus
	}
	c.vcpus -= vcpus
	c.sharers = append(c.sharers, slices.Repeat([]*Placed{p}, share)...)
	return vcpus - share
}

// assignVCPU gives a guest's next vCPU a CPU.
func (t *table) assignVCPU(p *Placed, cpu int) {
	t.vcpuOn[cpu] = p.Name
	p.VCPUs = append(p.VCPUs, VCPU{VCPU: len(p.VCPUs), CPU: cpu})
}

// placeSharers puts the sharers on the threads of the shared cores, those of one guest on different cores if possible.
func (t *table) placeSharers(c crowd) {
	var seats []int
	for thread := 0; len(seats) < len(c.sharers); thread++ {
		for _, core := range c.sharedCores {
			if thread < len(core.seats) {
				seats = append(seats, core.seats[thread])
			}
		}
	}
	for i, p := range c.sharers {
		t.assignVCPU(p, seats[i])
	}
}

// takeShared removes from a cell as many cores as some vCPUs need to share them, those with the most threads first.
func (c *cell) takeShared(vcpus int) (cores []core) {
	order := slices.Clone(c.free)
	slices.SortStableFunc(order, func(a, b core) int { return len(b.seats) - len(a.seats) })
	for seats := 0; seats < vcpus; seats += len(order[len(cores)-1].seats) {
		cores = append(cores, order[len(cores)])
	}
	c.remove(cores)
	return cores
}

func (c *cell) remove(cores []core) {
	c.free = slices.DeleteFunc(slices.Clone(c.free), func(o core) bool {
		return slices.ContainsFunc(cores, func(k core) bool { return k.id == o.id })
	})
}

// offStaying answers -1 for cores where vhost threads stay within the CPUs of their guest's emulator.
func (t *table) offStaying(c core) int {
	return -count01(slices.ContainsFunc(t.ask.Guests, func(g Guest) bool {
		return g.threadsStay && len(t.emulatorOn.And(g.Emulator).And(t.cores[c.id])) > 0
	}))
}

// take removes n cores from a cell: those that wish answers 1 for first, and those that it answers -1 for last. In
// between come those that are alike, of the fastest kind that suffices and of that the ones of which the fewest are
// free, then the faster, then the lowest.
func (c *cell) take(n int, wish func(core) int) []core {
	if n == 0 {
		return nil
	}
	if wish == nil {
		wish = func(core) int { return 0 }
	}
	room := map[int]int{}
	for _, core := range c.free {
		room[core.alike]++
	}
	home, least, slow := -1, 0, 0
	for _, core := range c.free {
		if room := room[core.alike]; room >= n &&
			(least == 0 || core.slow < slow || core.slow == slow && room < least) {
			home, least, slow = core.alike, room, core.slow
		}
	}
	rank := func(o core) int {
		switch wish := wish(o); {
		case wish > 0:
			return 0
		case wish < 0:
			return 3
		case least > 0 && o.alike == home:
			return 1
		}
		return 2
	}
	order := slices.Clone(c.free)
	slices.SortStableFunc(order, func(a, b core) int { return cmp.Or(rank(a)-rank(b), a.slow-b.slow) })
	taken := order[:n]
	slices.SortFunc(taken, func(a, b core) int { return a.seats[0] - b.seats[0] })
	c.remove(taken)
	return taken
}

// explainSeat numbers a guest's vCPUs by CPU, and sets why it has them.
func (t *table) explainSeat(p *Placed) {
	g := t.ask.guestNamed(p.Name)
	slices.SortFunc(p.VCPUs, func(a, b VCPU) int { return a.CPU - b.CPU })
	for i := range p.VCPUs {
		p.VCPUs[i].VCPU = i
	}
	var nics []int
	for _, n := range g.NICs {
		if node := t.nicNode(n); node >= 0 {
			nics = append(nics, node)
		}
	}
	wanted := setting.CPUs(nics...)
	switch {
	case len(p.Nodes) > 1:
		p.Why = "no single node has enough free cores and memory"
	case len(wanted) == 0 && len(t.ask.Nodes) == 1:
		p.Why = "this host has one node"
	case len(wanted) == 0:
		p.Why = fmt.Sprintf("node %s leaves the nodes most evenly used", p.Nodes)
		if slices.ContainsFunc(g.NICs, func(n Interface) bool { return n.NIC != "" }) {
			p.Why += "; which node its NIC is on is not known"
		}
	case len(wanted) == 1 && wanted.Equal(p.Nodes):
		p.Why = fmt.Sprintf("node %s is where its NIC is", p.Nodes)
	case len(wanted.And(p.Nodes)) > 0:
		p.Why = fmt.Sprintf("node %s is where one of its NICs is (they are on nodes %s)", p.Nodes, wanted)
	case len(wanted) == 1 && t.crowdsServing(p, wanted[0]):
		queues, names := t.busyOn(wanted[0])
		p.Why = fmt.Sprintf("node %s: on node %s it would leave too few CPUs for the interrupts of %s there (%s, "+
			"which need %s); that would cost more than its packets' way between the nodes", p.Nodes, wanted,
			strings.Join(names, ", "), words.Count(queues, "busy queue"), words.Count(t.servingCPUs(wanted[0]), "CPU"))
	default:
		p.Why = fmt.Sprintf("node %s: on the NIC's node %s it would cost others more, or there are too few free "+
			"cores or too little memory for it", p.Nodes, wanted)
	}
	switch {
	case len(g.Allowed) > 0:
		p.Why += "; among the CPUs given to it (" + g.Allowed.String() + ")"
	case g.Realtime && t.hasIsolated():
		p.Why += "; on isolated CPUs, because it is to answer in time"
	case t.hasIsolated() && !slices.ContainsFunc(p.VCPUs, func(v VCPU) bool { return !t.cpus[v.CPU].Isolated }):
		p.Why += "; on isolated CPUs, which nothing else uses"
	case g.Realtime:
		p.Why += "; no CPU is isolated yet: these should be"
	}
	if faults := t.pinFaults(g); faults != "" {
		p.Why += "; today " + faults
	}
}

func (t *table) pinFaults(g *Guest) string {
	g = cmp.Or(g.was, g)
	switch {
	case g.isNew:
		return ""
	case len(g.Pins) == 0:
		return "its vCPUs are not pinned one by one"
	case len(g.Pins) != g.VCPUs:
		return fmt.Sprintf("only %d of %d vCPUs are pinned", len(g.Pins), g.VCPUs)
	}
	today := *t
	today.vcpuOn = map[int]string{}
	for other := range facts.Each(t.ask.Guests) {
		if other.Name == g.Name {
			continue
		}
		for _, cpu := range cmp.Or(other.was, other).Pins {
			today.vcpuOn[cpu] = other.Name
		}
	}
	return strings.Join(today.faults(g), ", ")
}

// explainMemory sets why a guest's memory is where it is, and counts its huge pages.
func (t *table) explainMemory(p *Placed) {
	g := t.ask.guestNamed(p.Name)
	p.MemoryWhy = "on the node of its vCPUs"
	if len(p.Nodes) > 1 {
		p.MemoryWhy = "on the nodes of its vCPUs, in proportion"
	}
	switch {
	case p.PageSize > 0:
		for m := range facts.Each(p.Memory) {
			m.Pages = m.Bytes / p.PageSize
		}
		p.MemoryWhy += ", in huge pages of " + pageSize(p.PageSize)
	case g.paged && p.Kept:
		p.MemoryWhy += ", in huge pages"
	case g.paged:
		p.MemoryWhy += ", in huge pages, of which there are too few: bound to that node it would not start"
	case g.Hugepages && g.Memory > 0:
		p.MemoryWhy += ", in ordinary pages, because the pools have too few huge pages free"
	case g.Memory > 0:
		p.MemoryWhy += ", in ordinary pages: huge pages bring no packets"
	}
	if g.Passthrough {
		p.MemoryWhy += ", all of it is pinned when the guest starts, because a device is passed through"
	}
}

// pageSize formats a page size.
func pageSize(bytes uint64) string {
	if bytes >= 1<<30 {
		return fmt.Sprintf("%d GiB", bytes>>30)
	}
	return fmt.Sprintf("%d MiB", bytes>>20)
}

// crowdsServing reports whether a guest on a node, beside those that stay there, would take cores that the interrupts
// of the node's busy NICs need.
func (t *table) crowdsServing(p *Placed, node int) bool {
	need := t.servingCores(node)
	cores, _ := t.coresOf(node)
	return need > 0 && need <= cores && len(p.VCPUs) <= cores && len(p.VCPUs) > cores-t.frozenCores(node)-need
}
