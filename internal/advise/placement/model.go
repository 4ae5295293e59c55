package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/reach"
	"mpps/internal/model/setting"
)

// table is the host during placement: its cores in cells, and what each CPU runs.
type table struct {
	ask        Ask
	cpus       map[int]CPU
	cores      map[int][]int // core → its CPUs, rising
	cells      []*cell
	vcpuOn     map[int]string // CPU → guest of its vCPU
	vhostOn    map[int]int    // CPU → number of its vhost threads
	frozen     map[string]*Placed
	left       []Left // guests that are left as they are
	isLeft     map[string]bool
	shared     setting.CPUSet // the host's CPUs on cores of which other threads are isolated
	cellOf     map[int]int    // core → its cell
	near       [][]int        // by cell: the nearest others, filled on demand
	daemonCPUs setting.CPUSet // CPUs of daemons
	emulatorOn setting.CPUSet // CPUs that emulator threads are pinned to, apart from all vCPUs
	unseated   setting.CPUSet // CPUs to which vhost and emulator threads of guests without a place yet are pinned
	crowded    setting.CPUSet // the host's CPUs that vhost threads are pinned to
	pointsKept int64          // of a vhost thread on a CPU kept for the host

	onKept          int  // vhost threads that go to CPUs kept for the host
	shortOfSiblings bool // vhost threads found fewer idle siblings than the search counted on
}

// cell is a set of cores that are the same for every guest: on one node, isolated or not, open to the same guests.
type cell struct {
	node     int
	isolated bool
	mixed    bool   // isolated, with others on its cores: threads that are the host's, or unseated ones
	claimed  bool   // isolated soon, for a realtime guest
	allowed  string // the users' sets of allowed CPUs that the cores belong to; "" for most
	within   string // the sets of CPUs of guests' control groups that the cores belong to
	quiet    bool   // isolated now or soon: runs nothing but vCPUs, allowed or not
	threads  int    // CPUs of a core that vCPUs may use: the least of all its cores
	size     int    // cores, including those of guests that stay
	free     []core // unassigned cores, by first CPU
	mustKeep int    // free cores that the host must keep
	wantKept int    // free cores that the host should keep, including mustKeep
	serving  int    // free cores that interrupts of busy NICs and daemons need, if more than wantKept; else 0
}

// core is a core of a cell.
type core struct {
	id    int
	seats []int // CPUs that vCPUs may use, rising
	alike int   // CPU.Alike
	slow  int   // CPU.Slow
}

// ordinary reports whether a cell is neither isolated nor given to certain guests.
func (c *cell) ordinary() bool { return !c.isolated && c.allowed == "" }

// newTable returns the table of an ask, with the guests that stay on their CPUs.
func newTable(ask Ask) *table {
	t := &table{ask: ask, cpus: map[int]CPU{}, cores: map[int][]int{}, vcpuOn: map[int]string{}, vhostOn: map[int]int{},
		frozen: map[string]*Placed{}, isLeft: map[string]bool{}, cellOf: map[int]int{}}
	t.ask.CPUs = slices.Clone(ask.CPUs)
	slices.SortStableFunc(t.ask.CPUs, func(a, b CPU) int { return cmp.Compare(a.ID, b.ID) })
	t.ask.CPUs = slices.CompactFunc(t.ask.CPUs, func(a, b CPU) bool { return a.ID == b.ID })
	names := map[string]bool{} // the first of a name wins
	t.ask.Guests = slices.DeleteFunc(slices.Clone(ask.Guests), func(g Guest) bool {
		again := names[g.Name]
		names[g.Name] = true
		return again
	})
	slices.SortStableFunc(t.ask.Guests, func(a, b Guest) int { // the largest is hardest to place
		return cmp.Or(cmp.Compare(b.VCPUs, a.VCPUs), cmp.Compare(a.Name, b.Name))
	})
	for _, c := range t.ask.CPUs {
		t.cpus[c.ID] = c
		t.cores[c.Core] = append(t.cores[c.Core], c.ID)
	}
	t.freeze()
	t.makeCells()
	t.reserve()
	t.pointsKept = t.keptPoints()
	return t
}

// freeze places the guests that stay: those with a seat in the ask, and those that are pinned well.
func (t *table) freeze() {
	for _, g := range t.ask.Guests {
		if g.Seat != nil {
			seat := *g.Seat
			t.frozen[g.Name] = &seat
			for _, v := range seat.VCPUs {
				t.vcpuOn[v.CPU] = g.Name
			}
			for _, w := range seat.Vhost {
				t.vhostOn[w.CPU]++
			}
		}
	}
	for _, stays := range []bool{true, false} {
		for g := range facts.Each(t.ask.Guests) {
			if g.Seat != nil || stays != (g.Fixed || g.stays != "") {
				continue
			}
			switch {
			case g.left != nil:
				t.left, t.isLeft[g.Name] = append(t.left, *g.left), true
				continue
			case len(g.Declined) > 0 && len(g.Pins) == 0 && !g.Named && !g.isNew && !g.free:
				t.leave(g, "")
				continue
			}
			if p := t.keep(g); p != nil {
				t.frozen[g.Name] = p
			} else if g.stays != "" {
				t.leave(g, g.stays)
			}
		}
	}
	for g := range facts.Each(t.ask.Guests) {
		if p := t.frozen[g.Name]; p != nil && g.Seat == nil {
			t.keepThreads(p, g)
		}
		if g.refused {
			for v, set := range g.masks() {
				if len(set) == 1 && v < g.VCPUs {
					t.vcpuOn[set[0]] = g.Name
				}
			}
		}
		p := t.frozen[g.Name]
		if p == nil && !g.Fixed {
			t.unseated = t.unseated.Or(g.Emulator).Or(vhostPins(g))
		}
		if (g.threadsStay || g.refused || g.Fixed) && g.Seat == nil && (p == nil || len(p.Vhost) == 0) {
			for _, w := range g.Workers {
				if len(w.CPUs) == 1 {
					t.vhostOn[w.CPUs[0]]++
				}
			}
		}
	}
	for g := range facts.Each(t.ask.Guests) {
		if p := t.frozen[g.Name]; p != nil || g.Fixed {
			t.unseated = t.unseated.Minus(g.Emulator.Or(vhostPins(g)))
		}
	}
}

// sharing returns a guest as one that shares CPUs.
func (t *table) sharing(g *Guest) Left {
	l := Left{Guest: g.Name, Why: "it shares CPUs with others, and too few that are not isolated are free for all of " +
		"them: --guest " + g.Name + " gives it dedicated CPUs, isolated ones first"}
	if !g.isNew {
		for _, set := range t.foundStanding(g, t.anywhere()).vcpus {
			l.CPUs = l.CPUs.Or(set)
		}
	}
	return l
}

// leave leaves a guest as it is, because a rule would become worse, or if none is given, because it shares CPUs.
func (t *table) leave(g *Guest, rule Rule) {
	l := t.sharing(g)
	switch {
	case len(g.Declined) > 0:
		l.Paths, l.Why = g.Declined, fmt.Sprintf("mpps has no rules for how its packets reach the wire (%s), and so "+
			"none for the CPUs that it should have: --guest %s places it all the same", reach.Words(g.Declined), g.Name)
	case rule == "":
	case rule == nothingMended:
		l.Why = "no other place is better than where it may run today"
	default:
		l.Rule, l.Why = rule, "another place would make this rule worse: "+ruleWords[rule]
	}
	t.left, t.isLeft[g.Name] = append(t.left, l), true
}

// nodeIndex returns a node's index in the kernel's order; nodes that are not listed come last.
func (t *table) nodeIndex(id int) int {
	if i := slices.IndexFunc(t.ask.Nodes, func(n Node) bool { return n.ID == id }); i >= 0 {
		return i
	}
	return len(t.ask.Nodes) + id
}

// reserve sets how many cores of each cell the host keeps: on each node one core, two on a node of eight or more cores
// without SMT, as many as the interrupts of its busy NICs need, or what the user wants, and the daemons' cores on top.
// The user's and the daemons' cores are never given away, nor is the host's last core.
func (t *table) reserve() {
	for _, node := range t.nodesWithCPUs() {
		want, must := t.hostCores(node)
		if c := t.hostCell(node, want); c != nil {
			c.wantKept, c.mustKeep = min(want, len(c.free)), min(must, len(c.free))
			c.serving = min(t.servingCores(node), len(c.free))
		}
	}
	var pinned setting.CPUSet
	if t.hasIsolated() { // where emulator threads of several guests are pinned is the host's part of the CPUs
		pinned = t.sharedBy(func(g *Guest) setting.CPUSet { return g.Emulator.And(t.emulatorOn) })
	}
	for _, c := range t.cells { // vhost threads of guests that stay run on some, and some only the host can have
		busy := 0
		for _, core := range c.free {
			if !c.isolated && slices.ContainsFunc(t.cores[core.id],
				func(cpu int) bool { return t.vhostOn[cpu] > 0 || pinned.Has(cpu) || t.ask.Host.Has(cpu) }) {
				busy++
			}
		}
		c.mustKeep, c.wantKept = max(c.mustKeep, busy), max(c.wantKept, busy)
		if c.serving <= c.wantKept {
			c.serving = 0
		}
	}
	for _, node := range t.nodesWithCPUs() {
		for _, c := range t.cells {
			if c.node == node && c.wantKept > 0 {
				c.mustKeep = max(c.mustKeep, 1)
				return
			}
		}
	}
}

// hostCores returns how many cores of a node the host should keep, and how many of them no guest ever gets.
func (t *table) hostCores(node int) (want, must int) {
	cores, threads := t.coresOf(node)
	want = 1
	if cores >= 8 && threads == 1 {
		want = 2
	}
	for _, r := range t.ask.Reserves {
		if r.Node == node && r.CPUs > 0 {
			want = (r.CPUs + threads - 1) / threads
			must = want
		}
	}
	for _, d := range t.ask.Daemons {
		if d.Node == node {
			n := (d.CPUs + threads - 1) / threads
			want, must = want+n, must+n
		}
	}
	return want, must
}

// frozenCores returns how many cores of a node belong to guests that stay.
func (t *table) frozenCores(node int) int {
	var cpus setting.CPUSet
	for _, p := range t.frozen {
		cpus = cpus.Or(p.VCPUSet())
	}
	return t.coresIn(cpus.And(t.cpusOf(setting.CPUs(node))))
}

// hostCell returns the cell of a node in which the host keeps its cores: the one where it has them already, or else the
// one with the node's first core, unless guests need all its cores that the user allowed them. nil if there is none.
func (t *table) hostCell(node, want int) *cell {
	var first, ordinary, any *cell
	for _, c := range t.cells {
		if c.node != node || c.quiet || len(c.free) == 0 {
			continue
		}
		if t.keepRank(c.free[0]) > 0 {
			return c
		}
		any = cmp.Or(any, c)
		if c.ordinary() {
			ordinary = cmp.Or(ordinary, c)
		}
		needed := 0
		for _, g := range t.ask.Guests {
			if len(g.Allowed) > 0 && t.frozen[g.Name] == nil && c.admits(&g, false) {
				needed += g.VCPUs
			}
		}
		if len(c.free)-needed >= want && (first == nil || c.free[0].id < first.free[0].id) {
			first = c
		}
	}
	return cmp.Or(first, ordinary, any)
}

// reaches reports whether a guest's control groups let its threads use a cell.
func (c *cell) reaches(g *Guest) bool {
	return len(g.Confined) == 0 || slices.Contains(strings.Split(c.within, ";"), g.Confined.String())
}

// admits reports whether a guest's vCPUs may use a cell. isolated says whether the host has isolated CPUs.
func (c *cell) admits(g *Guest, isolated bool) bool {
	switch {
	case !c.reaches(g):
		return false
	case len(g.Allowed) > 0:
		return slices.Contains(strings.Split(c.allowed, ";"), g.Allowed.String())
	case c.allowed != "":
		return false
	case g.Realtime:
		return c.isolated == isolated
	}
	return !c.isolated || !g.Shared && !c.claimed
}

// exposure returns how near other work comes to a guest's vCPU in a cell: 0 on an isolated core, or where no CPU is
// isolated, 1 on an ordinary one, 2 on the isolated thread of a core of the host.
func (c *cell) exposure(g *Guest, isolated bool) int64 {
	switch {
	case !isolated || len(g.Allowed) > 0 || g.Shared:
		return 0
	case c.mixed:
		return 2
	case !c.isolated:
		return 1
	}
	return 0
}

// hasIsolated reports whether CPUs are isolated that guests can have: not those of poll-mode threads.
func (t *table) hasIsolated() bool {
	return slices.ContainsFunc(t.ask.CPUs, func(c CPU) bool { return c.Isolated && !t.ask.Taken.Has(c.ID) })
}

// nodesWithCPUs returns the nodes that have CPUs, in the kernel's order.
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

// coresOf returns how many cores a node has, and how many threads its first one has, at least 1.
func (t *table) coresOf(node int) (cores, threads int) {
	cpus := t.cpusOf(setting.CPUs(node))
	if len(cpus) == 0 {
		return 0, 1
	}
	return t.coresIn(cpus), len(t.cores[t.cpus[cpus[0]].Core])
}

// coresIn returns how many cores some CPUs belong to.
func (t *table) coresIn(cpus setting.CPUSet) int {
	cores := map[int]bool{}
	for _, cpu := range cpus {
		cores[t.cpus[cpu].Core] = true
	}
	return len(cores)
}

// cpusOf returns the CPUs of some nodes.
func (t *table) cpusOf(nodes setting.CPUSet) setting.CPUSet {
	var cpus []int
	for _, c := range t.ask.CPUs {
		if nodes.Has(c.Node) {
			cpus = append(cpus, c.ID)
		}
	}
	return setting.CPUs(cpus...)
}

// nodesOf returns the nodes of those CPUs that are online.
func (t *table) nodesOf(cpus setting.CPUSet) setting.CPUSet {
	var nodes []int
	for _, cpu := range cpus {
		if c, online := t.cpus[cpu]; online {
			nodes = append(nodes, c.Node)
		}
	}
	return setting.CPUs(nodes...)
}

// distance returns by how much the distance between two nodes exceeds that within one: 0 to 100, 0 if either is not
// known.
func (t *table) distance(a, b int) int64 {
	if a == b || a < 0 || b < 0 {
		return 0
	}
	d := remoteDistance
	if n := facts.Find(t.ask.Nodes, func(n *Node) bool { return n.ID == a }); n != nil && n.Distances[b] > 0 {
		d = n.Distances[b]
	}
	return int64(min(max(d-10, 0), 100))
}

// share is the vCPUs that a guest has on one node.
type share struct{ node, vcpus int }

// shares returns how many vCPUs of a placed guest are on each of some nodes.
func (t *table) shares(p *Placed, nodes []int) []share {
	all := make([]share, len(nodes))
	for i, node := range nodes {
		all[i].node = node
		for _, v := range p.VCPUs {
			if c, online := t.cpus[v.CPU]; online && c.Node == node {
				all[i].vcpus++
			}
		}
	}
	return all
}

// sharesOf returns the vCPUs of some parts by node, in the parts' order.
func (t *table) sharesOf(parts []part) []share {
	var all []share
	for _, p := range parts {
		node := t.cells[p.cell].node
		s := facts.Find(all, func(s *share) bool { return s.node == node })
		if s == nil {
			all = append(all, share{node, p.vcpus})
			continue
		}
		s.vcpus += p.vcpus
	}
	return all
}
