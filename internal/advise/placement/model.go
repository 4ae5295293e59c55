package placement

import (
	"cmp"
	"slices"
	"strings"

	"mpps/internal/model/setting"
)

// table is the host while guests are seated: its cores in cells, and who has what.
type table struct {
	ask    Ask
	cpus   map[int]CPU
	cores  map[int][]int // core → its CPUs, rising
	cells  []cell
	taken  map[int]string // CPU → guest whose vCPU has it
	worked map[int]int    // CPU → vhost threads that have it
	frozen map[string]*Placed
	cellOf map[int]int    // core → its cell
	near   [][]int        // by cell: the nearest others, once somebody asked
	housed setting.CPUSet // CPUs of daemons

	fellBack bool // vhost threads found fewer idle sibling threads than the search counted on
}

// cell is cores that are the same for every guest: of one node, isolated or not, given by the user to the same guests.
type cell struct {
	node     int
	isolated bool
	given    string // the sets of CPUs that the user gave away which they belong to; "" for most
	quiet    bool   // isolated, or to be: nothing but vCPUs sits here, given or not
	threads  int    // CPUs of a core that vCPUs may have: the least of all its cores
	size     int    // cores, those of guests that stay where they are included
	free     []core // cores that nobody has, by first CPU
	hard     int    // free cores that must be kept for the host
	want     int    // free cores that should be, hard ones included
}

// core is a core of a cell.
type core struct {
	id    int
	seats []int // CPUs that vCPUs may have, rising
	l3    int
}

func (c *cell) main() bool { return !c.isolated && c.given == "" }

// lay makes the table of an ask, with the guests that stay where they are in their seats.
func lay(ask Ask) *table {
	t := &table{ask: ask, cpus: map[int]CPU{}, cores: map[int][]int{}, taken: map[int]string{}, worked: map[int]int{},
		frozen: map[string]*Placed{}, cellOf: map[int]int{}}
	t.ask.CPUs = slices.Clone(ask.CPUs)
	slices.SortStableFunc(t.ask.CPUs, func(a, b CPU) int { return cmp.Compare(a.ID, b.ID) })
	t.ask.CPUs = slices.CompactFunc(t.ask.CPUs, func(a, b CPU) bool { return a.ID == b.ID })
	names := map[string]bool{} // the first of a name wins
	t.ask.Guests = slices.DeleteFunc(slices.Clone(ask.Guests), func(g Guest) bool {
		again := names[g.Name]
		names[g.Name] = true
		return again
	})
	slices.SortStableFunc(t.ask.Guests, func(a, b Guest) int { // the largest finds a place most hardly
		return cmp.Or(cmp.Compare(b.VCPUs, a.VCPUs), cmp.Compare(a.Name, b.Name))
	})
	for _, c := range t.ask.CPUs {
		t.cpus[c.ID] = c
		t.cores[c.Core] = append(t.cores[c.Core], c.ID)
	}
	t.freeze()
	t.divide()
	t.reserve()
	return t
}

// freeze seats the guests that stay: those that the ask says, and those that are pinned well.
func (t *table) freeze() {
	for i := range t.ask.Guests {
		g := &t.ask.Guests[i]
		if g.Seat != nil {
			seat := *g.Seat
			t.frozen[g.Name] = &seat
			for _, v := range seat.VCPUs {
				t.taken[v.CPU] = g.Name
			}
			for _, w := range seat.Vhost {
				t.worked[w.CPU]++
			}
		}
	}
	for _, fixed := range []bool{true, false} {
		for i := range t.ask.Guests {
			if g := &t.ask.Guests[i]; g.Seat == nil && g.Fixed == fixed {
				if p := t.keep(g); p != nil {
					t.frozen[g.Name] = p
				}
			}
		}
	}
}

// divide sorts the cores into cells and leaves out those that a seated guest has.
func (t *table) divide() {
	type key struct {
		node     int
		isolated bool
		given    string
		quiet    bool
	}
	var sets []setting.CPUSet
	for _, g := range t.ask.Guests {
		if len(g.Allowed) > 0 && !slices.ContainsFunc(sets, g.Allowed.Equal) {
			sets = append(sets, g.Allowed)
		}
	}
	at := map[key]int{}
	seen := map[int]bool{}
	for _, c := range t.ask.CPUs {
		if seen[c.Core] {
			continue
		}
		seen[c.Core] = true
		k, all := key{node: c.Node}, setting.CPUSet(t.cores[c.Core])
		seats := all
		for _, set := range sets {
			if len(all.And(set)) > 0 {
				k.given += set.String() + ";"
				seats = seats.And(set)
			}
		}
		aside := slices.DeleteFunc(slices.Clone(all), func(cpu int) bool { return !t.ask.aside(t.cpus[cpu]) })
		if k.quiet = len(aside) > 0; k.quiet && k.given == "" {
			k.isolated, seats = true, aside
		}
		if len(seats) == 0 { // given to two guests, thread by thread
			continue
		}
		i, known := at[k]
		if !known {
			i = len(t.cells)
			at[k] = i
			t.cells = append(t.cells, cell{node: k.node, isolated: k.isolated, given: k.given, quiet: k.quiet,
				threads: len(seats)})
		}
		cell := &t.cells[i]
		cell.size++
		t.cellOf[c.Core] = i
		if !slices.ContainsFunc(all, func(cpu int) bool {
			return t.taken[cpu] != "" || t.worked[cpu] > 0 &&
				!t.ask.Kept.Has(cpu)
		}) {
			cell.free = append(cell.free, core{id: c.Core, seats: seats, l3: c.L3})
			cell.threads = min(cell.threads, len(seats))
		}
	}
	for i := range t.cells {
		slices.SortStableFunc(t.cells[i].free, func(a, b core) int { return t.keeps(b) - t.keeps(a) })
	}
}

// keeps orders cores: first those that the host keeps already and has work on, then the others that it keeps.
func (t *table) keeps(c core) int {
	rank := 0
	for _, cpu := range t.cores[c.id] {
		if t.ask.Kept.Has(cpu) {
			rank = max(rank, 1)
			if t.worked[cpu] > 0 {
				rank = 2
			}
		}
	}
	return rank
}

// nodeIndex is where a node stands in the kernel's order; nodes that are not listed stand last.
func (t *table) nodeIndex(id int) int {
	if i := slices.IndexFunc(t.ask.Nodes, func(n Node) bool { return n.ID == id }); i >= 0 {
		return i
	}
	return len(t.ask.Nodes) + id
}

// reserve says how many cores of each cell the host keeps: on each node one core of a small node or of one with
// threads, two cores of a node of eight or more without, or what the user wants; daemons get theirs on top, and these
// are never given away. Nor is the last core of the host.
func (t *table) reserve() {
	for _, node := range t.nodesWithCPUs() {
		want, hard := t.hostCores(node)
		if c := t.hostCell(node, want); c != nil {
			c.want, c.hard = min(want, len(c.free)), min(hard, len(c.free))
		}
	}
	for i := range t.cells { // vhost threads of guests that stay are on some
		c := &t.cells[i]
		busy := 0
		for _, core := range c.free {
			if slices.ContainsFunc(t.cores[core.id], func(cpu int) bool { return t.worked[cpu] > 0 }) {
				busy++
			}
		}
		c.hard = max(c.hard, busy)
		c.want = max(c.want, busy)
	}
	for _, node := range t.nodesWithCPUs() {
		for i := range t.cells {
			if c := &t.cells[i]; c.node == node && c.want > 0 {
				c.hard = max(c.hard, 1)
				return
			}
		}
	}
}

// hostCores is how many cores of a node the host should keep, and how many of them are never given away.
func (t *table) hostCores(node int) (want, hard int) {
	cores, threads := t.coresOf(node)
	want = 1
	if cores >= 8 && threads == 1 {
		want = 2
	}
	for _, r := range t.ask.Reserves {
		if r.Node == node && r.CPUs > 0 {
			want = (r.CPUs + threads - 1) / threads
			hard = want
		}
	}
	for _, d := range t.ask.Daemons {
		if d.Node == node {
			want, hard = want+(d.CPUs+threads-1)/threads, hard+(d.CPUs+threads-1)/threads
		}
	}
	return want, hard
}

// staying is how many cores of a node guests have that stay where they are.
func (t *table) staying(node int) int {
	cores := map[int]bool{}
	for _, p := range t.frozen {
		for _, v := range p.VCPUs {
			if c := t.cpus[v.CPU]; c.Node == node {
				cores[c.Core] = true
			}
		}
	}
	return len(cores)
}

// hostCell is the cell of a node in which the host keeps its cores: the one with the node's first core, unless guests
// need all that the user gave them of it.
func (t *table) hostCell(node, want int) *cell {
	var first *cell
	for i := range t.cells {
		c := &t.cells[i]
		if c.node != node || c.quiet || len(c.free) == 0 {
			continue
		}
		needed := 0
		for _, g := range t.ask.Guests {
			if len(g.Allowed) > 0 && t.frozen[g.Name] == nil && c.takes(&g, false) {
				needed += g.VCPUs
			}
		}
		if len(c.free)-needed >= want && (first == nil || c.free[0].id < first.free[0].id) {
			first = c
		}
	}
	if first == nil {
		if i := slices.IndexFunc(t.cells, func(c cell) bool {
			return c.node == node && c.main() &&
				len(c.free) > 0
		}); i >= 0 {
			first = &t.cells[i]
		}
	}
	if first == nil {
		if i := slices.IndexFunc(t.cells, func(c cell) bool {
			return c.node == node && !c.quiet &&
				len(c.free) > 0
		}); i >= 0 {
			first = &t.cells[i]
		}
	}
	return first
}

// takes reports whether a guest's vCPUs may sit in a cell. isolated reports whether the host has isolated CPUs.
func (c *cell) takes(g *Guest, isolated bool) bool {
	if len(g.Allowed) > 0 {
		return slices.Contains(strings.Split(c.given, ";"), g.Allowed.String())
	}
	return c.given == "" && c.isolated == (g.Realtime && isolated)
}

func (t *table) hasIsolated() bool {
	return slices.ContainsFunc(t.ask.CPUs, func(c CPU) bool { return c.Isolated })
}

func (t *table) nodesWithCPUs() []int {
	var nodes []int
	for _, c := range t.ask.CPUs {
		if !slices.Contains(nodes, c.Node) {
			nodes = append(nodes, c.Node)
		}
	}
	slices.SortFunc(nodes, func(a, b int) int { return cmp.Compare(t.nodeIndex(a), t.nodeIndex(b)) })
	return nodes
}

// coresOf is how many cores a node has and how many threads its first one.
func (t *table) coresOf(node int) (cores, threads int) {
	seen := map[int]bool{}
	for _, c := range t.ask.CPUs {
		if c.Node == node && !seen[c.Core] {
			seen[c.Core] = true
			if cores++; threads == 0 {
				threads = len(t.cores[c.Core])
			}
		}
	}
	return cores, max(threads, 1)
}

// apart is by how much the way between two nodes is longer than within one: 0 to 100, 0 where either is not known.
func (t *table) apart(a, b int) int64 {
	if a == b || a < 0 || b < 0 {
		return 0
	}
	for _, n := range t.ask.Nodes {
		if n.ID != a {
			continue
		}
		d := n.Distances[b]
		if d <= 0 {
			d = remoteDistance
		}
		return int64(min(max(d-10, 0), 100))
	}
	return remoteDistance - 10
}
