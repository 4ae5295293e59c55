package queuepath

import (
	"cmp"
	"slices"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// windowCost is the effect of a window: the load of the fullest queue, the growth of the sum of squared loads, and how
// many of its queues are served on another node.
type windowCost struct {
	fullest, squares float64
	remote           int
}

// less reports whether one cost is less than another by more than rounding.
func (c windowCost) less(than windowCost) bool {
	return cmp.Or(roughly(c.fullest, than.fullest), roughly(c.squares, than.squares), cmp.Compare(c.remote,
		than.remote)) < 0
}

// roughly compares two numbers that are not negative; a difference by rounding is none.
func roughly(a, b float64) int {
	switch {
	case a < b*(1-1e-9):
		return -1
	case a > b*(1+1e-9):
		return 1
	}
	return 0
}

func (b *balance) cost(on []float64, i int, l setting.Lane) windowCost {
	return b.costGiven(slices.Max(on), on, i, l)
}

// costGiven returns the cost if the load of the fullest queue is known.
func (b *balance) costGiven(fullest float64, on []float64, i int, l setting.Lane) windowCost {
	c := windowCost{fullest: fullest, remote: b.remoteQueues(l.Base, piece{count: l.Count, node: b.senders[i].Node})}
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

// bestWindow returns the best window for a sender: the widest that leaves the fullest queue as it is, else the one that
// fills it least.
func (b *balance) bestWindow(on []float64, i int) setting.Lane {
	whole := min(len(b.loads[i]), b.queues)
	fullest := slices.Max(on)
	enough := max(fullest, slices.Max(b.loads[i])) * (1 + 1e-9) // no window does better
	var found setting.Lane
	var least windowCost
	for count := whole; count > 0; count = narrower(count) {
		var best setting.Lane
		var its windowCost
		for base := 0; base+count <= b.queues; base++ {
			l := setting.Lane{Tap: b.senders[i].Tap, Base: base, Count: count}
			if c := b.costGiven(fullest, on, i, l); base == 0 || c.less(its) {
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

// narrower returns the next width to try. Wide windows are halved, which bounds the work.
func narrower(count int) int { return words.Either(count > 16, count/2, count-1) }

// fullest returns the load of the fullest queue.
func (b *balance) fullest(lanes []setting.Lane) float64 { return slices.Max(b.queueLoads(lanes)) }

// idleQueues returns how many queues idle while others have several lanes.
func (b *balance) idleQueues(lanes []setting.Lane) int {
	users := make([]int, b.queues)
	for i, l := range lanes {
		for q := range b.loads[i] {
			users[QueueOf(l, q)]++
		}
	}
	if slices.Max(users) < 2 {
		return 0
	}
	return facts.Count(users, func(u int) bool { return u == 0 })
}
