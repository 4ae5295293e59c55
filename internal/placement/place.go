package placement

import (
	"cmp"
	"fmt"
	"slices"

	"mpps/internal/setting"
)

// Place finds a place for every guest of the ask. It tries with cores kept on every node first, and where a guest then
// finds none or must be torn over nodes or cores, with a single core kept on the whole host.
func Place(ask Ask) *Result {
	full := attempt(ask, false)
	if full.cost() == 0 {
		return full.finish()
	}
	least := attempt(ask, true)
	if least.cost() < full.cost() {
		if len(full.kept) > len(least.kept) {
			least.relax("only CPU %s is kept for the host instead of a core on every node, because its guests would not fit otherwise", least.kept)
		}
		return least.finish()
	}
	return full.finish()
}

// table is the seating plan while it is made.
type table struct {
	ask     Ask
	cpus    map[int]CPU
	cores   map[int][]int  // core → its CPUs
	nodes   map[int][]int  // node → its cores in the order of their first CPU
	kept    setting.CPUSet // for the host and its daemons
	given   setting.CPUSet // by the user, to guests by name
	taken   map[int]string // CPU → guest whose vCPU has it
	torn    int            // guests over several nodes
	shared  int            // guests with two vCPUs on one core
	relaxed []string
	result  *Result
}

func (t *table) relax(format string, a ...any) {
	t.relaxed = append(t.relaxed, fmt.Sprintf(format, a...))
}

// cost orders attempts: refusals weigh most, then shared cores, then torn guests.
func (t *table) cost() int { return len(t.result.Refused)*10000 + t.shared*100 + t.torn }

func (t *table) finish() *Result {
	t.placeThreads()
	t.placeInterrupts()
	t.result.Housekeeping = t.kept
	t.result.Relaxed = t.relaxed
	return t.result
}

func attempt(ask Ask, leastReserve bool) *table {
	t := &table{ask: ask, cpus: map[int]CPU{}, cores: map[int][]int{}, nodes: map[int][]int{}, taken: map[int]string{}, result: &Result{}}
	slices.SortFunc(ask.CPUs, func(a, b CPU) int { return cmp.Compare(a.ID, b.ID) })
	for _, c := range ask.CPUs {
		t.cpus[c.ID] = c
		if t.cores[c.Core] == nil {
			t.nodes[c.Node] = append(t.nodes[c.Node], c.Core)
		}
		t.cores[c.Core] = append(t.cores[c.Core], c.ID)
	}
	t.reserve(leastReserve)
	for _, g := range ask.Guests {
		if left := t.kept.Minus(g.Allowed); len(left) > 0 { // what the user gives away is not the host's, but for the last CPU
			t.kept = left
		}
		t.given = t.given.Or(g.Allowed)
	}

	guests := slices.Clone(ask.Guests)
	slices.SortStableFunc(guests, func(a, b Guest) int { // the largest finds a place most hardly
		return cmp.Or(cmp.Compare(b.VCPUs, a.VCPUs), cmp.Compare(a.Name, b.Name))
	})
	var loose []Guest
	for _, g := range guests {
		if !t.keep(g) {
			loose = append(loose, g)
		}
	}
	for _, g := range loose {
		t.seat(g)
	}
	slices.SortFunc(t.result.Guests, func(a, b Placed) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(t.result.Refused, func(a, b Refusal) int { return cmp.Compare(a.Guest, b.Guest) })
	return t
}

// reserve keeps CPUs for the host: on each node one core of a small node or of one with threads, two cores of a node of
// eight or more without; or, as the least, one core of the whole host. Daemons get theirs on top.
func (t *table) reserve(least bool) {
	var kept []int
	for i, n := range t.ask.Nodes {
		cores := t.nodes[n.ID]
		want := 1
		if len(cores) >= 8 && len(t.cores[cores[0]]) == 1 {
			want = 2
		}
		if least {
			want = 0
			if i == 0 {
				want = 1
			}
		}
		for _, d := range t.ask.Daemons {
			if d.Node == n.ID {
				threads := 1
				if len(cores) > 0 {
					threads = len(t.cores[cores[0]])
				}
				want += (d.CPUs + threads - 1) / threads
			}
		}
		for _, core := range cores[:min(want, len(cores))] {
			kept = append(kept, t.cores[core]...)
		}
	}
	t.kept = setting.CPUs(kept...)
}
