package placement

import (
	"cmp"
	"math"
	"slices"
)

// Limits of the search. A narrow sweep over the most promising options of each guest, and exchanges between guests,
// find a good choice. Its cost bounds the wide sweep over all options. If that would have too many states, it continues
// with the most promising ones, and its answer is not proved. Limits are steps, never time: an answer depends only on
// the problem.
const (
	narrowWidth    = 48     // states of a level
	maxPromising   = 16     // options of a guest
	wideWidth      = 4000   // states of a level
	maxTried       = 150000 // options tried by the wide sweep before it is made narrow, on a host of up to
	usualResources = 8      // cells and stores
)

// solve chooses an option for each item so that the sum of costs is least. It reorders the items.
func (p *problem) solve() (choice []int, cost int64, proved bool) {
	slices.SortStableFunc(p.items,
		func(a, b item) int { return cmp.Or(cmp.Compare(b.size(), a.size()), cmp.Compare(a.kind, b.kind)) })
	p.simplify()
	b := p.bounds(p.prices())
	choice, cost, proved = p.sweep(b, b.order(p, maxPromising, math.MaxInt64), narrowWidth, math.MaxInt64)
	if choice == nil {
		return nil, cost, false
	}
	cost = p.improve(b, choice, cost)
	if proved && b.allShorter(maxPromising) || cost <= b.floor(p) {
		return choice, cost, true
	}
	if p.feasibleOnly && cost < costRefused {
		return choice, cost, false
	}
	b = p.bounds(p.refine(b.price, cost))
	// an option that is left out cannot be part of a cheaper choice: even the bound with it is no less
	better, less, whole := p.sweep(b, b.order(p, math.MaxInt, cost-b.floor(p)), wideWidth, cost)
	if better != nil {
		if !whole {
			less = p.improve(b, better, less)
		}
		return better, less, whole
	}
	return choice, cost, whole
}

// order lists each item's options, the most promising first: up to most of them, and only those whose priced cost is
// less than gap above the item's least.
func (b *bounds) order(p *problem, most int, gap int64) [][]int32 {
	lists := make([][]int32, len(p.items))
	for i := range p.items {
		if i > 0 && p.items[i].kind == p.items[i-1].kind {
			lists[i] = lists[i-1]
			continue
		}
		least := b.least[i]
		var list []int32
		for j := range least {
			if least[j]-(b.after[i]-b.after[i+1]) < gap {
				list = append(list, int32(j))
			}
		}
		slices.SortStableFunc(list, func(x, y int32) int { return cmp.Compare(least[x], least[y]) })
		lists[i] = shorten(list, most, int32(len(least)-1))
	}
	return lists
}

// shorten returns the first most options of a list, and always the last option: it refuses the guest, or puts its
// threads where there is always room.
func shorten(list []int32, most int, last int32) []int32 {
	if len(list) <= most {
		return list
	}
	begin := list[:most:most]
	if !slices.Contains(begin, last) {
		begin = append(begin, last)
	}
	return begin
}

// allShorter reports whether no item has more than most options.
func (b *bounds) allShorter(most int) bool {
	return !slices.ContainsFunc(b.least, func(l []int64) bool { return len(l) > most })
}

// size orders items: the large ones are decided first.
func (it *item) size() int {
	most := 0
	for i := range it.options {
		sum := 0
		for _, u := range it.options[i].use {
			sum += u.amount
		}
		most = max(most, sum)
	}
	return most
}

// simplify leaves out stores that have room for all guests: they limit nothing.
func (p *problem) simplify() {
	demand := make([]int, len(p.resources))
	most := make([]int, len(p.resources))
	for i := range p.items {
		clear(most)
		for j := range p.items[i].options {
			for _, u := range p.items[i].options[j].use {
				most[u.resource] = max(most[u.resource], u.amount)
			}
		}
		for r, m := range most {
			demand[r] += m
		}
	}
	last := 0
	for i := range p.items {
		if i > 0 && p.items[i].kind == p.items[i-1].kind {
			continue // they share one list
		}
		for j := range p.items[i].options {
			o := &p.items[i].options[j]
			o.use = slices.DeleteFunc(slices.Clone(o.use), func(u use) bool {
				return p.resources[u.resource].cost == nil && demand[u.resource] <= p.resources[u.resource].room
			})
			for _, u := range o.use {
				last = max(last, u.resource)
			}
		}
	}
	for r := range p.resources {
		if p.resources[r].cost != nil {
			last = max(last, r)
		}
	}
	p.resources = p.resources[:min(last+1, len(p.resources))]
}

// level is the states after some items: the load of each resource, its cost, and the choices that led there.
type level struct {
	loads  []int32 // by state and resource
	cost   []int64 // of the options chosen
	floor  []int64 // of any completion
	from   []int32 // state of the level before
	option []int32
	index  []int32 // hash table of states, −1 is empty
	width  int     // resources
}

func (l *level) len() int { return len(l.cost) }

// sweep goes through the items one by one, with the options listed for each and all states that can still end below a
// limit. Partial choices with the same loads are one state; the cheapest stays. It returns the best choice below the
// limit, nil if there is none, and whether nothing was left out on the way.
func (p *problem) sweep(b *bounds, lists [][]int32, width int, limit int64) (choice []int, cost int64, whole bool) {
	whole = true
	n := len(p.resources)
	start := &level{loads: make([]int32, n), cost: []int64{0}, floor: []int64{0}, from: []int32{-1},
		option: []int32{-1}, width: n}
	levels := []*level{start}
	tried, most := 0, maxTried*usualResources/max(n, usualResources)
	if p.feasibleOnly {
		most /= 4
	}
	for i := range p.items {
		last := levels[i]
		next := &level{width: n, index: newIndex(256)}
		scratch := make([]int32, n)
		list := lists[i]
		for s := range last.len() {
			if tried > most { // too many to prove anything
				width, whole = narrowWidth, false
			}
			if !whole && len(list) > maxPromising+1 {
				list = shorten(lists[i], maxPromising, int32(len(p.items[i].options)-1))
			}
			loads := last.loads[s*n : s*n+n]
			base := last.cost[s] + b.after[i+1]
			for r := range n {
				base += b.rest(p, r, int(loads[r]))
			}
		options:
			for _, j := range list {
				if base+b.least[i][j] >= limit {
					break // no load makes up for its priced cost
				}
				o := &p.items[i].options[j]
				tried++
				floor := base + o.cost
				for _, u := range o.use {
					load := int(loads[u.resource]) + u.amount
					if load > p.resources[u.resource].room {
						continue options
					}
					floor += b.rest(p, u.resource, load) - b.rest(p, u.resource, int(loads[u.resource]))
				}
				if floor >= limit {
					continue
				}
				copy(scratch, loads)
				for _, u := range o.use {
					scratch[u.resource] += int32(u.amount)
				}
				next.add(scratch, last.cost[s]+o.cost, floor, int32(s), j)
			}
		}
		if next.len() > width {
			width, whole = narrowWidth, false
			next.keepBest(width)
		}
		next.index = nil
		levels = append(levels, next)
	}
	return p.trace(levels, limit, whole)
}

// trace finds the cheapest final state and follows its choices back.
func (p *problem) trace(levels []*level, limit int64, whole bool) ([]int, int64, bool) {
	last := levels[len(levels)-1]
	best, at := limit, -1
	for s := range last.len() {
		cost := last.cost[s]
		for r := range p.resources {
			cost += p.resources[r].costAt(int(last.loads[s*last.width+r]))
		}
		if cost < best {
			best, at = cost, s
		}
	}
	if at < 0 {
		return nil, limit, whole
	}
	choice := make([]int, len(p.items))
	for i := len(p.items); i > 0; i-- {
		choice[i-1] = int(levels[i].option[at])
		at = int(levels[i].from[at])
	}
	return choice, best, whole
}

func newIndex(n int) []int32 {
	return slices.Repeat([]int32{-1}, n)
}

// add adds a state, or makes the one with the same loads cheaper.
func (l *level) add(loads []int32, cost, floor int64, from, option int32) {
	if 2*l.len() >= len(l.index) {
		l.index = newIndex(4 * len(l.index))
		for s := range l.len() {
			l.index[l.slot(l.loads[s*l.width:(s+1)*l.width])] = int32(s)
		}
	}
	at := l.slot(loads)
	if s := l.index[at]; s >= 0 {
		if cost < l.cost[s] {
			l.cost[s], l.floor[s], l.from[s], l.option[s] = cost, floor, from, option
		}
		return
	}
	l.index[at] = int32(l.len())
	l.loads = append(l.loads, loads...)
	l.cost, l.floor = append(l.cost, cost), append(l.floor, floor)
	l.from, l.option = append(l.from, from), append(l.option, option)
}

// slot returns the index entry of loads, or the empty entry where they belong.
func (l *level) slot(loads []int32) int {
	hash := uint64(14695981039346656037)
	for _, v := range loads {
		hash = (hash ^ uint64(uint32(v))) * 1099511628211
		hash ^= hash >> 29
	}
	mask := len(l.index) - 1
	for at := int(hash) & mask; ; at = (at + 1) & mask {
		s := l.index[at]
		if s < 0 || slices.Equal(l.loads[int(s)*l.width:int(s+1)*l.width], loads) {
			return at
		}
	}
}

// keepBest keeps the states whose completion may be cheapest.
func (l *level) keepBest(width int) {
	order := make([]int, l.len())
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(l.floor[a], l.floor[b]), cmp.Compare(a, b)) })
	thin := &level{width: l.width}
	for _, s := range order[:min(width, len(order))] {
		thin.loads = append(thin.loads, l.loads[s*l.width:(s+1)*l.width]...)
		thin.cost, thin.floor = append(thin.cost, l.cost[s]), append(thin.floor, l.floor[s])
		thin.from, thin.option = append(thin.from, l.from[s]), append(thin.option, l.option[s])
	}
	*l = *thin
}
