package placement

// improve makes a choice cheaper, as long as that works, by giving one item another option, or two items other
// promising options at once. It changes the choice and returns its cost. Afterwards no cell in which vCPUs share cores
// has cores of vhost threads: giving those up is always cheaper.
func (p *problem) improve(b *bounds, choice []int, cost int64) int64 {
	lists := b.order(p, maxPromising, 1<<62)
	loads := make([]int, len(p.resources))
	for i, j := range choice {
		p.addLoad(loads, i, j, 1)
	}
	tried := 0
	for range maxRounds {
		before := cost
		for again := true; again; {
			again = false
			for i := range p.items {
				if gain, at := p.bestOption(loads, choice, i); gain > 0 {
					p.addLoad(loads, i, choice[i], -1)
					choice[i] = at
					p.addLoad(loads, i, at, 1)
					cost -= gain
					again = true
				}
			}
		}
		for i := range p.items {
			for k := i + 1; k < len(p.items); k++ {
				if tried < maxExchanges && (p.items[i].kind != p.items[k].kind || choice[i] != choice[k]) {
					tried++
					cost -= p.exchange(loads, lists, choice, i, k)
				}
			}
		}
		if cost == before {
			break
		}
	}
	return cost
}

// maxExchanges is the most pairs of guests that improve tries.
const maxExchanges = 20000

// addLoad adds what an item's option uses to the loads; sign −1 removes it.
func (p *problem) addLoad(loads []int, i, j, sign int) {
	for _, u := range p.items[i].options[j].use {
		loads[u.resource] += sign * u.amount
	}
}

// fits reports whether an option's resources have room for it.
func (p *problem) fits(loads []int, o *option) bool {
	for _, u := range o.use {
		if loads[u.resource]+u.amount > p.resources[u.resource].room {
			return false
		}
	}
	return true
}

// addedCost returns what an option costs on top of loads.
func (p *problem) addedCost(loads []int, o *option) int64 {
	cost := o.cost
	for _, u := range o.use {
		r := &p.resources[u.resource]
		cost += r.costAt(loads[u.resource]+u.amount) - r.costAt(loads[u.resource])
	}
	return cost
}

// bestOption returns the option of one item that saves most, and how much.
func (p *problem) bestOption(loads []int, choice []int, i int) (gain int64, at int) {
	p.addLoad(loads, i, choice[i], -1)
	defer p.addLoad(loads, i, choice[i], 1)
	now := p.addedCost(loads, &p.items[i].options[choice[i]])
	for j := range p.items[i].options {
		o := &p.items[i].options[j]
		if o.cost < now && p.fits(loads, o) {
			if g := now - p.addedCost(loads, o); g > gain {
				gain, at = g, j
			}
		}
	}
	return gain, at
}

// exchange gives two items the pair of options that saves most, and returns how much it saves.
func (p *problem) exchange(loads []int, lists [][]int32, choice []int, i, k int) int64 {
	p.addLoad(loads, i, choice[i], -1)
	p.addLoad(loads, k, choice[k], -1)
	now := p.addedCost(loads, &p.items[i].options[choice[i]])
	p.addLoad(loads, i, choice[i], 1)
	now += p.addedCost(loads, &p.items[k].options[choice[k]])
	p.addLoad(loads, i, choice[i], -1)

	gain, first, second := int64(0), choice[i], choice[k]
	for _, j := range lists[i] {
		if !p.fits(loads, &p.items[i].options[j]) {
			continue
		}
		part := now - p.addedCost(loads, &p.items[i].options[j])
		p.addLoad(loads, i, int(j), 1)
		for _, l := range lists[k] {
			if o := &p.items[k].options[l]; p.fits(loads, o) {
				if g := part - p.addedCost(loads, o); g > gain {
					gain, first, second = g, int(j), int(l)
				}
			}
		}
		p.addLoad(loads, i, int(j), -1)
	}
	choice[i], choice[k] = first, second
	p.addLoad(loads, i, first, 1)
	p.addLoad(loads, k, second, 1)
	return gain
}
