package queuepath

import (
	"cmp"
	"slices"

	"mpps/internal/model/setting"
)

// Factors by which the fullest queue may be fuller than necessary.
const (
	ownLimit  = 1.1  // so that no sender shares a queue
	stayLimit = 1.25 // so that current windows do not move, which would reorder flows
)

// laneCount returns how many lanes senders have together.
func laneCount(senders []Sender) int {
	n := 0
	for _, s := range senders {
		n += max(1, s.Queues)
	}
	return n
}

// overlapping divides fewer queues than lanes. Repeated with its own result, it returns the same.
func (d *division) overlapping(senders []Sender) []setting.Lane {
	if slices.ContainsFunc(senders, func(s Sender) bool { return s.Weighed }) {
		return d.ownWindows(senders)
	}
	lanes := d.choose(senders)
	for range 8 {
		next := division{queues: d.queues, nodes: d.nodes, before: map[string]setting.Lane{}}
		for _, l := range lanes {
			next.before[l.Tap] = l
		}
		again := next.choose(senders)
		if slices.Equal(again, lanes) {
			break
		}
		lanes = again
	}
	return lanes
}

// choose returns the first of four divisions whose fullest queue is nearly as empty as any can make it: the current one
// with new senders added; the same with a few moved; own windows for each sender, which are better if they crowd no
// lanes; and new overlapping windows.
func (d *division) choose(senders []Sender) []setting.Lane {
	b := newBalance(d, senders)
	candidates, allowed := [][]setting.Lane{d.ownWindows(senders), b.fillIdle(b.placeAll())}, []float64{ownLimit,
		ownLimit}
	if stands, some := b.keepStanding(d.before); some {
		mended := b.fillIdle(b.relieve(slices.Clone(stands)))
		candidates, allowed = append([][]setting.Lane{stands, mended}, candidates...),
			append([]float64{stayLimit, stayLimit}, allowed...)
	}
	least, holes := b.fullest(candidates[0]), b.idleQueues(candidates[0])
	for _, c := range candidates[1:] {
		least, holes = min(least, b.fullest(c)), min(holes, b.idleQueues(c))
	}
	for i, c := range candidates {
		if b.fullest(c) <= allowed[i]*least && b.idleQueues(c) <= holes {
			return c
		}
	}
	return slices.MinFunc(candidates, func(x, y []setting.Lane) int { return cmp.Compare(b.fullest(x), b.fullest(y)) })
}

// ownWindows gives each sender its own queues, or one each if there are more senders than queues.
func (d *division) ownWindows(senders []Sender) []setting.Lane {
	if len(senders) > d.queues {
		return d.oneEach(senders)
	}
	return d.placeOwn(senders, d.queueCounts(senders))
}

// balance weighs windows by the lanes in them.
type balance struct {
	*division
	senders    []Sender
	loads      [][]float64 // by sender and its queue
	sums       []float64   // by sender
	silentLoad float64     // the load of a silent lane
	order      []int       // of the senders, the busiest first
}

// newBalance weighs each lane by its packets if any were seen, else all the same. A silent lane weighs a little, so
// that it goes to an idle queue.
func newBalance(d *division, senders []Sender) *balance {
	b := &balance{division: d, senders: senders, silentLoad: 1}
	seen := 0.0
	for _, s := range senders {
		for _, n := range s.Seen {
			seen += n
		}
	}
	if seen > 0 {
		b.silentLoad = seen / float64(1000*laneCount(senders))
	}
	for i, s := range senders {
		loads, sum := make([]float64, max(1, s.Queues)), 0.0
		for q := range loads {
			loads[q] = b.silentLoad
			if q < len(s.Seen) {
				loads[q] += s.Seen[q]
			}
			sum += loads[q]
		}
		b.loads, b.sums, b.order = append(b.loads, loads), append(b.sums, sum), append(b.order, i)
	}
	slices.SortStableFunc(b.order, func(i, j int) int {
		return cmp.Or(cmp.Compare(b.sums[j], b.sums[i]), cmp.Compare(senders[i].Tap, senders[j].Tap))
	})
	return b
}

// keepStanding returns the current windows, with windows for new senders; false if no sender has one.
func (b *balance) keepStanding(before map[string]setting.Lane) ([]setting.Lane, bool) {
	lanes, some := make([]setting.Lane, len(b.senders)), false
	for i, s := range b.senders {
		if l, had := before[s.Tap]; had && l.Count <= max(1, s.Queues) {
			lanes[i], some = l, true
		}
	}
	on := b.queueLoads(lanes)
	for _, i := range b.order {
		if lanes[i].Count == 0 {
			lanes[i] = b.bestWindow(on, i)
			b.add(on, i, lanes[i], 1)
		}
	}
	return lanes, some
}

// placeAll places all senders again, the busiest first, and moves them while that makes queues more even. Silent
// senders come last and move no other.
func (b *balance) placeAll() []setting.Lane {
	lanes := make([]setting.Lane, len(b.senders))
	on := b.queueLoads(lanes)
	silent := slices.IndexFunc(b.order, func(i int) bool { return b.sums[i] <= b.silentLoad*float64(len(b.loads[i])) })
	if silent <= 0 {
		silent = len(b.order)
	}
	for _, part := range [][]int{b.order[:silent], b.order[silent:]} {
		for range 4 {
			moved := false
			for _, i := range part {
				moved = b.improve(on, lanes, i) || moved
			}
			if !moved {
				break
			}
		}
	}
	return lanes
}

// improve gives a sender a better window if there is one, and reports whether it did.
func (b *balance) improve(on []float64, lanes []setting.Lane, i int) bool {
	was := lanes[i]
	b.add(on, i, was, -1)
	found := b.bestWindow(on, i)
	if was.Count > 0 && !b.cost(on, i, found).less(b.cost(on, i, was)) {
		found = was
	}
	lanes[i] = found
	b.add(on, i, found, 1)
	return found != was
}

// relieve moves senders away from the fullest queue, one after the other, until it is nearly as empty as possible or no
// move helps.
func (b *balance) relieve(lanes []setting.Lane) []setting.Lane {
	on, before := b.queueLoads(lanes), slices.Clone(lanes)
	was := slices.Max(on)
	even, widest := 0.0, 0.0
	for i, sum := range b.sums {
		even, widest = even+sum/float64(b.queues), max(widest, slices.Max(b.loads[i]))
	}
	least := max(even, widest)
	for range len(b.senders) {
		if slices.Max(on) <= stayLimit*least {
			break
		}
		full := slices.Index(on, slices.Max(on))
		moved := false
		for _, i := range b.order {
			if l := lanes[i]; full >= l.Base && full < l.Base+l.Count && b.improve(on, lanes, i) {
				moved = true
				break
			}
		}
		if !moved {
			break
		}
	}
	if slices.Max(on) >= was*(1-1e-9) { // no gain
		return before
	}
	return lanes
}

// fillIdle shifts windows to idle queues while others have several lanes, the least busy senders' first, as long as the
// fullest queue gets no fuller.
func (b *balance) fillIdle(lanes []setting.Lane) []setting.Lane {
	for left := b.idleQueues(lanes); left > 0 && b.shiftToIdle(lanes, left); {
		left = b.idleQueues(lanes)
	}
	return lanes
}

func (b *balance) shiftToIdle(lanes []setting.Lane, holes int) bool {
	limit := b.fullest(lanes) * (1 + 1e-9)
	for _, i := range slices.Backward(b.order) {
		was := lanes[i]
		for count := min(len(b.loads[i]), b.queues); count > 0; count = narrower(count) {
			for base := 0; base+count <= b.queues; base++ {
				lanes[i] = setting.Lane{Tap: was.Tap, Base: base, Count: count}
				if b.idleQueues(lanes) < holes && b.fullest(lanes) <= limit {
					return true
				}
			}
		}
		lanes[i] = was
	}
	return false
}

// queueLoads returns the load of each queue.
func (b *balance) queueLoads(lanes []setting.Lane) []float64 {
	on := make([]float64, b.queues)
	for i, l := range lanes {
		b.add(on, i, l, 1)
	}
	return on
}

func (b *balance) add(on []float64, i int, l setting.Lane, sign float64) {
	if l.Count == 0 {
		return
	}
	for q, n := range b.loads[i] {
		on[QueueOf(l, q)] += sign * n
	}
}
