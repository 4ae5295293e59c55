package queuepath

import (
	"cmp"
	"slices"

	"mpps/internal/model/setting"
)

// piece is a window to place.
type piece struct {
	sender int
	count  int
	node   int
	was    int // its current first queue; −1: none
}

// placeOwn returns a place for each window so that as few current ones as possible move.
func (d *division) placeOwn(senders []Sender, counts []int) []setting.Lane {
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
		if d.placeMoving(taken, stay, homeless, moved, bases) {
			return lanesOf(senders, counts, bases)
		}
	}
	// one after the other, in their current order
	all := append(stay, homeless...)
	slices.SortStableFunc(all, func(a, b piece) int {
		if (a.was < 0) != (b.was < 0) {
			return cmp.Compare(b.was, a.was) // new ones come last
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

// triesAtMost bounds how many choices of moving windows are tried: less than 0.1 s of work.
const maxTries = 20_000

// placeMoving tries to place the homeless pieces while exactly moved of the current windows move.
func (d *division) placeMoving(taken []bool, stay, homeless []piece, moved int, bases []int) bool {
	tries := 0
	var try func(from, left int, pieces []piece) bool
	try = func(from, left int, pieces []piece) bool {
		if left == 0 {
			tries++
			return tries <= maxTries && d.pack(taken, pieces, bases)
		}
		for i := from; i <= len(stay)-left && tries <= maxTries; i++ {
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

// gap is a run of free queues.
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

// pack places pieces in the free queues: by node and by what is left over, or if that fails in any way that fits.
func (d *division) pack(taken []bool, pieces []piece, bases []int) bool {
	sorted := slices.Clone(pieces)
	slices.SortStableFunc(sorted, func(a, b piece) int { return b.count - a.count })
	free := gaps(taken)
	if len(sorted) > 0 && !slices.ContainsFunc(free, func(g gap) bool { return g.count >= sorted[0].count }) {
		return false
	}
	trial, found := slices.Clone(taken), map[int]int{}
	for _, p := range sorted {
		base := d.bestBase(trial, p)
		if base < 0 {
			steps := 0
			if found = map[int]int{}; !fitAny(free, sorted, found, &steps) {
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

// bestBase returns the best place for a piece, −1 if there is none: the fewest queues of another node, then where it
// was, then the smallest gap.
func (d *division) bestBase(taken []bool, p piece) int {
	best, cost := -1, [3]int{}
	for _, g := range gaps(taken) {
		for base := g.base; base+p.count <= g.base+g.count; base++ {
			edge := base == g.base || base+p.count == g.base+g.count
			if !edge && base != p.was && len(d.nodes) == 0 {
				continue
			}
			c := [3]int{d.remoteQueues(base, p), 1, g.count - p.count}
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

// remoteQueues returns how many queues of a window are served on another node than the sender's.
func (d *division) remoteQueues(base int, p piece) int {
	n := 0
	for q := base; q < base+p.count && q < len(d.nodes); q++ {
		if p.node >= 0 && d.nodes[q] >= 0 && d.nodes[q] != p.node {
			n++
		}
	}
	return n
}

// fitAny places the pieces, the largest first, in gaps in any way. It gives up after a few milliseconds of steps.
func fitAny(free []gap, pieces []piece, found map[int]int, steps *int) bool {
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
		if fitAny(free, pieces[1:], found, steps) {
			return true
		}
		free[i] = g
	}
	return false
}
