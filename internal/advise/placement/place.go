package placement

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Place returns the cheapest placement of the ask's guests, placed again from there until nothing moves.
func Place(ask Ask) *Result {
	r := placedAgain(ask, settle(ask))
	r.explainRefusals(ask)
	return r
}

// placeAgain places guests without regard to where they are today, other than those that stay. If the search was cut
// short and refuses guests, it tries once more to place those next to the others.
func placeAgain(ask Ask) *Result {
	r := placeOnce(ask)
	switch {
	case r.Proved || len(r.Guests) == 0:
		return r
	case len(r.Refused) == 0:
		return gather(ask, r)
	}
	again := placeOnce(withSeats(ask, r, nil))
	if len(again.Refused) >= len(r.Refused) {
		return r
	}
	return besideSeats(ask, r, again)
}

// gather places each guest again that a search which was cut short spread over nodes, next to the others' vCPUs, and
// keeps what costs less. It gathers only a few: where most are spread, there is hardly a node for any.
func gather(ask Ask, r *Result) *Result {
	var spread []string
	for _, p := range r.Guests {
		if !p.Kept && len(p.Nodes) > 1 {
			spread = append(spread, p.Name)
		}
	}
	if len(spread) > maxGathered {
		return r
	}
	for _, name := range spread {
		seats := withSeats(ask, r, []string{name})
		for other := range facts.Each(seats.Guests) {
			if p := other.Seat; p != nil && !r.Guest(other.Name).Kept {
				p.Vhost, p.VhostWhy, p.Emulator, p.Queues, p.Others = nil, "", nil, nil, nil
			}
		}
		again := besideSeats(ask, r, placeOnce(seats))
		if again.Cost.Total < r.Cost.Total {
			r = again
		}
	}
	return r
}

// maxGathered is the most guests that are gathered.
const maxGathered = 3

// besideSeats makes a placement, in which guests have seats from an earlier one, one of an ask.
func besideSeats(ask Ask, r, again *Result) *Result {
	for g := range facts.Each(again.Guests) {
		if p := r.Guest(g.Name); p != nil {
			g.Kept = p.Kept
		}
	}
	again.Proved, again.Moved, again.Cost = false, r.Moved, Score(ask, again)
	return again
}

func placeOnce(ask Ask) *Result {
	t := newTable(ask)
	items, choice, proved := t.search(t.stores())
	r := &Result{}
	t.seat(r, items, choice)
	for _, g := range t.ask.Guests {
		if g.refused {
			r.Refused = append(r.Refused, Refusal{Guest: g.Name})
		}
	}
	t.placeDaemons(r)
	t.placeThreads(r, items, choice)
	r.Proved = proved && !t.shortOfSiblings
	t.placeInterrupts(r)
	t.reportRelaxed(r)
	t.reportMoved(r)
	t.countUse(r)
	r.Left = append(r.Left, t.left...)
	slices.SortFunc(r.Left, func(a, b Left) int { return strings.Compare(a.Guest, b.Guest) })
	r.Cost = Score(ask, r)
	return r
}

// search solves the ask with as few rules giving way as possible. A choice that costs less than the cheapest breach of
// a rule is optimal, so the search first leaves such breaches out.
func (t *table) search(stores []store) (items []item, choice []int, proved bool) {
	cost := int64(math.MaxInt64)
	try := func(may freedom) {
		p := &problem{items: t.items(may, stores), resources: t.resources(may, stores),
			feasibleOnly: t.ask.feasibleOnly}
		chosen, found, sure := p.solve()
		if chosen != nil && found < cost {
			items, choice, cost, proved = p.items, chosen, found, sure
		} else if found == cost {
			proved = proved && sure
		}
	}
	refused := func() []string {
		names := []string{}
		for i, it := range items {
			if it.options[choice[i]].refused {
				names = append(names, it.guest.Name)
			}
		}
		return names
	}
	demand, room := t.demandAndRoom()
	apart := t.apart()
	if demand <= room || apart || t.ask.Strict {
		if try(freedom{}); t.ask.Strict || cost < costSpread {
			return items, choice, proved
		}
	}
	spread := freedom{spread: true}
	if t.spreadWays() > maxSpreadWays {
		spread.only = refused()
	}
	if demand <= room || apart { // otherwise cores are shared, however guests are spread
		if try(spread); apart || cost < costSharing {
			return items, choice, proved && spread.only == nil
		}
	}
	try(freedom{sharing: true})
	if cost < t.leastSharing(demand, room)+costSpread {
		return items, choice, proved
	}
	spread.sharing = true
	if spread.only != nil {
		spread.only = refused()
	}
	try(spread)
	return items, choice, proved && spread.only == nil
}

// apart reports whether vCPUs never share a core: there are several guests, all realtime and none with CPUs given to
// it, and isolated CPUs. Realtime vCPUs on one core delay each other. A guest that finds too few free cores is refused
// and keeps its current CPUs.
func (t *table) apart() bool {
	return len(t.ask.Guests) > 1 && t.hasIsolated() &&
		!slices.ContainsFunc(t.ask.Guests, func(g Guest) bool { return !g.Realtime || len(g.Allowed) > 0 })
}

// maxSpreadWays is the number of ways to spread guests above which only refused guests are spread.
const maxSpreadWays = 1500

// spreadWays estimates the number of ways to spread the guests that do not stay.
func (t *table) spreadWays() int {
	kinds := map[[2]int]bool{}
	n := 0
	for _, g := range t.ask.Guests {
		if kind := [2]int{g.VCPUs, vhostCount(&g)}; t.toPlace(&g) && !kinds[kind] {
			kinds[kind] = true
			n += (g.VCPUs - 1) * len(t.cells) * min(len(t.cells)-1, nearest)
		}
	}
	return n
}

// demandAndRoom returns how many vCPUs are to be placed and how many cores there are for them, on all nodes together.
func (t *table) demandAndRoom() (demand, room int) {
	for _, g := range t.ask.Guests {
		if t.toPlace(&g) && !g.Shared {
			demand += g.VCPUs
		}
	}
	for _, c := range t.cells {
		room += t.limit(c)
	}
	return demand, room
}

// leastSharing returns a lower bound of the cost of sharing.
func (t *table) leastSharing(demand, room int) int64 {
	var all cell
	for _, c := range t.cells {
		all.free = append(all.free, c.free[len(c.free)-t.limit(c):]...)
	}
	return costSharing * int64(all.sharing(demand, room))
}

// resources returns the cells, with the cost of each load, and the stores.
func (t *table) resources(may freedom, stores []store) []resource {
	all := 0
	for _, c := range t.cells {
		all += c.size
	}
	var list []resource
	for _, c := range t.cells {
		limit := t.limit(c)
		room := limit
		if may.sharing {
			room = c.capacity(limit)
		}
		r := resource{room: room, cost: make([]int64, room+1)}
		for load := range r.cost {
			used := min(load, limit)
			r.cost[load] = costSharing*int64(c.sharing(load, limit)) +
				costReserve*int64(max(0, used-(len(c.free)-c.wantKept))) +
				costServing*int64(max(0, used-(len(c.free)-c.serving))) +
				costUsed*int64(used) + balance(c.size-len(c.free)+used, c.size, all)
		}
		list = append(list, r)
	}
	for _, s := range stores {
		list = append(list, resource{room: s.room})
	}
	return list
}

// limit returns how many cores of a cell guests may have.
func (t *table) limit(c *cell) int {
	if t.ask.Strict {
		return len(c.free) - max(c.mustKeep, c.wantKept, c.serving)
	}
	return len(c.free) - c.mustKeep
}

// sharing returns how many of load vCPUs share a core if a cell's last cores take them. The cores with most threads are
// shared first: that leaves most vCPUs alone.
func (c *cell) sharing(load, cores int) (vcpus int) {
	threads := make([]int, 0, cores)
	for _, core := range c.free[len(c.free)-cores:] {
		threads = append(threads, len(core.seats))
	}
	slices.SortFunc(threads, func(a, b int) int { return b - a })
	for _, n := range threads {
		if load <= cores {
			break
		}
		gain := min(n-1, load-cores)
		vcpus += gain + 1
		load -= gain
	}
	return vcpus
}

// capacity returns how many vCPUs a cell's last cores can take at most.
func (c *cell) capacity(cores int) (n int) {
	for _, core := range c.free[len(c.free)-cores:] {
		n += len(core.seats)
	}
	return n
}

// toPlace reports whether a guest is to be placed: it neither stays nor is left as it is.
func (t *table) toPlace(g *Guest) bool {
	return t.frozen[g.Name] == nil && !g.refused && !t.isLeft[g.Name]
}

// keep returns the place of a pinned guest if it is pinned well or must not move; nil otherwise.
func (t *table) keep(g *Guest) *Placed {
	if len(g.Pins) == 0 || len(g.Pins) != g.VCPUs {
		return nil
	}
	faults := t.faults(g)
	if faults != nil && !g.Fixed && g.stays == "" {
		return nil
	}
	const well = "its vCPUs are pinned well already: one CPU each, no two on a core but threads of one that the " +
		"guest is shown"
	placed := &Placed{Name: g.Name, Kept: true, Why: well + ", one node", Nodes: t.nodesOf(setting.CPUs(g.Pins...))}
	switch other := t.onSameCores(g); {
	case faults == nil && other != "":
		placed.Why = "its vCPUs are pinned one by one, and stay, although " + other + " has vCPUs on the same cores"
	case faults == nil && len(placed.Nodes) > 1 && g.cells:
		placed.Why = well + "; over several nodes, which it is shown as cells"
	case faults == nil && len(placed.Nodes) > 1:
		placed.Why = well + "; over several nodes, because no single one has cores and memory for it"
	case faults != nil && g.Fixed:
		placed.Why = "it is not to be moved, although " + strings.Join(faults, ", ")
	case faults != nil && g.stays == notOurs:
		placed.Why = "libvirt does not know it, so that no plan moves it, although " + strings.Join(faults, ", ")
	case faults != nil && g.stays == nothingMended:
		placed.Why = "no other place is better, although " + strings.Join(faults, ", ")
	case faults != nil:
		placed.Why = fmt.Sprintf("%s; another place would make this rule worse: %s", strings.Join(faults, ", "),
			ruleWords[g.stays])
	}
	for _, cpu := range g.Pins {
		t.assignVCPU(placed, cpu)
	}
	return placed
}

// faults returns what is wrong with a guest's pins; nil if nothing is.
func (t *table) faults(g *Guest) (faults []string) {
	add := func(format string, a ...any) { faults = append(faults, fmt.Sprintf(format, a...)) }
	cores, seen := map[int]int{}, map[int]bool{} // cores: the first vCPU on each
	for vcpu, cpu := range g.Pins {
		c, online := t.cpus[cpu]
		first, shared := cores[c.Core]
		switch {
		case !online:
			add("vCPU %d is pinned to CPU %d, which is offline", vcpu, cpu)
			continue
		case len(g.Allowed) > 0 && !g.Allowed.Has(cpu):
			add("vCPU %d is pinned to CPU %d, which is not among those given to it", vcpu, cpu)
		case len(g.Allowed) == 0 && g.Realtime && t.hasIsolated() && !c.Isolated:
			add("vCPU %d is pinned to CPU %d, which is not isolated", vcpu, cpu)
		case t.ask.Taken.Has(cpu):
			add("vCPU %d is pinned to CPU %d, on a core that a poll-mode thread has", vcpu, cpu)
		case seen[cpu]:
			add("CPU %d has two vCPUs", cpu)
		case t.vcpuOn[cpu] != "" && t.vcpuOn[cpu] != g.Name:
			add("CPU %d belongs to %s too", cpu, t.vcpuOn[cpu])
		case shared && (g.Realtime || g.Threads < 2 || first/g.Threads != vcpu/g.Threads):
			add("CPU %d is the other thread of a core that has a vCPU already", cpu)
		}
		if seen[cpu] = true; !shared {
			cores[c.Core] = vcpu
		}
	}
	if nodes := t.nodesOf(setting.CPUs(g.Pins...)); len(nodes) > 1 && t.fitsOneNode(g) {
		add("its vCPUs are spread over nodes %s", nodes)
	}
	return faults
}

// onSameCores returns the first other guest that is pinned one by one and has a vCPU on a core of a guest's; "": none.
func (t *table) onSameCores(g *Guest) string {
	cores := map[int]bool{}
	for _, cpu := range g.Pins {
		cores[t.coreOf(cpu)] = true
	}
	for o := range facts.Each(t.ask.Guests) {
		if o.Name != g.Name && len(o.Pins) == o.VCPUs && slices.ContainsFunc(o.Pins, func(cpu int) bool {
			return cores[t.coreOf(cpu)]
		}) {
			return o.Name
		}
	}
	return ""
}

// fitsOneNode reports whether a guest that is pinned over several nodes could be on one: a node has cores and memory
// enough for it, and it is not shown the nodes as cells.
func (t *table) fitsOneNode(g *Guest) bool {
	return !g.cells && slices.ContainsFunc(t.ask.Nodes, func(n Node) bool {
		cores, _ := t.coresOf(n.ID)
		return cores >= g.VCPUs && n.holds(g)
	})
}

// holds reports whether a node has as much memory as a guest. One in huge pages does not start without them.
func (n *Node) holds(g *Guest) bool {
	if !g.paged {
		return n.Memory == 0 && !n.Empty || n.Memory >= g.Memory
	}
	return len(n.Pages) == 0 && n.Memory == 0 || slices.ContainsFunc(n.Pages, func(p Pages) bool {
		return p.Size*p.Count >= g.Memory
	})
}

// guestNamed returns a guest of the ask; an empty one if there is none of that name.
func (a *Ask) guestNamed(name string) *Guest {
	return cmp.Or(facts.Find(a.Guests, func(g *Guest) bool { return g.Name == name }), &Guest{})
}

// reportMoved lists the guests that are pinned one vCPU to a CPU and whose pins change.
func (t *table) reportMoved(r *Result) {
	for _, p := range r.Guests {
		g := t.ask.guestNamed(p.Name)
		if len(g.Pins) == g.VCPUs && slices.ContainsFunc(p.VCPUs,
			func(v VCPU) bool { return g.Pins[v.VCPU] != v.CPU }) {
			r.Moved = append(r.Moved, p.Name)
		}
	}
}
