package placement

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/setting"
)

// fewRefused is up to how many refused guests a relaxation is searched for each.
const fewRefused = 3

// explainRefusals says of each refused guest what is short, and which is the smallest thing that would make it fit:
// found by placing everybody again with it.
func (r *Result) explainRefusals(ask Ask) {
	slices.SortFunc(r.Refused, func(a, b Refusal) int { return strings.Compare(a.Guest, b.Guest) })
	if len(r.Refused) == 0 {
		return
	}
	left := leftBeside(ask, r)
	for i := range r.Refused {
		f := &r.Refused[i]
		g := *lookUp(ask, f.Guest)
		var memory bool
		f.Shortage, memory = left.shortage(&g)
		if len(r.Refused) > fewRefused {
			demand, room := left.all, left.room
			f.Relax = fmt.Sprintf("%d guests find no place: all together have %d vCPUs, and the host has CPUs for %d",
				len(r.Refused), demand, room)
			continue
		}
		f.Relax = relaxation(ask, r, &g, memory)
	}
}

func lookUp(ask Ask, name string) *Guest {
	for i := range ask.Guests {
		if ask.Guests[i].Name == name {
			return &ask.Guests[i]
		}
	}
	return &Guest{}
}

// remains is what placed guests leave.
type remains struct {
	*table
	stores    []store
	all, room int // vCPUs of all guests, and CPUs for them
}

func leftBeside(ask Ask, r *Result) remains {
	full := lay(ask)
	beside := seated(ask, r, nil)
	for i := range beside.Guests {
		if g := &beside.Guests[i]; g.Seat != nil && ask.Guests[i].Seat == nil {
			g.Seat.Vhost = nil // its threads would make room
		}
	}
	rest := remains{table: lay(beside)}
	rest.stores = rest.table.stores()
	for i := range ask.Guests {
		rest.all += ask.Guests[i].VCPUs
	}
	for i := range full.cells {
		rest.room += full.cells[i].seats(full.limit(&full.cells[i]))
	}
	for _, p := range full.frozen {
		rest.room += len(p.VCPUs)
	}
	return rest
}

// seated is an ask in which every placed guest but some stays where a result has it.
func seated(ask Ask, r *Result, but []string) Ask {
	ask.Guests = slices.Clone(ask.Guests)
	ask.Kept = r.Housekeeping
	for i := range ask.Guests {
		if p := r.Guest(ask.Guests[i].Name); p != nil && !slices.Contains(but, p.Name) {
			seat := *p
			seat.Kept = true
			ask.Guests[i].Seat = &seat
		}
	}
	return ask
}

// shortage says what a guest lacks, and whether that is memory.
func (t remains) shortage(g *Guest) (text string, memory bool) {
	var cpus, most, isolated int
	var free setting.CPUSet
	for i := range t.cells {
		c := &t.cells[i]
		if !c.takes(g, t.hasIsolated()) {
			continue
		}
		room := t.limit(c)
		if !t.ask.Strict {
			room = c.seats(room)
		}
		cpus, most = cpus+room, max(most, room)
		for _, core := range c.free {
			free = free.Or(core.seats)
		}
		if c.isolated {
			isolated += room
		}
	}
	switch {
	case len(g.Allowed) > 0 && cpus < g.VCPUs:
		return fmt.Sprintf("needs %d CPUs of its own, and of those given to it (%s) %d are free", g.VCPUs, g.Allowed,
			cpus), false
	case g.Realtime && t.hasIsolated() && cpus < g.VCPUs:
		return fmt.Sprintf("needs %d isolated CPUs, and %d are isolated and free (%s)", g.VCPUs, isolated, free), false
	case cpus < g.VCPUs:
		hard := 0
		for i := range t.cells {
			hard += t.cells[i].hard
		}
		return fmt.Sprintf("needs %d CPUs of its own, and %d are left (%d online, %s kept for the host, the others "+
			"belong to other guests)", g.VCPUs, cpus, len(t.ask.CPUs), many(hard, "core")), false
	}
	var rooms []string
	whole, largest := 0, 0
	for _, s := range t.stores {
		if s.page == 0 {
			rooms = append(rooms, fmt.Sprintf("node %d has %.1f GiB", s.node, float64(s.room)/1024))
			whole, largest = whole+s.room, max(largest, s.room)
		}
	}
	if need := units(g.Memory); need > largest {
		pinned := ""
		if g.Passthrough {
			pinned = ", all of it pinned when it starts because a device is passed through"
		}
		return fmt.Sprintf("needs %.1f GiB of memory%s, and beside other guests and the host's own %s free",
			float64(need)/1024, pinned, strings.Join(rooms, ", ")), true
	}
	return fmt.Sprintf("needs %d CPUs and %.1f GiB together on one node, and no node has both free (at most %d CPUs; "+
		"%s)", g.VCPUs, float64(units(g.Memory))/1024, most, strings.Join(rooms, ", ")), false
}

// relaxation is the smallest thing that makes a refused guest fit: a rule that gives way, one guest that moves, a few
// CPUs to isolate, fewer vCPUs or less memory. Each was tried.
func relaxation(ask Ask, r *Result, g *Guest, memory bool) string {
	fits := func(change func(a *Ask, g *Guest)) *Result {
		try := ask
		try.content = true
		try.Guests = slices.Clone(ask.Guests)
		change(&try, lookUp(try, g.Name))
		with := place(try)
		if with.Refusal(g.Name) != nil ||
			slices.ContainsFunc(r.Guests, func(p Placed) bool { return with.Guest(p.Name) == nil }) {
			return nil
		}
		return with
	}
	var ways []string
	if ask.Strict {
		if with := fits(func(a *Ask, _ *Guest) { a.Strict = false }); with != nil {
			return "let a rule give way: " + strings.Join(with.Relaxed, "; ")
		}
	}
	if way := moving(ask, r, fits); way != "" {
		ways = append(ways, way)
	}
	if g.Realtime && len(g.Allowed) == 0 {
		for n := 1; n <= g.VCPUs; n++ {
			if more := isolate(ask, r, n); len(more) == n &&
				fits(func(a *Ask, _ *Guest) { a.CPUs = marked(a.CPUs, more) }) != nil {
				ways = append(ways, fmt.Sprintf("isolate %s more (%s)", many(n, "CPU"), more))
				break
			}
		}
	}
	if !memory {
		if n := largest(1, g.VCPUs-1, func(n int) bool {
			return fits(func(_ *Ask, g *Guest) { g.VCPUs, g.Pins, g.Seat = n, nil, nil }) != nil
		}); n > 0 {
			ways = append(ways, fmt.Sprintf("give it %s", many(n, "vCPU")))
		}
	}
	if gib := int(g.Memory >> 30); memory || len(ways) == 0 {
		if n := largest(1, gib, func(n int) bool {
			return uint64(n)<<30 < g.Memory && fits(func(_ *Ask, g *Guest) { g.Memory = uint64(n) << 30 }) != nil
		}); n > 0 {
			ways = append(ways, fmt.Sprintf("give it %d GiB of memory", n))
		}
	}
	if len(ways) == 0 {
		return "nothing small: leave it out, or move it to another host"
	}
	return strings.Join(ways, ", or ")
}

// moving looks for guests that stay only because nobody said that they may move: for the smallest one that makes room,
// or all of them.
func moving(ask Ask, r *Result, fits func(func(*Ask, *Guest)) *Result) string {
	var movable []string
	for _, g := range ask.Guests { // from the smallest
		if p := r.Guest(g.Name); p != nil && p.Kept && !g.Fixed {
			movable = append(movable, g.Name)
		}
	}
	slices.SortStableFunc(movable, func(a, b string) int { return lookUp(ask, a).VCPUs - lookUp(ask, b).VCPUs })
	free := func(names []string) func(*Ask, *Guest) {
		return func(a *Ask, _ *Guest) {
			for i := range a.Guests {
				if g := &a.Guests[i]; slices.Contains(names, g.Name) {
					g.Seat, g.Pins = nil, nil
				}
			}
		}
	}
	for _, name := range movable {
		if with := fits(free([]string{name})); with != nil {
			return fmt.Sprintf("move %s (--move %s) to CPUs %s", name, name, with.Guest(name).VCPUSet())
		}
	}
	if len(movable) > 1 {
		if with := fits(free(movable)); with != nil {
			var moved []string
			for _, name := range movable {
				if !with.Guest(name).VCPUSet().Equal(r.Guest(name).VCPUSet()) {
					moved = append(moved, name)
				}
			}
			return fmt.Sprintf("move %s (--move %s)", strings.Join(moved, ", "), strings.Join(moved, ","))
		}
	}
	return ""
}

// isolate picks n CPUs to isolate: of cores that nobody has, on the node that has isolated ones already.
func isolate(ask Ask, r *Result, n int) setting.CPUSet {
	t := lay(seated(ask, r, nil))
	homes := map[int]int{}
	for _, c := range t.ask.CPUs {
		if c.Isolated {
			homes[c.Node]++
		}
	}
	var picked []int
	cells := slices.Clone(t.cells)
	slices.SortStableFunc(cells, func(a, b cell) int { return homes[b.node] - homes[a.node] })
	for _, c := range cells {
		if !c.main() {
			continue
		}
		for _, core := range c.free[min(c.want, len(c.free)):] {
			if len(picked) < n {
				picked = append(picked, core.seats[0])
			}
		}
	}
	return setting.CPUs(picked...)
}

func marked(cpus []CPU, isolated setting.CPUSet) []CPU {
	cpus = slices.Clone(cpus)
	for i := range cpus {
		cpus[i].Isolated = cpus[i].Isolated || isolated.Has(cpus[i].ID)
	}
	return cpus
}

// largest is the largest number of a range that will do, 0 where none does: what fits once fits when it is smaller.
func largest(low, high int, does func(int) bool) int {
	if high < low || !does(low) {
		return 0
	}
	for low < high {
		if middle := (low + high + 1) / 2; does(middle) {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low
}
