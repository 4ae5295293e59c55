package placement

import (
	"math"
	"slices"
)

// problem is a multiple-choice knapsack: one option for each item, a limited amount of each resource, and a cost of
// what is used of a resource beside the cost of the options.
type problem struct {
	items     []item
	resources []resource
	content   bool // with any choice that refuses nobody
}

// resource is what options use. A cell's cost is given for every load from 0 up to its room; stores cost nothing.
type resource struct {
	room int
	cost []int64
}

// at is the cost of a load.
func (r *resource) at(load int) int64 {
	if r.cost == nil {
		return 0
	}
	return r.cost[load]
}

// cheapest is the load of at least some size that costs least when a unit is worth a price, and what is to pay then.
func (r *resource) cheapest(from int, price int64) (load int, cost int64) {
	if r.cost == nil {
		return r.room, -price * int64(r.room-from)
	}
	load, cost = from, r.cost[from]
	for d := from + 1; d <= r.room; d++ {
		if c := r.cost[d] - price*int64(d-from); c < cost {
			load, cost = d, c
		}
	}
	return load, cost
}

// prices finds what a unit of each resource is worth: the multipliers of the Lagrangian relaxation, in which the limits
// are paid for instead of kept. Any prices bound the cost from below; these are raised, one direction after the other,
// as long as the bound rises. All cells together are a direction too: guests that evade a dear node to a cheap one
// would hold its price down.
func (p *problem) prices() []int64 {
	prices := make([]int64, len(p.resources))
	var cells, stores []int
	units := int64(1)
	for r := range p.resources {
		if p.resources[r].cost != nil {
			cells, units = append(cells, r), units+int64(p.resources[r].room)
		} else {
			stores = append(stores, r)
		}
	}
	var ways [][]int
	if len(cells) > 1 {
		ways = append(ways, cells)
	}
	if len(stores) > 1 {
		ways = append(ways, stores)
	}
	for r := range p.resources {
		if len(p.resources) <= 3*usualResources { // of more, refine finds each
			ways = append(ways, []int{r})
		}
	}
	for range rounds {
		before := slices.Clone(prices)
		for _, way := range ways {
			p.climb(prices, way, min(2*costRefused, math.MaxInt64/4/units))
		}
		if slices.Equal(before, prices) {
			break
		}
	}
	return prices
}

// rounds is how often the directions are tried at most.
const rounds = 6

// climb moves the prices of some resources by the same amount to where the bound is highest. The bound is concave along
// the way, and its slope is demand less supply, so the place is found by halving.
func (p *problem) climb(prices []int64, way []int, most int64) {
	on := make([]bool, len(prices))
	low := int64(math.MaxInt64)
	for _, r := range way {
		on[r] = true
		low = min(low, prices[r])
		if p.resources[r].cost == nil { // MiB: many units
			most = min(most, math.MaxInt64/8/int64(1+p.resources[r].room))
		}
	}
	type choice struct{ cost, amount int64 }
	type kind struct {
		items int64
		list  []choice
	}
	kinds := make([]kind, 0, len(p.items))
	for i := range p.items {
		if i > 0 && p.items[i].kind == p.items[i-1].kind {
			kinds[len(kinds)-1].items++
			continue
		}
		list := make([]choice, len(p.items[i].options))
		for j := range p.items[i].options {
			o := &p.items[i].options[j]
			c := choice{cost: o.cost}
			for _, u := range o.use {
				c.cost += prices[u.resource] * int64(u.amount)
				if on[u.resource] {
					c.amount += int64(u.amount)
				}
			}
			list[j] = c
		}
		kinds = append(kinds, kind{1, list})
	}
	rising := func(step int64) bool {
		slope := int64(0)
		for _, k := range kinds {
			best, amount := int64(math.MaxInt64), int64(0)
			for _, c := range k.list {
				if cost := c.cost + step*c.amount; cost < best {
					best, amount = cost, c.amount
				}
			}
			slope += k.items * amount
		}
		for _, r := range way {
			load, _ := p.resources[r].cheapest(0, prices[r]+step)
			slope -= int64(load)
		}
		return slope > 0
	}
	lo, hi := -low, int64(1) // no price falls below nothing
	if rising(0) {
		for lo = 0; hi < most && rising(hi); hi *= 2 {
			lo = hi
		}
	} else {
		hi = 0
	}
	hi = min(hi, most)
	for hi-lo > 1 {
		if middle := lo + (hi-lo)/2; rising(middle) {
			lo = middle
		} else {
			hi = middle
		}
	}
	for _, r := range way {
		prices[r] += hi
	}
}

// refine raises the bound further where prices must move together to do so: by steps along the slope, as long as the
// gap to a known cost asks for (Polyak's rule). The best prices seen are returned.
func (p *problem) refine(prices []int64, known int64) []int64 {
	best, floor := slices.Clone(prices), int64(math.MinInt64)
	at := make([]float64, len(prices))
	for r := range prices {
		at[r] = float64(prices[r])
	}
	now, slope, pace := slices.Clone(prices), make([]float64, len(prices)), 1.0
	for step, since := 0, 0; step < steps; step++ {
		bound := p.slope(now, slope)
		if since++; bound > floor {
			floor, since = bound, 0
			copy(best, now)
		}
		if since > patience {
			pace, since = pace/2, 0
		}
		norm := 0.0
		for r := range slope {
			size := float64(max(1, p.resources[r].room))
			norm += slope[r] * slope[r] / (size * size)
		}
		if norm == 0 || floor >= known {
			break
		}
		for r := range slope {
			size := float64(max(1, p.resources[r].room))
			at[r] = min(max(0, at[r]+pace*float64(known-bound)*slope[r]/(size*size)/norm), costRefused)
			now[r] = int64(at[r])
		}
	}
	return best
}

// How many steps refine makes, and after how many without gain it makes smaller ones.
const (
	steps    = 120
	patience = 6
)

// slope is the bound at some prices, and for each resource demand less supply there.
func (p *problem) slope(prices []int64, slope []float64) (bound int64) {
	clear(slope)
	var cost int64
	var chosen *option
	for i := range p.items {
		if i == 0 || p.items[i].kind != p.items[i-1].kind {
			cost, chosen = math.MaxInt64, nil
			for j := range p.items[i].options {
				o := &p.items[i].options[j]
				c := o.cost
				for _, u := range o.use {
					c += prices[u.resource] * int64(u.amount)
				}
				if c < cost {
					cost, chosen = c, o
				}
			}
		}
		bound += cost
		for _, u := range chosen.use {
			slope[u.resource] += float64(u.amount)
		}
	}
	for r := range p.resources {
		load, c := p.resources[r].cheapest(0, prices[r])
		slope[r] -= float64(load)
		bound += c
	}
	return bound
}

// bounds are what is needed to bound the cost of completing a partial choice: for every item on its own, and for every
// resource by the load that it has already.
type bounds struct {
	after []int64   // of the items from this one on
	load  [][]int64 // by cell and load
	price []int64
	least [][]int64 // by item and option: the option's cost with what it uses paid for
}

func (p *problem) bounds(prices []int64) *bounds {
	b := &bounds{after: make([]int64, len(p.items)+1), load: make([][]int64, len(p.resources)), price: prices,
		least: make([][]int64, len(p.items))}
	for i := len(p.items) - 1; i >= 0; i-- {
		if i+1 < len(p.items) && p.items[i].kind == p.items[i+1].kind {
			b.least[i] = b.least[i+1]
			b.after[i] = b.after[i+1] + b.after[i+1] - b.after[i+2]
			continue
		}
		best := int64(math.MaxInt64)
		b.least[i] = make([]int64, len(p.items[i].options))
		for j := range p.items[i].options {
			o := &p.items[i].options[j]
			cost := o.cost
			for _, u := range o.use {
				cost += prices[u.resource] * int64(u.amount)
			}
			b.least[i][j] = cost
			best = min(best, cost)
		}
		b.after[i] = b.after[i+1] + best
	}
	for r := range p.resources {
		if p.resources[r].cost == nil {
			continue
		}
		b.load[r] = make([]int64, p.resources[r].room+1)
		for d := range b.load[r] {
			_, b.load[r][d] = p.resources[r].cheapest(d, prices[r])
		}
	}
	return b
}

// rest bounds what a load of a resource still costs.
func (b *bounds) rest(p *problem, r, load int) int64 {
	if b.load[r] == nil {
		return -b.price[r] * int64(p.resources[r].room-load)
	}
	return b.load[r][load]
}
