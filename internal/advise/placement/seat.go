package placement

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/setting"
)

// seat gives the chosen options their CPUs: the lowest cores of each node are the host's, the next the guests', in the
// order of their size. Cores of a node being equal, which ones is free; a guest that fits behind one L3 cache is put
// there.
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
	for i := range t.cells {
		c := &t.cells[i]
		used := min(crowds[i].vcpus+crowds[i].vhost, t.limit(c))
		kept := min(c.want, max(c.hard, len(c.free)-used))
		for _, core := range c.free[:kept] {
			r.Housekeeping = r.Housekeeping.Or(t.cores[core.id])
		}
		c.free = c.free[kept:]
		crowds[i].sharing = c.sharing(crowds[i].vcpus+crowds[i].vhost, len(c.free))
		crowds[i].cores = c.wide(crowds[i].sharing)
	}
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
		if o.refused {
			r.Refused = append(r.Refused, Refusal{Guest: g.Name})
			continue
		}
		p := &Placed{Name: g.Name, PageSize: o.page}
		var nodes, counts []int
		for _, part := range o.parts {
			c := &t.cells[part.cell]
			if i := slices.Index(nodes, c.node); i >= 0 {
				counts[i] += part.vcpus
			} else {
				nodes, counts = append(nodes, c.node), append(counts, part.vcpus)
			}
			alone := crowds[part.cell].seat(p, part.vcpus)
			for _, core := range c.take(alone, nil) {
				t.sit(p, core.seats[0])
			}
		}
		p.Nodes, p.Memory = setting.CPUs(nodes...), shareOut(g.Memory, o.page, nodes, counts)
		seated = append(seated, p)
	}
	for i := range t.cells {
		t.share(crowds[i])
	}
	for _, p := range seated {
		t.explainSeat(p)
		r.Guests = append(r.Guests, *p)
	}
	for i := range r.Guests {
		p := &r.Guests[i]
		t.explainMemory(p)
	}
	slices.SortFunc(r.Guests, byName)
}

// crowd is who is to sit in a cell.
type crowd struct {
	vcpus, vhost int
	sharing      int       // vCPUs that must share a core
	shared       []*Placed // a guest for each of them
	cores        []core    // where they share
}

// seat divides a guest's vCPUs in a cell into those that are alone on their core, which it returns, and those that
// share: every guest bears its part.
func (c *crowd) seat(p *Placed, vcpus int) (alone int) {
	share := 0
	if c.vcpus > 0 {
		share = (vcpus*(c.sharing-len(c.shared)) + c.vcpus - 1) / c.vcpus
	}
	c.vcpus -= vcpus
	for range share {
		c.shared = append(c.shared, p)
	}
	return vcpus - share
}

// sit gives a guest's next vCPU a CPU.
func (t *table) sit(p *Placed, cpu int) {
	t.taken[cpu] = p.Name
	p.VCPUs = append(p.VCPUs, VCPU{VCPU: len(p.VCPUs), CPU: cpu})
}

// share puts the vCPUs that share on the threads of their cores, those of one guest on different cores where that can
// be.
func (t *table) share(c crowd) {
	var seats []int
	for thread := 0; len(seats) < len(c.shared); thread++ {
		for _, core := range c.cores {
			if thread < len(core.seats) {
				seats = append(seats, core.seats[thread])
			}
		}
	}
	for i, p := range c.shared {
		t.sit(p, seats[i])
	}
}

// wide removes the cores with the most threads that it takes for some vCPUs to share them.
func (c *cell) wide(vcpus int) (cores []core) {
	order := slices.Clone(c.free)
	slices.SortStableFunc(order, func(a, b core) int { return len(b.seats) - len(a.seats) })
	for seats := 0; seats < vcpus; seats += len(order[len(cores)-1].seats) {
		cores = append(cores, order[len(cores)])
	}
	c.free = slices.DeleteFunc(slices.Clone(c.free), func(o core) bool {
		return slices.ContainsFunc(cores, func(k core) bool { return k.id == o.id })
	})
	return cores
}

// take removes n cores from a cell: those that are preferred first, then all behind the fullest L3 cache that has
// enough, else the lowest.
func (c *cell) take(n int, preferred func(core) bool) []core {
	if n == 0 {
		return nil
	}
	behind := map[int]int{}
	for _, core := range c.free {
		behind[core.l3]++
	}
	home, least := -1, 0
	for _, core := range c.free {
		if room := behind[core.l3]; room >= n && (least == 0 || room < least) {
			home, least = core.l3, room
		}
	}
	rank := func(o core) int {
		switch {
		case preferred != nil && preferred(o):
			return 0
		case least > 0 && o.l3 == home:
			return 1
		}
		return 2
	}
	order := slices.Clone(c.free)
	slices.SortStableFunc(order, func(a, b core) int { return rank(a) - rank(b) })
	taken := slices.Clone(order[:n])
	slices.SortFunc(taken, func(a, b core) int { return a.seats[0] - b.seats[0] })
	c.free = slices.DeleteFunc(slices.Clone(c.free), func(o core) bool {
		return slices.ContainsFunc(taken, func(k core) bool { return k.id == o.id })
	})
	return taken
}

// explainSeat says why a guest sits where it does.
func (t *table) explainSeat(p *Placed) {
	g := t.guest(p.Name)
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
	case len(wanted) == 0:
		p.Why = fmt.Sprintf("node %s leaves the nodes most evenly used; which node its NIC is on is not known", p.Nodes)
	case len(wanted) == 1 && wanted.Equal(p.Nodes):
		p.Why = fmt.Sprintf("node %s is where its NIC is", p.Nodes)
	case len(wanted.And(p.Nodes)) > 0:
		p.Why = fmt.Sprintf("node %s is where one of its NICs is (they are on nodes %s)", p.Nodes, wanted)
	default:
		p.Why = fmt.Sprintf("node %s: on the NIC's node %s it would cost others more, or there are too few free "+
			"cores or too little memory for it", p.Nodes, wanted)
	}
	switch {
	case len(g.Allowed) > 0:
		p.Why += "; among the CPUs given to it (" + g.Allowed.String() + ")"
	case g.Realtime && t.hasIsolated():
		p.Why += "; on isolated CPUs, because it is to answer in time"
	case g.Realtime:
		p.Why += "; no CPU is isolated yet: these should be"
	}
	if faults := t.faultsOfPins(g); faults != "" {
		p.Why += "; today " + faults
	}
}

func (t *table) faultsOfPins(g *Guest) string {
	switch {
	case g.fresh:
		return ""
	case len(g.Pins) == 0:
		return "its vCPUs are not pinned one by one"
	case len(g.Pins) != g.VCPUs:
		return fmt.Sprintf("only %d of %d vCPUs are pinned", len(g.Pins), g.VCPUs)
	}
	return strings.Join(t.faults(g), ", ")
}

// explainMemory says where a guest's memory is and why, and counts its huge pages.
func (t *table) explainMemory(p *Placed) {
	g := t.guest(p.Name)
	why := []string{"on the node of its vCPUs"}
	if len(p.Nodes) > 1 {
		why = []string{"on the nodes of its vCPUs, in proportion"}
	}
	switch {
	case p.PageSize > 0:
		for i := range p.Memory {
			p.Memory[i].Pages = p.Memory[i].Bytes / p.PageSize
		}
		why = append(why, "in huge pages of "+size(p.PageSize))
	case g.Hugepages && g.Memory > 0:
		why = append(why, "in ordinary pages, because the pools have too few huge pages free")
	case g.Memory > 0:
		why = append(why, "in ordinary pages: huge pages bring no packets")
	}
	if g.Passthrough {
		why = append(why, "all of it is pinned when the guest starts, because a device is passed through")
	}
	p.MemoryWhy = strings.Join(why, ", ")
}

// size writes a page size.
func size(bytes uint64) string {
	if bytes >= 1<<30 {
		return fmt.Sprintf("%d GiB", bytes>>30)
	}
	return fmt.Sprintf("%d MiB", bytes>>20)
}
