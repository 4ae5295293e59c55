package placement

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"mpps/internal/model/setting"
)

// Place finds the cheapest place for every guest of the ask. The rules that the search need not break are left out of
// it at first: a choice that is cheaper than breaking one is the best of all.
func Place(ask Ask) *Result {
	r := place(ask)
	r.explainRefusals(ask)
	return r
}

// place is Place without the reasons of refusals. Where the search was cut short and refuses somebody, it tries once
// more to find a place beside the others for those.
func place(ask Ask) *Result {
	r := placeOnce(ask)
	if r.Proved || len(r.Refused) == 0 || len(r.Guests) == 0 {
		return r
	}
	again := placeOnce(seated(ask, r, nil))
	if len(again.Refused) >= len(r.Refused) {
		return r
	}
	for i := range again.Guests {
		if p := r.Guest(again.Guests[i].Name); p != nil {
			again.Guests[i].Kept = p.Kept
		}
	}
	again.Proved, again.Moved, again.Cost = false, r.Moved, Score(ask, again)
	return again
}

func placeOnce(ask Ask) *Result {
	t := lay(ask)
	stores := t.stores()
	items, choice, proved := t.search(stores)
	r := &Result{}
	t.seat(r, items, choice)
	t.house(r)
	t.threads(r, items, choice)
	r.Proved = proved && !t.fellBack
	t.interrupts(r)
	t.gaveWay(r)
	t.moved(r)
	t.tally(r)
	r.Cost = Score(ask, r)
	return r
}

// search solves the ask with as few rules giving way as possible: what is cheaper than the least breach of a rule is
// the best there is, and the search need not look at such breaches at all.
func (t *table) search(stores []store) (items []item, choice []int, proved bool) {
	cost := int64(math.MaxInt64)
	try := func(may freedom) {
		p := &problem{items: t.items(may, stores), resources: t.resources(may, stores), content: t.ask.content}
		chosen, found, sure := p.solve()
		if chosen != nil && found < cost {
			items, choice, cost, proved = p.items, chosen, found, sure
		} else if found == cost {
			proved = proved && sure
		}
	}
	refused := func() []string {
		var names []string
		for i := range items {
			if items[i].options[choice[i]].refused {
				names = append(names, items[i].guest.Name)
			}
		}
		return names
	}
	demand, room := t.pooled()
	if demand <= room || t.ask.Strict {
		if try(freedom{}); t.ask.Strict || cost < costSpread {
			return items, choice, proved
		}
	}
	spread := freedom{spread: true}
	if t.variety() > tooVaried {
		spread.only = append([]string{}, refused()...)
	}
	if demand <= room { // else cores are shared, however guests are spread
		if try(spread); cost < costSharing {
			return items, choice, proved && spread.only == nil
		}
	}
	try(freedom{sharing: true})
	if cost < t.leastSharing(demand, room)+costSpread {
		return items, choice, proved
	}
	spread.sharing = true
	if spread.only != nil {
		spread.only = append([]string{}, refused()...)
	}
	try(spread)
	return items, choice, proved && spread.only == nil
}

// tooVaried is how many ways to spread guests are too many to look at all.
const tooVaried = 1500

// variety is about how many ways there are to spread the guests that are to be seated.
func (t *table) variety() int {
	kinds := map[[2]int]bool{}
	n := 0
	for i := range t.ask.Guests {
		if g := &t.ask.Guests[i]; t.frozen[g.Name] == nil && !kinds[[2]int{g.VCPUs, threads(g)}] {
			kinds[[2]int{g.VCPUs, threads(g)}] = true
			n += (g.VCPUs - 1) * len(t.cells) * min(len(t.cells)-1, nearest)
		}
	}
	return n
}

// pooled is how many vCPUs are to be seated and how many cores there are for them, on all nodes together.
func (t *table) pooled() (demand, room int) {
	for i := range t.ask.Guests {
		if t.frozen[t.ask.Guests[i].Name] == nil {
			demand += t.ask.Guests[i].VCPUs
		}
	}
	for i := range t.cells {
		room += t.limit(&t.cells[i])
	}
	return demand, room
}

// leastSharing bounds what sharing must cost, whoever sits where.
func (t *table) leastSharing(demand, room int) int64 {
	var all cell
	for i := range t.cells {
		c := &t.cells[i]
		all.free = append(all.free, c.free[len(c.free)-t.limit(c):]...)
	}
	return costSharing * int64(all.sharing(demand, room))
}

// resources are the cells, with what their use costs, and the stores.
func (t *table) resources(may freedom, stores []store) []resource {
	all := 0
	for _, c := range t.cells {
		all += c.size
	}
	var list []resource
	for _, c := range t.cells {
		limit := t.limit(&c)
		room := limit
		if may.sharing {
			room = c.seats(limit)
		}
		r := resource{room: room, cost: make([]int64, room+1)}
		for load := range r.cost {
			used := min(load, limit)
			r.cost[load] = costSharing*int64(c.sharing(load, limit)) + costReserve*int64(
				max(0, used-(len(c.free)-c.want))) +
				costUsed*int64(used) + balance(c.size-len(c.free)+used, c.size, all)
		}
		list = append(list, r)
	}
	for _, s := range stores {
		list = append(list, resource{room: s.room})
	}
	return list
}

// limit is how many cores of a cell guests may have.
func (t *table) limit(c *cell) int {
	if t.ask.Strict {
		return len(c.free) - max(c.hard, c.want)
	}
	return len(c.free) - c.hard
}

// sharing is how many of the vCPUs on a number of a cell's cores, its last ones, must share one: cores that take the
// most leave the most alone.
func (c *cell) sharing(load, cores int) (vcpus int) {
	for _, threads := range c.widest(cores) {
		if load <= cores {
			break
		}
		gain := min(threads-1, load-cores)
		vcpus += gain + 1
		load -= gain
	}
	return vcpus
}

// widest are the CPUs that vCPUs may have on each of a cell's last cores, the most first.
func (c *cell) widest(cores int) []int {
	threads := make([]int, 0, cores)
	for _, core := range c.free[len(c.free)-cores:] {
		threads = append(threads, len(core.seats))
	}
	slices.SortFunc(threads, func(a, b int) int { return b - a })
	return threads
}

// seats is how many vCPUs a cell's last cores can take at all.
func (c *cell) seats(cores int) (n int) {
	for _, core := range c.free[len(c.free)-cores:] {
		n += len(core.seats)
	}
	return n
}

// keep is the place of a guest that is pinned, if it is well pinned or must not be moved; nil otherwise.
func (t *table) keep(g *Guest) *Placed {
	if len(g.Pins) == 0 || len(g.Pins) != g.VCPUs {
		return nil
	}
	faults := t.faults(g)
	if faults != nil && !g.Fixed {
		return nil
	}
	placed := &Placed{Name: g.Name, Kept: true, Why: "its vCPUs are pinned well already: one CPU each, no core " +
		"shared, one node"}
	if faults != nil {
		placed.Why = "it is not to be moved, although " + strings.Join(faults, ", ")
	}
	for vcpu, cpu := range g.Pins {
		t.taken[cpu] = g.Name
		placed.VCPUs = append(placed.VCPUs, VCPU{VCPU: vcpu, CPU: cpu})
	}
	placed.Nodes = t.nodesOf(setting.CPUs(g.Pins...))
	return placed
}

// faults is what is wrong with where a guest is pinned today; nil where nothing is.
func (t *table) faults(g *Guest) (faults []string) {
	cores, seen := map[int]bool{}, map[int]bool{}
	for vcpu, cpu := range g.Pins {
		c, online := t.cpus[cpu]
		switch {
		case !online:
			faults = append(faults, fmt.Sprintf("vCPU %d is pinned to CPU %d, which is offline", vcpu, cpu))
			continue
		case len(g.Allowed) > 0 && !g.Allowed.Has(cpu):
			faults = append(faults, fmt.Sprintf("vCPU %d is pinned to CPU %d, which is not among those given to it",
				vcpu, cpu))
		case len(g.Allowed) == 0 && c.Isolated != (g.Realtime && t.hasIsolated()):
			kind := "not isolated"
			if c.Isolated {
				kind = "isolated"
			}
			faults = append(faults, fmt.Sprintf("vCPU %d is pinned to CPU %d, which is %s", vcpu, cpu, kind))
		case seen[cpu]:
			faults = append(faults, fmt.Sprintf("CPU %d has two vCPUs", cpu))
		case t.taken[cpu] != "" && t.taken[cpu] != g.Name:
			faults = append(faults, fmt.Sprintf("CPU %d belongs to %s too", cpu, t.taken[cpu]))
		case cores[c.Core]:
			faults = append(faults, fmt.Sprintf("CPU %d is the other thread of a core that has a vCPU already", cpu))
		}
		seen[cpu], cores[c.Core] = true, true
	}
	if nodes := t.nodesOf(setting.CPUs(g.Pins...)); len(nodes) > 1 {
		faults = append(faults, "its vCPUs are spread over nodes "+nodes.String())
	}
	return faults
}

func (t *table) nodesOf(cpus setting.CPUSet) setting.CPUSet {
	var nodes []int
	for _, cpu := range cpus {
		if c, online := t.cpus[cpu]; online {
			nodes = append(nodes, c.Node)
		}
	}
	return setting.CPUs(nodes...)
}

func (t *table) guest(name string) *Guest {
	for i := range t.ask.Guests {
		if t.ask.Guests[i].Name == name {
			return &t.ask.Guests[i]
		}
	}
	return &Guest{}
}

// moved lists the guests whose pins, of one CPU for each vCPU, the placement does not keep.
func (t *table) moved(r *Result) {
	for i := range r.Guests {
		p := &r.Guests[i]
		g := t.guest(p.Name)
		if len(g.Pins) == g.VCPUs && slices.ContainsFunc(p.VCPUs,
			func(v VCPU) bool { return g.Pins[v.VCPU] != v.CPU }) {
			r.Moved = append(r.Moved, p.Name)
		}
	}
}

// byName orders placed guests.
func byName(a, b Placed) int { return cmp.Compare(a.Name, b.Name) }
