package queuepath

import (
	"slices"

	"mpps/internal/model/setting"
)

// cost is what a window makes of the queues: how full the fullest would be, by how much the sum of squares grows, and
// how many of its queues are served on another node.
type cost struct {
	fullest, squares float64
	remote           int
}

// less reports whether one cost is less than another by more than rounding.
func (c cost) less(than cost) bool {
	switch {
	case c.fullest < than.fullest*(1-1e-9):
		return true
	case c.fullest > than.fullest*(1+1e-9):
		return false
	case c.squares < than.squares*(1-1e-9):
		return true
	case c.squares > than.squares*(1+1e-9):
		return false
	}
	return c.remote < than.remote
}

func (b *balance) cost(on []float64, i int, l setting.Lane) cost {
	return b.costOver(slices.Max(on), on, i, l)
}

// costOver is the cost where the fullest queue is known.
func (b *balance) costOver(fullest float64, on []float64, i int, l setting.Lane) cost {
	c := cost{fullest: fullest, remote: b.remote(l.Base, piece{count: l.Count, node: b.senders[i].Node})}
	for k := range l.Count {
		mine, q := 0.0, l.Base+k
		for queue := k; queue < len(b.loads[i]); queue += l.Count {
			mine += b.loads[i][queue]
		}
		c.fullest = max(c.fullest, on[q]+mine)
		c.squares += mine * (2*on[q] + mine)
	}
	return c
}

// best is the best window for a sender: the widest that leaves the fullest queue as it is, else the one that fills it
// least.
func (b *balance) best(on []float64, i int) setting.Lane {
	whole := min(len(b.loads[i]), b.queues)
	fullest := slices.Max(on)
	enough := max(fullest, slices.Max(b.loads[i])) * (1 + 1e-9) // no window does better
	var found setting.Lane
	var least cost
	for count := whole; count > 0; count = narrower(count) {
		var best setting.Lane
		var its cost
		for base := 0; base+count <= b.queues; base++ {
			l := setting.Lane{Tap: b.senders[i].Tap, Base: base, Count: count}
			if c := b.costOver(fullest, on, i, l); base == 0 || c.less(its) {
				best, its = l, c
			}
		}
		if count == whole || its.fullest < least.fullest*(1-1e-9) {
			found, least = best, its
		}
		if least.fullest <= enough {
			break
		}
	}
	return found
}

// narrower is the next width to be tried: of wide windows each half as wide, which bounds the work.
func narrower(count int) int {
	if count > 16 {
		return count / 2
	}
	return count - 1
}

// fullest is what the fullest queue has.
func (b *balance) fullest(lanes []setting.Lane) float64 { return slices.Max(b.on(lanes)) }

// holes is how many queues idle while others have several lanes.
func (b *balance) holes(lanes []setting.Lane) int {
	users := make([]int, b.queues)
	for i, l := range lanes {
		for q := range b.loads[i] {
			users[QueueOf(l, q)]++
		}
	}
	if slices.Max(users) < 2 {
		return 0
	}
	n := 0
	for _, u := range users {
		if u == 0 {
			n++
		}
	}
	return n
}
