package placement

import (
	"math"
	"slices"
)

// priced returns an option's cost plus the price of the resources that it uses.
func (o *option) priced(prices []int64) int64 {
	cost := o.cost
	for _, u := range o.use {
		cost += prices[u.resource] * int64(u.amount)
	}
	return cost
}

// problem is a multiple-choice knapsack: one option for each item, limited resources, and a cost of each resource's
// load on top of the options' costs.
type problem struct {
	items        []item
	resources    []resource
	feasibleOnly bool // any choice without refusals will do
}

// resource is a cell or store that options use. A cell has a cost for every load from 0 to its room; stores have none.
type resource struct {
	room int
	cost []int64
}

// costAt returns the cost of a load.
func (r *resource) costAt(load int) int64 {
	if r.cost == nil {
		return 0
	}
	return r.cost[load]
}

// cheapest returns the load of at least from that costs least if each unit above from earns a price, and its cost then.
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

// prices returns the price of a unit of each resource: the multipliers of the Lagrangian relaxation, in which the
// limits have a price instead of being kept. Any prices give a lower bound of the cost. These are raised in one
// direction after the other while the bound rises. All cells together are a direction too: otherwise guests that move
// from an expensive node to a cheap one would hold its price down.
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
		if len(p.resources) <= 3*usualResources { // with more, only refine moves single prices
			ways = append(ways, []int{r})
		}
	}
	for range maxRounds {
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

// maxRounds is the most rounds over the directions.
const maxRounds = 6

// climb moves the prices of some resources by the same amount to where the bound is highest, at most by most. The bound
// is concave in that direction and its slope is demand less supply, so bisection finds the maximum.
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
			c := choice{cost: o.priced(prices)}
			for _, u := range o.use {
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
	lo, hi := -low, int64(1) // no price falls below 0
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

// refine raises the bound further where several prices must move together: by steps along the slope, sized by the gap
// to a known cost (Polyak's rule). It returns the best prices seen.
func (p *problem) refine(prices []int64, known int64) []int64 {
	best, floor := slices.Clone(prices), int64(math.MinInt64)
	at := make([]float64, len(prices))
	for r := range prices {
		at[r] = float64(prices[r])
	}
	now, slope, pace := slices.Clone(prices), make([]float64, len(prices)), 1.0
	for step, since := 0, 0; step < maxSteps; step++ {
		bound := p.slope(now, slope)
		if since++; bound > floor {
			floor, since = bound, 0
			copy(best, now)
		}
		if since > maxStale {
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

// refine makes maxSteps steps, and smaller ones after maxStale without gain.
const (
	maxSteps = 120
	maxStale = 6
)

// slope returns the bound at some prices, and sets demand less supply of each resource.
func (p *problem) slope(prices []int64, slope []float64) (bound int64) {
	clear(slope)
	var cost int64
	var chosen *option
	for i := range p.items {
		if i == 0 || p.items[i].kind != p.items[i-1].kind {
			cost, chosen = math.MaxInt64, nil
			for j := range p.items[i].options {
				if o := &p.items[i].options[j]; o.priced(prices) < cost {
					cost, chosen = o.priced(prices), o
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

// bounds give a lower bound of the cost of completing a partial choice: the sum over the items that are left, and over
// the resources by their load.
type bounds struct {
	after []int64   // by item: of this one and all after it
	load  [][]int64 // by cell and load
	price []int64
	least [][]int64 // by item and option: the priced cost
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
			b.least[i][j] = p.items[i].options[j].priced(prices)
			best = min(best, b.least[i][j])
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

// floor returns the lower bound of any choice.
func (b *bounds) floor(p *problem) int64 {
	floor := b.after[0]
	for r := range p.resources {
		floor += b.rest(p, r, 0)
	}
	return floor
}

// rest returns the lower bound of the cost that a load of a resource still adds.
func (b *bounds) rest(p *problem, r, load int) int64 {
	if b.load[r] == nil {
		return -b.price[r] * int64(p.resources[r].room-load)
	}
	return b.load[r][load]
}
