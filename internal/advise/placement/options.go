package placement

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"mpps/internal/model/facts"
)

// item is one guest in the search, with the options of which it gets one.
type item struct {
	guest   *Guest
	seated  *Placed // not nil: it stays, and only its threads are placed
	vhost   int     // threads
	weight  int64
	kind    string // guests of one kind have the same options
	options []option
}

// option is one way to place a guest.
type option struct {
	use     []use // of resources, by rising index
	cost    int64
	refused bool
	left    bool // the guest is left as it is
	parts   []part
	vhost   vhostPlace
	points  int64 // of the vhost threads
	page    uint64
}

// use is an amount of a resource: cores of a cell, or MiB of a store.
type use struct{ resource, amount int }

// part is the vCPUs of a guest in one cell.
type part struct{ cell, vcpus int }

// vhostPlace is where the vhost threads of a guest run. onCores has a cell and a number of cores.
type vhostPlace struct {
	kind        vhostPlaceKind
	cell, cores int
}

type vhostPlaceKind int

const (
	noThreads  vhostPlaceKind = iota
	onCores                   // cores of their own
	onSiblings                // the other threads of the vCPUs' cores
	onKept                    // CPUs kept for the host
	onOwn                     // the vCPUs' own CPUs: nothing else is left
)

// freedom is which rules may give way. Sharing adds no options: a cell then takes more vCPUs than it has cores.
type freedom struct {
	spread, sharing bool
	only            []string // guests that may be spread; nil: all
}

// With more than manyCells cells, the search considers only the nearest ones for parts of a guest off its own node: its
// vhost threads, and the other part of a guest that is spread.
const (
	manyCells = 4
	nearest   = 3
)

// maxSpread is the largest number of nodes that a guest is spread over.
const maxSpread = 16

// items returns every guest that has something to be placed, with its options.
func (t *table) items(may freedom, stores []store) []item {
	var all []item
	same := map[string][]option{} // by kind
	least := math.Inf(1)
	for g := range facts.Each(t.ask.Guests) {
		least = min(least, rate(g))
	}
	for g := range facts.Each(t.ask.Guests) {
		it := item{guest: g, seated: t.frozen[g.Name], vhost: vhostCount(g),
			weight: min(int64(math.Round(rate(g)/least)), maxWeight)}
		if g.threadsStay {
			it.vhost = 0
		}
		switch {
		case it.seated == nil && !t.toPlace(g):
			continue
		case it.seated == nil:
			may := may
			may.spread = may.spread && (may.only == nil || slices.Contains(may.only, g.Name))
			it.kind = t.kindOf(&it) + fmt.Sprint(" ", may.spread)
			if it.options = same[it.kind]; it.options == nil {
				t.addOptions(&it, may, stores)
				last := option{refused: true, cost: refusal(g)}
				if g.Shared {
					last = option{left: true, cost: costLeft}
				}
				it.options = append(it.options, last)
				same[it.kind] = it.options
			}
		case len(it.seated.Vhost) > 0 || it.vhost == 0:
			continue
		default: // only its vhost threads
			it.kind = g.Name
			shares := t.shares(it.seated, it.seated.Nodes)
			t.addVhostPlaces(&it, option{cost: costPoint * t.nicPoints(g, it.weight, shares)}, shares)
		}
		all = append(all, it)
	}
	return all
}

// kindOf returns a text that is the same for guests with the same options.
func (t *table) kindOf(it *item) string {
	g := it.guest
	kind := fmt.Sprint(g.VCPUs, g.Memory, g.Hugepages, g.Realtime, g.Allowed, g.Confined, g.Shared, g.Home, g.nodes,
		it.vhost, it.weight, t.nodesOf(g.Emulator))
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

// vhostCount returns how many vhost threads a guest has.
func vhostCount(g *Guest) int {
	n := 0
	for _, i := range g.NICs {
		n += queuesOf(i)
	}
	return n
}

// addOptions adds all ways to place a guest: whole in one cell, in two parts, or, if it may be spread over nodes,
// evenly over as many cells as it takes.
func (t *table) addOptions(it *item, may freedom, stores []store) {
	g, isolated := it.guest, t.hasIsolated()
	var cells []int
	room := 0
	for i, c := range t.cells {
		if len(c.free) > c.mustKeep && c.admits(g, isolated) && (len(g.nodes) == 0 || g.nodes.Has(c.node)) {
			cells = append(cells, i)
			room += c.capacity(t.limit(c))
		}
	}
	if g.VCPUs > room {
		return
	}
	for _, i := range cells {
		t.addParts(it, []part{{i, g.VCPUs}}, stores)
	}
	for a, i := range cells {
		for _, j := range cells[a+1:] {
			if t.cells[i].node == t.cells[j].node || may.spread && slices.Contains(t.nearCells(i), j) {
				for n := 1; n < g.VCPUs; n++ {
					t.addParts(it, []part{{i, g.VCPUs - n}, {j, n}}, stores)
				}
			}
		}
	}
	if may.spread {
		for over := 3; over <= min(len(cells), g.VCPUs, maxSpread); over++ {
			for first := range cells[:min(len(cells), maxSpread)] {
				t.addParts(it, t.spreadEvenly(g.VCPUs, cells, first, over), stores)
			}
		}
	}
}

// nearCells returns the other cells that one guest may use with a cell: all of a few, the nearest of many.
func (t *table) nearCells(i int) []int {
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
		t.sortByDistance(others, t.cells[i].node)
		if len(t.cells) > manyCells {
			others = slices.DeleteFunc(others, func(k int) bool { return !t.cells[k].ordinary() })
			others = others[:min(nearest, len(others))]
		}
		t.near[i] = others
	}
	return t.near[i]
}

func (t *table) sortByDistance(cells []int, from int) {
	slices.SortStableFunc(cells, func(a, b int) int {
		return cmp.Compare(t.distance(from, t.cells[a].node), t.distance(from, t.cells[b].node))
	})
}

// vhostCells returns the cells for a guest's vhost threads, sorted: those of its nodes, and those near them.
func (t *table) vhostCells(shares []share) []int {
	var cells []int
	for i, c := range t.cells {
		if slices.ContainsFunc(shares, func(s share) bool { return s.node == c.node }) {
			cells = append(append(cells, i), t.nearCells(i)...)
		}
	}
	slices.Sort(cells)
	return slices.Compact(cells)
}

// spreadEvenly spreads vCPUs over a number of cells, the first and those nearest to it, in proportion to their room.
func (t *table) spreadEvenly(vcpus int, cells []int, first, over int) []part {
	near := slices.Clone(cells)
	t.sortByDistance(near, t.cells[cells[first]].node)
	near = near[:over]
	room := 0
	for _, i := range near {
		room += len(t.cells[i].free) - t.cells[i].mustKeep
	}
	parts := make([]part, over)
	left := vcpus
	for n, i := range near {
		parts[n] = part{i, vcpus * (len(t.cells[i].free) - t.cells[i].mustKeep) / room}
		left -= parts[n].vcpus
	}
	for n := 0; left > 0; n = (n + 1) % over {
		parts[n].vcpus++
		left--
	}
	return slices.DeleteFunc(parts, func(p part) bool { return p.vcpus == 0 })
}

// addParts adds the options with given parts: each with every page size and place of the vhost threads that fits.
func (t *table) addParts(it *item, parts []part, stores []store) {
	shares := t.sharesOf(parts)
	exposed, away := int64(0), int64(0)
	for _, p := range parts {
		exposed += int64(p.vcpus) * t.cells[p.cell].exposure(it.guest, t.hasIsolated())
		away += int64(p.vcpus) * t.awayFrom(it.guest, t.cells[p.cell].node)
	}
	cost := int64(len(shares)-1)*costSpread + costPoint*t.nicPoints(it.guest, it.weight, shares) +
		(costExposed*exposed+costAway*away)/int64(it.guest.VCPUs)
	for _, page := range t.pageSizes(it.guest) {
		o := option{parts: parts, cost: cost, page: page}
		if page == 0 && it.guest.Hugepages {
			o.cost += costPages
		}
		for _, p := range parts {
			o.use = append(o.use, use{p.cell, p.vcpus})
		}
		fits := true
		for _, m := range divideMemory(it.guest.Memory, page, shares) {
			i := slices.IndexFunc(stores, func(s store) bool { return s.node == m.Node && s.page == page })
			switch {
			case i < 0 && page > 0, i >= 0 && !stores[i].unlimited && mebibytes(m.Bytes) > stores[i].room:
				fits = false
			case i >= 0 && !stores[i].unlimited && m.Bytes > 0:
				o.use = append(o.use, use{len(t.cells) + i, mebibytes(m.Bytes)})
			}
		}
		if fits {
			t.addVhostPlaces(it, o, shares)
		}
	}
}

// awayFrom returns 1 if a node is none of those that a guest's memory is bound to, else 0.
func (t *table) awayFrom(g *Guest, node int) int64 {
	return int64(count01(len(g.Home) > 0 && !g.Home.Has(node)))
}

// nicPoints returns the points of the path between a guest's NICs and its vCPUs.
func (t *table) nicPoints(g *Guest, weight int64, shares []share) int64 {
	sum, all := int64(0), int64(0)
	for _, s := range shares {
		all += int64(s.vcpus)
		for _, n := range g.NICs {
			sum += int64(s.vcpus) * int64(max(1, n.Queues)) * t.distance(t.nicNode(n), s.node)
		}
	}
	return pointsNIC * weight * sum / max(all, 1)
}

// vhostPoints returns the points of the path between vhost threads on a node and a guest's vCPUs.
func (t *table) vhostPoints(threads int, weight int64, from int, shares []share) int64 {
	sum, all := int64(0), int64(0)
	for _, s := range shares {
		sum, all = sum+int64(s.vcpus)*t.distance(from, s.node), all+int64(s.vcpus)
	}
	return pointsVhost * weight * int64(threads) * sum / max(all, 1)
}

// merge adds uses to a list, one use for each resource.
func merge(list, more []use) []use {
	all := slices.Clone(list)
	for _, u := range more {
		if same := facts.Find(all, func(o *use) bool { return o.resource == u.resource }); same != nil {
			same.amount += u.amount
			continue
		}
		all = append(all, u)
	}
	return all
}

// nicNode returns the node of the physical NIC behind a guest's data NIC, −1 if it is not known.
func (t *table) nicNode(i Interface) int {
	switch {
	case i.VF:
		return i.Node
	case i.Aside != "":
		return -1
	}
	if n := facts.Find(t.ask.NICs, func(n *NIC) bool { return n.Name == i.NIC }); n != nil {
		return n.Node
	}
	return -1
}
