package queuepath

import (
	"cmp"
	"slices"

	"mpps/internal/model/setting"
)

// piece is a window that is to be placed.
type piece struct {
	sender int
	count  int
	node   int
	was    int // its first queue before; −1: none
}

// place finds a place for each window, so that as few as possible of those that stand move.
func (d *division) place(senders []Sender, counts []int) []setting.Lane {
	bases := make([]int, len(senders))
	taken := make([]bool, d.queues)
	var stay, homeless []piece
	for i, s := range senders {
		p := piece{sender: i, count: counts[i], node: s.Node, was: -1}
		b, had := d.before[s.Tap]
		if had {
			p.was = b.Base
		}
		if had && b.Count == counts[i] && !slices.Contains(taken[b.Base:b.Base+b.Count], true) {
			occupy(taken, b.Base, b.Count, true)
			stay = append(stay, p)
			bases[i] = b.Base
			continue
		}
		homeless = append(homeless, p)
	}
	for moved := range 4 {
		if d.moving(taken, stay, homeless, moved, bases) {
			return lanesOf(senders, counts, bases)
		}
	}
	// One behind the other, in the order that they had.
	all := append(stay, homeless...)
	slices.SortStableFunc(all, func(a, b piece) int {
		if (a.was < 0) != (b.was < 0) {
			return cmp.Compare(b.was, a.was) // who is new comes last
		}
		return cmp.Compare(a.was, b.was)
	})
	next := 0
	for _, p := range all {
		bases[p.sender] = next
		next += p.count
	}
	return lanesOf(senders, counts, bases)
}

func lanesOf(senders []Sender, counts, bases []int) []setting.Lane {
	lanes := make([]setting.Lane, len(senders))
	for i, s := range senders {
		lanes[i] = setting.Lane{Tap: s.Tap, Base: bases[i], Count: counts[i]}
	}
	return lanes
}

func occupy(taken []bool, base, count int, is bool) {
	for q := base; q < base+count; q++ {
		taken[q] = is
	}
}

// triesAtMost bounds how many choices of windows that move are looked at: less than 0.1 s of work.
const triesAtMost = 20_000

// moving tries to place what has no place where exactly so many of those that stand move.
func (d *division) moving(taken []bool, stay, homeless []piece, moved int, bases []int) bool {
	tries := 0
	var try func(from, left int, pieces []piece) bool
	try = func(from, left int, pieces []piece) bool {
		if left == 0 {
			tries++
			return tries <= triesAtMost && d.pack(taken, pieces, bases)
		}
		for i := from; i <= len(stay)-left && tries <= triesAtMost; i++ {
			p := stay[i]
			occupy(taken, p.was, p.count, false)
			if try(i+1, left-1, append(pieces[:len(pieces):len(pieces)], p)) {
				return true
			}
			occupy(taken, p.was, p.count, true)
		}
		return false
	}
	return try(0, moved, homeless)
}

// gap is a run of queues that nobody has.
type gap struct{ base, count int }

func gaps(taken []bool) []gap {
	var all []gap
	for q := 0; q < len(taken); q++ {
		first := q
		for q < len(taken) && !taken[q] {
			q++
		}
		if q > first {
			all = append(all, gap{first, q - first})
		}
	}
	return all
}

// pack places pieces in what is free: by node and by what is left over, or where that does not come out any way that
// does.
func (d *division) pack(taken []bool, pieces []piece, bases []int) bool {
	sorted := slices.Clone(pieces)
	slices.SortStableFunc(sorted, func(a, b piece) int { return b.count - a.count })
	free := gaps(taken)
	if len(sorted) > 0 && !slices.ContainsFunc(free, func(g gap) bool { return g.count >= sorted[0].count }) {
		return false
	}
	trial, found := slices.Clone(taken), map[int]int{}
	for _, p := range sorted {
		base := d.best(trial, p)
		if base < 0 {
			steps := 0
			if found = map[int]int{}; !fit(free, sorted, found, &steps) {
				return false
			}
			break
		}
		occupy(trial, base, p.count, true)
		found[p.sender] = base
	}
	for sender, base := range found {
		bases[sender] = base
	}
	return true
}

// best is the best place for a piece, −1 where there is none: the fewest queues of another node, where it was, the
// smallest gap.
func (d *division) best(taken []bool, p piece) int {
	best, cost := -1, [3]int{}
	for _, g := range gaps(taken) {
		for base := g.base; base+p.count <= g.base+g.count; base++ {
			edge := base == g.base || base+p.count == g.base+g.count
			if !edge && base != p.was && len(d.nodes) == 0 {
				continue
			}
			c := [3]int{d.remote(base, p), 1, g.count - p.count}
			if base == p.was {
				c[1] = 0
			}
			if !edge {
				c[2] += d.queues
			}
			if best < 0 || slices.Compare(c[:], cost[:]) < 0 {
				best, cost = base, c
			}
		}
	}
	return best
}

// remote counts the queues of a window that are served on another node than the sender's.
func (d *division) remote(base int, p piece) int {
	n := 0
	for q := base; q < base+p.count && q < len(d.nodes); q++ {
		if p.node >= 0 && d.nodes[q] >= 0 && d.nodes[q] != p.node {
			n++
		}
	}
	return n
}

// fit places the pieces, the largest first, in gaps in any way; it gives up after so many steps as are a few
// milliseconds.
func fit(free []gap, pieces []piece, found map[int]int, steps *int) bool {
	if len(pieces) == 0 {
		return true
	}
	if *steps++; *steps > 10_000 {
		return false
	}
	p := pieces[0]
	tried := map[int]bool{}
	for i, g := range free {
		if g.count < p.count || tried[g.count] {
			continue
		}
		tried[g.count] = true
		free[i] = gap{g.base + p.count, g.count - p.count}
		found[p.sender] = g.base
		if fit(free, pieces[1:], found, steps) {
			return true
		}
		free[i] = g
	}
	return false
}
