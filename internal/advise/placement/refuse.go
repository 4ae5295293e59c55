package placement

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// maxRelaxed is the number of refused guests up to which a relaxation is searched for each.
const maxRelaxed = 3

// explainRefusals sets what each refused guest lacks, and the smallest change that makes it fit, found by placing
// everything again with that change.
func (r *Result) explainRefusals(ask Ask) {
	if len(r.Refused) == 0 {
		return
	}
	slices.SortFunc(r.Refused, func(a, b Refusal) int { return strings.Compare(a.Guest, b.Guest) })
	left := remainsOf(ask, r)
	for f := range facts.Each(r.Refused) {
		g := *ask.guestNamed(f.Guest)
		var memory bool
		f.Room, f.Shortage, memory = left.shortage(&g)
		if len(r.Refused) > maxRelaxed {
			f.Relax = fmt.Sprintf("%d guests find no place: all together have %d vCPUs, and the host has CPUs for %d",
				len(r.Refused), left.all, left.room)
			continue
		}
		f.Relax = relaxation(ask, r, &g, memory)
	}
}

// remains is what placed guests leave.
type remains struct {
	*table
	stores    []store
	all, room int // vCPUs of all guests, and CPUs for them
}

func remainsOf(ask Ask, r *Result) remains {
	full := newTable(ask)
	rest := withSeats(ask, r, nil)
	for i, g := range rest.Guests {
		if g.Seat != nil && ask.Guests[i].Seat == nil {
			g.Seat.Vhost = nil // its threads would make room
		}
	}
	left := remains{table: newTable(rest)}
	left.stores = left.table.stores()
	for _, g := range ask.Guests {
		left.all += g.VCPUs
	}
	for _, c := range full.cells {
		left.room += c.capacity(full.limit(c))
	}
	for _, p := range full.frozen {
		left.room += len(p.VCPUs)
	}
	return left
}

// withSeats returns the ask with every placed guest staying where the result has it, except those that may move.
func withSeats(ask Ask, r *Result, move []string) Ask {
	ask.Guests = slices.Clone(ask.Guests)
	ask.Kept = r.Housekeeping
	for g := range facts.Each(ask.Guests) {
		if p := r.Guest(g.Name); p != nil && !slices.Contains(move, p.Name) {
			seat := *p
			seat.Kept = true
			g.Seat = &seat
		}
		g.left = r.LeftAlone(g.Name)
	}
	return ask
}

// shortage returns how many CPUs a guest could have, what it lacks, and whether that is memory.
func (t remains) shortage(g *Guest) (cpus int, text string, memory bool) {
	cpus, text = t.shortOfCPUs(g)
	if text != "" {
		return cpus, text, false
	}
	text, memory = t.shortOfMemory(g)
	return cpus, text, memory
}

// shortOfCPUs returns how many CPUs a guest could have, and what it lacks if these are too few.
func (t remains) shortOfCPUs(g *Guest) (cpus int, text string) {
	ordinary, must := 0, 0
	var free setting.CPUSet
	for _, c := range t.cells {
		must += c.mustKeep
		room := t.limit(c)
		if !t.ask.Strict && !t.apart() {
			room = c.capacity(room)
		}
		switch {
		case c.admits(g, t.hasIsolated()):
			cpus += room
			for _, core := range c.free {
				seats := core.seats
				if t.apart() {
					seats = seats[:1]
				}
				free = free.Or(seats)
			}
		case c.ordinary():
			ordinary += room
		}
	}
	switch {
	case cpus >= g.VCPUs:
		return cpus, ""
	case len(g.Allowed) > 0:
		return cpus, fmt.Sprintf("needs %d dedicated CPUs, and of those given to it (%s) %d %s free", g.VCPUs,
			g.Allowed, cpus, words.Are(cpus))
	case len(g.Confined) > 0 && g.Realtime && len(t.ask.unreachable(g)) > 0:
		return cpus, fmt.Sprintf("needs %d isolated CPUs, and the cpuset of its control group (%s) lacks the isolated "+
			"%s: of its CPUs %d %s isolated and free", g.VCPUs, g.Confined, cpuList(t.ask.unreachable(g)), cpus,
			words.Are(cpus))
	case len(g.Confined) > 0:
		return cpus, fmt.Sprintf("needs %d dedicated CPUs, and of those that its control group has (%s) %d %s free",
			g.VCPUs, g.Confined, cpus, words.Are(cpus))
	case g.Realtime && t.hasIsolated():
		text = fmt.Sprintf("needs %d isolated CPUs, and none is free", g.VCPUs)
		if cpus > 0 {
			text = fmt.Sprintf("needs %d isolated CPUs, and %d %s isolated and free (%s)", g.VCPUs, cpus,
				words.Are(cpus), free)
		}
		if ordinary > 0 {
			text += fmt.Sprintf("; %d that %s not isolated %[2]s free", ordinary, words.Are(ordinary))
		}
		return cpus, text
	}
	kept := words.Count(must, "core") + " kept for the host"
	if len(t.shared) > 0 {
		kept = t.shared.Words() + " and " + kept
	}
	return cpus, fmt.Sprintf("needs %d dedicated CPUs, and %d %s left (%d online, %s, the others belong to other "+
		"guests)", g.VCPUs, cpus, words.Are(cpus), len(t.ask.CPUs), kept)
}

// isolatedCPUs returns the isolated CPUs that nothing polls on.
func (a *Ask) isolatedCPUs() (cpus setting.CPUSet) {
	for _, c := range a.CPUs {
		if c.Isolated && !a.Taken.Has(c.ID) {
			cpus = append(cpus, c.ID)
		}
	}
	return setting.CPUs(cpus...)
}

// unreachable returns the isolated CPUs that the control groups of a guest lack.
func (a *Ask) unreachable(g *Guest) setting.CPUSet { return a.isolatedCPUs().Minus(g.Confined) }

// shortOfMemory returns what a guest lacks that has CPUs enough, and whether that is memory alone.
func (t remains) shortOfMemory(g *Guest) (text string, memory bool) {
	most, free := 0, map[int]int{}
	for _, c := range t.cells {
		if c.admits(g, t.hasIsolated()) {
			most = max(most, c.capacity(t.limit(c)))
			free[c.node] += c.capacity(t.limit(c))
		}
	}
	var rooms []string
	need, largest, both := mebibytes(g.Memory), 0, -1
	for _, s := range t.stores {
		if s.page == 0 {
			rooms = append(rooms, fmt.Sprintf("node %d has %.1f GiB", s.node, float64(s.room)/1024))
			largest = max(largest, s.room)
			if s.room >= need && free[s.node] >= g.VCPUs {
				both = s.node
			}
		}
	}
	if need > largest {
		pinned := ""
		if g.Passthrough {
			pinned = ", all of it pinned when it starts because a device is passed through"
		}
		return fmt.Sprintf("needs %.1f GiB of memory%s, and beside other guests and the host's own %s free",
			float64(need)/1024, pinned, strings.Join(rooms, ", ")), true
	}
	if t.apart() {
		return fmt.Sprintf("needs %d isolated CPUs together on one node, and other guests without a place are pinned "+
			"to some of those that are left", g.VCPUs), false
	}
	if both >= 0 {
		return fmt.Sprintf("no place was found that keeps every guest's rules: it needs %s and %.1f GiB together "+
			"on one node, and node %d has %s free", words.Count(g.VCPUs, "CPU"), float64(need)/1024, both,
			words.Count(free[both], "CPU")), false
	}
	return fmt.Sprintf("needs %d CPUs and %.1f GiB together on one node, and no node has both free (at most %d CPUs; "+
		"%s)", g.VCPUs, float64(need)/1024, most, strings.Join(rooms, ", ")), false
}

// relaxation returns the smallest change that makes a refused guest fit: a rule that gives way, one guest that moves, a
// few CPUs to isolate, fewer vCPUs or less memory. Each was tried.
func relaxation(ask Ask, r *Result, g *Guest, memory bool) string {
	fits := func(change func(a *Ask, g *Guest)) *Result {
		try := ask
		try.feasibleOnly = true
		try.Guests = slices.Clone(ask.Guests)
		change(&try, try.guestNamed(g.Name))
		with := placeAgain(try)
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
	if way := moveToFit(ask, r, fits); way != "" {
		ways = append(ways, way)
	}
	widened := false
	if outside := ask.unreachable(g); g.Realtime && len(g.Confined) > 0 && len(outside) > 0 {
		widened = fits(func(a *Ask, g *Guest) {
			g.Confined, a.Barred = g.Confined.Or(outside), a.Barred.Minus(outside)
		}) != nil
		if widened {
			ways = append(ways, fmt.Sprintf("add the isolated %s to the cpuset of its control group", cpuList(outside)))
		}
	}
	if g.Realtime && len(g.Allowed) == 0 && !widened {
		for n := 1; n <= g.VCPUs; n++ {
			if more := pickIsolated(ask, r, n); len(more) == n &&
				fits(func(a *Ask, _ *Guest) { a.CPUs = markIsolated(a.CPUs, more) }) != nil {
				ways = append(ways, fmt.Sprintf("isolate %s more (%s)", words.Count(n, "CPU"), more))
				break
			}
		}
	}
	if !memory {
		if n := largestFitting(g.VCPUs-1, func(n int) bool {
			return fits(func(_ *Ask, g *Guest) { g.VCPUs, g.Pins, g.Seat = n, nil, nil }) != nil
		}); n > 0 {
			ways = append(ways, fmt.Sprintf("give it %s", words.Count(n, "vCPU")))
		}
	}
	if gib := int(g.Memory >> 30); memory || len(ways) == 0 {
		if n := largestFitting(gib, func(n int) bool {
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

// moveToFit tries to move guests that stay only because the user did not allow their move: the smallest one that makes
// room, or all of them. It returns "" if neither helps.
func moveToFit(ask Ask, r *Result, fits func(func(*Ask, *Guest)) *Result) string {
	var movable []string
	for _, g := range ask.Guests {
		if p := r.Guest(g.Name); p != nil && p.Kept && !g.Fixed {
			movable = append(movable, g.Name)
		}
	}
	slices.SortStableFunc(movable, func(a, b string) int { return ask.guestNamed(a).VCPUs - ask.guestNamed(b).VCPUs })
	free := func(names []string) func(*Ask, *Guest) {
		return func(a *Ask, _ *Guest) {
			for g := range facts.Each(a.Guests) {
				if slices.Contains(names, g.Name) {
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
			moved := facts.Where(movable, func(name string) bool {
				return !with.Guest(name).VCPUSet().Equal(r.Guest(name).VCPUSet())
			})
			return fmt.Sprintf("move %s (--move %s)", strings.Join(moved, ", "), strings.Join(moved, ","))
		}
	}
	return ""
}

// pickIsolated returns up to n CPUs to isolate: of unused cores, those on nodes with isolated CPUs first.
func pickIsolated(ask Ask, r *Result, n int) setting.CPUSet {
	t := newTable(withSeats(ask, r, nil))
	isolated := map[int]int{} // by node
	for _, c := range t.ask.CPUs {
		if c.Isolated {
			isolated[c.Node]++
		}
	}
	var picked []int
	slices.SortStableFunc(t.cells, func(a, b *cell) int { return isolated[b.node] - isolated[a.node] })
	for _, c := range t.cells {
		if c.ordinary() {
			for _, core := range c.free[min(c.wantKept, len(c.free)):] {
				picked = append(picked, core.seats[0])
			}
		}
	}
	return setting.CPUs(picked[:min(n, len(picked))]...)
}

func markIsolated(cpus []CPU, isolated setting.CPUSet) []CPU {
	cpus = slices.Clone(cpus)
	for c := range facts.Each(cpus) {
		c.Isolated = c.Isolated || isolated.Has(c.ID)
	}
	return cpus
}

// largestFitting returns the largest number up to high that fits, 0 if none does. What fits must fit if it is smaller.
func largestFitting(high int, fits func(int) bool) int {
	if high < 1 || !fits(1) {
		return 0
	}
	low := 1
	for low < high {
		if middle := (low + high + 1) / 2; fits(middle) {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low
}
