package queuepath

import (
	"cmp"
	"slices"

	"mpps/internal/model/setting"
)

// How much fuller the fullest queue may be than it need be.
const (
	near = 1.1  // that nobody shares with another is worth so much
	stay = 1.25 // that windows which stand do not move, and flows are not reordered
)

// demand is how many lanes senders have together.
func demand(senders []Sender) int {
	n := 0
	for _, s := range senders {
		n += max(1, s.Queues)
	}
	return n
}

// short divides fewer queues than there are lanes, so that asked again it says the same.
func (d *division) short(senders []Sender) []setting.Lane {
	if slices.ContainsFunc(senders, func(s Sender) bool { return s.Weighed }) {
		return d.own(senders)
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

// choose takes the first of four divisions whose fullest queue is nearly as empty as any can make it: what stands, with
// room made for who is new; the same with a few moved; each its own, since a window of one's own is worth having where
// nobody's lanes are the more crowded for it; and overlapping windows, remade.
func (d *division) choose(senders []Sender) []setting.Lane {
	b := newBalance(d, senders)
	candidates, allowed := [][]setting.Lane{d.own(senders), b.fill(b.even())}, []float64{near, near}
	if stands, some := b.keep(d.before); some {
		mended := b.fill(b.mend(slices.Clone(stands)))
		candidates, allowed = append([][]setting.Lane{stands, mended}, candidates...),
			append([]float64{stay, stay}, allowed...)
	}
	least, holes := b.fullest(candidates[0]), b.holes(candidates[0])
	for _, c := range candidates[1:] {
		least, holes = min(least, b.fullest(c)), min(holes, b.holes(c))
	}
	for i, c := range candidates {
		if b.fullest(c) <= allowed[i]*least && b.holes(c) <= holes {
			return c
		}
	}
	return slices.MinFunc(candidates, func(x, y []setting.Lane) int { return cmp.Compare(b.fullest(x), b.fullest(y)) })
}

// own gives each sender queues of its own, and to more senders than queues one each.
func (d *division) own(senders []Sender) []setting.Lane {
	if len(senders) > d.queues {
		return d.shared(senders)
	}
	return d.place(senders, d.counts(senders))
}

// balance weighs windows by the lanes in them.
type balance struct {
	*division
	senders []Sender
	loads   [][]float64 // by sender and its queue
	sums    []float64   // by sender
	little  float64     // what a silent lane counts
	order   []int       // of the senders, who sends most first
}

// newBalance counts each lane by its packets where those were seen, and all alike where they were not. A silent lane
// counts a little: it goes where nobody is.
func newBalance(d *division, senders []Sender) *balance {
	b := &balance{division: d, senders: senders, little: 1}
	seen := 0.0
	for _, s := range senders {
		for _, n := range s.Seen {
			seen += n
		}
	}
	if seen > 0 {
		b.little = seen / float64(1000*demand(senders))
	}
	for i, s := range senders {
		loads, sum := make([]float64, max(1, s.Queues)), 0.0
		for q := range loads {
			loads[q] = b.little
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

// keep is what stands, with windows for who has none; false where nobody has one.
func (b *balance) keep(before map[string]setting.Lane) ([]setting.Lane, bool) {
	lanes, some := make([]setting.Lane, len(b.senders)), false
	for i, s := range b.senders {
		if l, had := before[s.Tap]; had && l.Count <= max(1, s.Queues) {
			lanes[i], some = l, true
		}
	}
	on := b.on(lanes)
	for _, i := range b.order {
		if lanes[i].Count == 0 {
			lanes[i] = b.best(on, i)
			b.add(on, i, lanes[i], 1)
		}
	}
	return lanes, some
}

// even places all again, who sends most first, and moves senders as long as that makes queues more even. Who is silent
// comes last, and moves nobody.
func (b *balance) even() []setting.Lane {
	lanes := make([]setting.Lane, len(b.senders))
	on := b.on(lanes)
	silent := slices.IndexFunc(b.order, func(i int) bool { return b.sums[i] <= b.little*float64(len(b.loads[i])) })
	if silent <= 0 {
		silent = len(b.order)
	}
	for _, part := range [][]int{b.order[:silent], b.order[silent:]} {
		for range 4 {
			moved := false
			for _, i := range part {
				moved = b.replace(on, lanes, i) || moved
			}
			if !moved {
				break
			}
		}
	}
	return lanes
}

// replace gives a sender another window where there is a better one.
func (b *balance) replace(on []float64, lanes []setting.Lane, i int) bool {
	was := lanes[i]
	b.add(on, i, was, -1)
	found := b.best(on, i)
	if was.Count > 0 && !b.cost(on, i, found).less(b.cost(on, i, was)) {
		found = was
	}
	lanes[i] = found
	b.add(on, i, found, 1)
	return found != was
}

// mend moves senders away from the fullest queue, one after the other, until it is as empty as it must be, or nobody's
// going helps.
func (b *balance) mend(lanes []setting.Lane) []setting.Lane {
	on, before := b.on(lanes), slices.Clone(lanes)
	was := slices.Max(on)
	even, widest := 0.0, 0.0
	for i, sum := range b.sums {
		even, widest = even+sum/float64(b.queues), max(widest, slices.Max(b.loads[i]))
	}
	least := max(even, widest)
	for range len(b.senders) {
		if slices.Max(on) <= stay*least {
			break
		}
		full := slices.Index(on, slices.Max(on))
		moved := false
		for _, i := range b.order {
			if l := lanes[i]; full >= l.Base && full < l.Base+l.Count && b.replace(on, lanes, i) {
				moved = true
				break
			}
		}
		if !moved {
			break
		}
	}
	if slices.Max(on) >= was*(1-1e-9) { // moved for nothing
		return before
	}
	return lanes
}

// fill shifts windows over queues that nobody has while others have several lanes, those of who sends least first,
// where that makes the fullest no fuller.
func (b *balance) fill(lanes []setting.Lane) []setting.Lane {
	for left := b.holes(lanes); left > 0; {
		if !b.shift(lanes, left) {
			return lanes
		}
		left = b.holes(lanes)
	}
	return lanes
}

func (b *balance) shift(lanes []setting.Lane, holes int) bool {
	limit := b.fullest(lanes) * (1 + 1e-9)
	for _, i := range slices.Backward(b.order) {
		was := lanes[i]
		for count := min(len(b.loads[i]), b.queues); count > 0; count = narrower(count) {
			for base := 0; base+count <= b.queues; base++ {
				lanes[i] = setting.Lane{Tap: was.Tap, Base: base, Count: count}
				if b.holes(lanes) < holes && b.fullest(lanes) <= limit {
					return true
				}
			}
		}
		lanes[i] = was
	}
	return false
}

// on is what each queue has.
func (b *balance) on(lanes []setting.Lane) []float64 {
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
