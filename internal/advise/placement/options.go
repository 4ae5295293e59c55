package placement

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"mpps/internal/model/setting"
)

// item is one guest as the search sees it: a list of options, of which it gets one.
type item struct {
	guest   *Guest
	seated  *Placed // it stays, and only its threads are placed
	threads int     // of vhost
	weight  int64
	kind    string // guests of one kind have the same options
	options []option
}

// option is one way to place a guest.
type option struct {
	use     []use // of resources, by rising index
	cost    int64
	refused bool
	parts   []part
	vhost   berth
	points  int64 // of the vhost threads
	page    uint64
}

// use is an amount of a resource: cores of a cell, or MiB of a store.
type use struct{ resource, amount int }

// part is the vCPUs of a guest in one cell.
type part struct{ cell, vcpus int }

// berth is where the vhost threads of a guest are.
type berth struct {
	kind  berthKind
	cell  int // of onCores
	cores int // of onCores
}

type berthKind int

const (
	noThreads  berthKind = iota
	onCores              // of their own
	onSiblings           // the other threads of the vCPUs' cores
	onKept               // CPUs kept for the host
	onOwn                // the vCPUs' own CPUs: nothing else is left
)

// freedom is which rules may give way. Sharing has no options of its own: a cell takes more vCPUs than it has cores
// then.
type freedom struct {
	spread, sharing bool
	only            []string // guests that may be spread; nil: all
}

// manyNodes is from how many cells on the search looks, for what is not on a guest's own node, at the nearest ones
// only: for its vhost threads, and for the other part of a guest that is spread.
const (
	manyNodes = 4
	nearest   = 3
)

// mostSpread is over how many nodes a guest is spread at most.
const mostSpread = 16

// items lists every guest that something is to be decided for, with its options.
func (t *table) items(may freedom, stores []store) []item {
	var all []item
	same := map[string][]option{} // guests that are alike have one list
	least := math.Inf(1)
	for _, g := range t.ask.Guests {
		least = min(least, rate(&g))
	}
	for i := range t.ask.Guests {
		g := &t.ask.Guests[i]
		it := item{guest: g, seated: t.frozen[g.Name], threads: threads(g),
			weight: min(int64(math.Round(rate(g)/least)), mostWeight)}
		switch {
		case it.seated == nil:
			it.kind = t.kindOf(&it)
			may := may
			if may.only != nil && !slices.Contains(may.only, g.Name) {
				may.spread = false
			}
			it.kind += fmt.Sprint(" ", may.spread)
			if it.options = same[it.kind]; it.options == nil {
				t.seatOptions(&it, may, stores)
				it.options = append(it.options, option{refused: true, cost: refusal(g)})
				same[it.kind] = it.options
			}
		case len(it.seated.Vhost) > 0 || it.threads == 0:
			continue
		default:
			it.kind = g.Name
			t.threadOptions(&it)
		}
		all = append(all, it)
	}
	return all
}

// kindOf is the same for guests that have the same options.
func (t *table) kindOf(it *item) string {
	g := it.guest
	var held []int
	for _, cpu := range g.Emulator {
		if c, online := t.cpus[cpu]; online {
			held = append(held, c.Node)
		}
	}
	kind := fmt.Sprint(g.VCPUs, g.Memory, g.Hugepages, g.Realtime, g.Allowed, it.threads, it.weight,
		setting.CPUs(held...))
	for _, n := range g.NICs {
		kind += fmt.Sprint(" ", t.nicNode(n), max(1, n.Queues))
	}
	return kind
}

func rate(g *Guest) float64 {
	if g.Rate > 0 {
		return g.Rate
	}
	return usualRate
}

// threads is how many vhost threads a guest has.
func threads(g *Guest) int {
	n := 0
	for _, i := range g.NICs {
		if !i.VF {
			n += max(1, i.Queues)
		}
	}
	return n
}

// seatOptions lists all ways to seat a guest: whole on one node; where it may be spread, in two parts, or evenly over
// as many nodes as it takes.
func (t *table) seatOptions(it *item, may freedom, stores []store) {
	g, isolated := it.guest, t.hasIsolated()
	var cells []int
	for i := range t.cells {
		if c := &t.cells[i]; len(c.free) > c.hard && c.takes(g, isolated) {
			cells = append(cells, i)
		}
	}
	room := 0
	for _, i := range cells {
		room += t.cells[i].seats(t.limit(&t.cells[i]))
	}
	if g.VCPUs > room {
		return
	}
	for _, i := range cells {
		t.addSeats(it, []part{{i, g.VCPUs}}, stores)
	}
	for a, i := range cells {
		for _, j := range cells[a+1:] {
			if t.cells[i].node == t.cells[j].node || may.spread && slices.Contains(t.around(i), j) {
				for n := 1; n < g.VCPUs; n++ {
					t.addSeats(it, []part{{i, g.VCPUs - n}, {j, n}}, stores)
				}
			}
		}
	}
	if may.spread {
		for over := 3; over <= min(len(cells), g.VCPUs, mostSpread); over++ {
			for first := range cells[:min(len(cells), mostSpread)] {
				t.addSeats(it, t.evenly(g.VCPUs, cells, first, over), stores)
			}
		}
	}
}

// around are the cells that are near enough to a cell for one guest: all of a few, the nearest of many.
func (t *table) around(i int) []int {
	if t.near == nil {
		t.near = make([][]int, len(t.cells))
	}
	if t.near[i] == nil {
		others := make([]int, 0, len(t.cells))
		for k := range t.cells {
			if k != i {
				others = append(others, k)
			}
		}
		slices.SortStableFunc(others, func(a, b int) int {
			return cmp.Compare(t.apart(t.cells[i].node, t.cells[a].node), t.apart(t.cells[i].node, t.cells[b].node))
		})
		if len(t.cells) > manyNodes {
			others = slices.DeleteFunc(others, func(k int) bool { return !t.cells[k].main() })
			others = others[:min(nearest, len(others))]
		}
		t.near[i] = others
	}
	return t.near[i]
}

// reach are the cells for the vhost threads of a guest on some nodes: those of its nodes and around them, in their
// order.
func (t *table) reach(nodes []int) []int {
	var cells []int
	for i := range t.cells {
		if slices.Contains(nodes, t.cells[i].node) {
			cells = append(cells, i)
			cells = append(cells, t.around(i)...)
		}
	}
	slices.Sort(cells)
	return slices.Compact(cells)
}

// evenly spreads vCPUs over a number of cells: the first and those nearest to it, in proportion to their room.
func (t *table) evenly(vcpus int, cells []int, first, over int) []part {
	near := slices.Clone(cells)
	home := t.cells[cells[first]].node
	slices.SortStableFunc(near, func(a, b int) int {
		return int(t.apart(home, t.cells[a].node) - t.apart(home, t.cells[b].node))
	})
	near = near[:over]
	room := 0
	for _, i := range near {
		room += len(t.cells[i].free) - t.cells[i].hard
	}
	parts := make([]part, over)
	left := vcpus
	for n, i := range near {
		parts[n] = part{i, vcpus * (len(t.cells[i].free) - t.cells[i].hard) / room}
		left -= parts[n].vcpus
	}
	for n := 0; left > 0; n = (n + 1) % over {
		parts[n].vcpus++
		left--
	}
	return slices.DeleteFunc(parts, func(p part) bool { return p.vcpus == 0 })
}

// addSeats adds the options with given seats: each with every way to hold its memory and place its threads.
func (t *table) addSeats(it *item, parts []part, stores []store) {
	var base option
	var nodes, counts []int
	for _, p := range parts {
		c := &t.cells[p.cell]
		base.use = append(base.use, use{p.cell, p.vcpus})
		if i := slices.Index(nodes, c.node); i >= 0 {
			counts[i] += p.vcpus
			continue
		}
		nodes, counts = append(nodes, c.node), append(counts, p.vcpus)
	}
	base.parts = parts
	base.cost += int64(len(nodes)-1)*costSpread + costPoint*t.nicPoints(it.guest, it.weight, nodes, counts)
	for _, page := range t.pageSizes(it.guest) {
		o := base
		o.page = page
		if page == 0 && it.guest.Hugepages {
			o.cost += costPages
		}
		o.use = slices.Clone(base.use)
		fits := true
		for _, m := range shareOut(it.guest.Memory, page, nodes, counts) {
			i := slices.IndexFunc(stores, func(s store) bool { return s.node == m.Node && s.page == page })
			switch {
			case i < 0 && page > 0, i >= 0 && !stores[i].bottom && units(m.Bytes) > stores[i].room:
				fits = false
			case i >= 0 && !stores[i].bottom && m.Bytes > 0:
				o.use = append(o.use, use{len(t.cells) + i, units(m.Bytes)})
			}
		}
		if fits {
			t.addBerths(it, o, nodes, counts)
		}
	}
}

// nicPoints is what the way between a guest's NICs and its vCPUs costs.
func (t *table) nicPoints(g *Guest, weight int64, nodes, counts []int) int64 {
	sum, all := int64(0), int64(0)
	for i, node := range nodes {
		all += int64(counts[i])
		for _, n := range g.NICs {
			sum += int64(counts[i]) * int64(max(1, n.Queues)) * t.apart(t.nicNode(n), node)
		}
	}
	return pointsNIC * weight * sum / max(all, 1)
}

// vhostPoints is what the way between vhost threads on a node and a guest's vCPUs costs.
func (t *table) vhostPoints(threads int, weight int64, from int, nodes, counts []int) int64 {
	sum, all := int64(0), int64(0)
	for i, node := range nodes {
		sum, all = sum+int64(counts[i])*t.apart(from, node), all+int64(counts[i])
	}
	return pointsVhost * weight * int64(threads) * sum / max(all, 1)
}

// merge is two lists of uses as one, by rising resource.
func merge(a, b []use) []use {
	all := slices.Clone(a)
	for _, u := range b {
		if i := slices.IndexFunc(all, func(o use) bool { return o.resource == u.resource }); i >= 0 {
			all[i].amount += u.amount
			continue
		}
		all = append(all, u)
	}
	return all
}

// nicNode is the node of the physical NIC behind a guest's, −1 where it is not known.
func (t *table) nicNode(i Interface) int {
	if i.VF {
		return i.Node
	}
	for _, n := range t.ask.NICs {
		if n.Name == i.NIC {
			return n.Node
		}
	}
	return -1
}
