package placement

// improve makes a choice cheaper by giving one item another of its options, or two at once others of their promising
// ones, as long as that helps. It changes the choice and returns its cost. Afterwards no cell in which vCPUs share
// cores has cores of vhost threads: to give those up is always cheaper.
func (p *problem) improve(b *bounds, choice []int, cost int64) int64 {
	lists := b.order(p, promising, 1<<62)
	loads := make([]int, len(p.resources))
	for i, j := range choice {
		p.shift(loads, i, j, 1)
	}
	tried := 0
	for range rounds {
		before := cost
		for again := true; again; {
			again = false
			for i := range p.items {
				if gain, at := p.best(loads, choice, i); gain > 0 {
					p.shift(loads, i, choice[i], -1)
					choice[i] = at
					p.shift(loads, i, at, 1)
					cost -= gain
					again = true
				}
			}
		}
		for i := range p.items {
			for k := i + 1; k < len(p.items); k++ {
				if tried < exchanges && (p.items[i].kind != p.items[k].kind || choice[i] != choice[k]) {
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

// exchanges is how many pairs of guests are tried at most.
const exchanges = 20000

// shift adds what an item's option uses to the loads, or takes it away.
func (p *problem) shift(loads []int, i, j, sign int) {
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

// added is what an option costs on top of loads.
func (p *problem) added(loads []int, o *option) int64 {
	cost := o.cost
	for _, u := range o.use {
		r := &p.resources[u.resource]
		cost += r.at(loads[u.resource]+u.amount) - r.at(loads[u.resource])
	}
	return cost
}

// best is the option of one item that saves most, and how much.
func (p *problem) best(loads []int, choice []int, i int) (gain int64, at int) {
	p.shift(loads, i, choice[i], -1)
	defer p.shift(loads, i, choice[i], 1)
	now := p.added(loads, &p.items[i].options[choice[i]])
	for j := range p.items[i].options {
		o := &p.items[i].options[j]
		if o.cost < now && p.fits(loads, o) {
			if g := now - p.added(loads, o); g > gain {
				gain, at = g, j
			}
		}
	}
	return gain, at
}

// exchange gives two items the pair of options that saves most, and returns how much.
func (p *problem) exchange(loads []int, lists [][]int32, choice []int, i, k int) int64 {
	p.shift(loads, i, choice[i], -1)
	p.shift(loads, k, choice[k], -1)
	now := p.added(loads, &p.items[i].options[choice[i]])
	p.shift(loads, i, choice[i], 1)
	now += p.added(loads, &p.items[k].options[choice[k]])
	p.shift(loads, i, choice[i], -1)

	gain, first, second := int64(0), choice[i], choice[k]
	for _, j := range lists[i] {
		if !p.fits(loads, &p.items[i].options[j]) {
			continue
		}
		part := now - p.added(loads, &p.items[i].options[j])
		p.shift(loads, i, int(j), 1)
		for _, l := range lists[k] {
			if o := &p.items[k].options[l]; p.fits(loads, o) {
				if g := part - p.added(loads, o); g > gain {
					gain, first, second = g, int(j), int(l)
				}
			}
		}
		p.shift(loads, i, int(j), -1)
	}
	choice[i], choice[k] = first, second
	p.shift(loads, i, first, 1)
	p.shift(loads, k, second, 1)
	return gain
}
