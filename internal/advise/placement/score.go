package placement

import (
	"cmp"
	"slices"

	"mpps/internal/model/facts"
)

// Score returns the cost of a placement from the CPUs that it assigns, also of one that Place did not make. A vhost
// thread that is not in the result costs nothing.
func Score(ask Ask, r *Result) Cost {
	t := newTable(ask)
	s := &scorer{t: t, r: r, vcpus: map[int]int{}, vhost: map[int]int{}, onCore: map[int]int{},
		weights: map[string]int64{}}
	for _, it := range t.items(freedom{}, nil) {
		s.weights[it.guest.Name] = it.weight
	}
	var c Cost
	for _, p := range r.Guests {
		for _, v := range p.VCPUs {
			if cpu, online := t.cpus[v.CPU]; online {
				s.vcpus[v.CPU]++
				s.onCore[cpu.Core]++
			}
		}
	}
	for _, p := range r.Guests {
		c.Spread += max(len(p.Nodes), 1) - 1
		for _, v := range p.VCPUs {
			if cpu, online := t.cpus[v.CPU]; online && s.onCore[cpu.Core] > 1 {
				c.Sharing++
			}
		}
		c.Total += s.addHome(&p, &c)
		s.addPaths(&p, &c)
	}
	for g := range facts.Each(t.ask.Guests) {
		switch p := r.Guest(g.Name); {
		case p == nil && (g.Shared || !t.toPlace(g)) && !g.refused:
			c.Total += costLeft
		case p == nil:
			c.Refused++
			c.Total += refusal(g)
		case g.Hugepages && p.PageSize == 0:
			c.Pages++
		}
	}
	s.addCells(&c)
	c.Total += costSharing*int64(c.Sharing) + costSpread*int64(c.Spread) + costReserve*int64(c.Reserve) +
		costPages*int64(c.Pages) + costServing*int64(c.Interrupts) + costPoint*(c.Distance+c.Crowding) +
		c.Balance + costUsed*int64(c.Used)
	return c
}

// scorer counts what runs where.
type scorer struct {
	t       *table
	r       *Result
	vcpus   map[int]int // by CPU
	onCore  map[int]int // vCPUs by core
	vhost   map[int]int // by CPU; for a core with vhost threads only, all are counted at its first CPU
	weights map[string]int64
}

// addHome counts a guest's vCPUs off isolated cores and off its memory's nodes, and returns their cost.
func (s *scorer) addHome(p *Placed, c *Cost) int64 {
	g := s.t.ask.guestNamed(p.Name)
	exposed, away := int64(0), int64(0)
	for _, v := range p.VCPUs {
		cpu, online := s.t.cpus[v.CPU]
		i, known := s.t.cellOf[cpu.Core]
		if !online || !known {
			continue
		}
		e := s.t.cells[i].exposure(g, s.t.hasIsolated())
		exposed, away = exposed+e, away+s.t.awayFrom(g, cpu.Node)
		c.Exposed += count01(e > 0)
	}
	c.Away += int(away)
	return (costExposed*exposed + costAway*away) / int64(max(1, len(p.VCPUs)))
}

// addPaths adds the cost of a guest's packet paths, and of the places of its vhost threads.
func (s *scorer) addPaths(p *Placed, c *Cost) {
	t := s.t
	w := cmp.Or(s.weights[p.Name], 1)
	shares := t.shares(p, t.nodesWithCPUs())
	c.Distance += t.nicPoints(t.ask.guestNamed(p.Name), w, shares)
	from := map[int]int{}
	for _, v := range p.Vhost {
		cpu, online := t.cpus[v.CPU]
		place := v.CPU
		switch {
		case !online:
			continue
		case s.vcpus[v.CPU] > 0:
			c.Crowding += w * pointsOwn
			continue
		case s.r.Housekeeping.Has(v.CPU):
			c.Crowding += w * t.pointsKept
			continue
		case s.onCore[cpu.Core] > 0:
			c.Crowding += w * pointsSibling
		default:
			place = t.cores[cpu.Core][0]
			from[cpu.Node]++
			if i, known := t.cellOf[cpu.Core]; known && t.cells[i].allowed != "" {
				c.Distance += w * pointsGiven
			}
		}
		c.Crowding += w * pointsPair * int64(s.vhost[place])
		s.vhost[place]++
	}
	for node, n := range from {
		c.Distance += t.vhostPoints(n, w, node, shares)
	}
}

// addCells adds what depends on how full the nodes are.
func (s *scorer) addCells(c *Cost) {
	t := s.t
	used, kept, all := make([]int, len(t.cells)), make([]int, len(t.cells)), 0
	idle := make([]int, len(t.cells)) // cores with neither vCPU nor vhost thread, kept for the host or not
	spare := map[int]int{}
	for id, cpus := range t.cores {
		i, known := t.cellOf[id]
		if !known {
			continue
		}
		all++
		switch {
		case s.onCore[id] > 0, slices.ContainsFunc(cpus, func(cpu int) bool { return s.vhost[cpu] > 0 }):
			used[i]++
			continue
		case s.r.Housekeeping.Has(cpus[0]):
			kept[i]++
		case t.cells[i].allowed != "" || t.cells[i].claimed:
		default:
			c.Spare++
			spare[t.cells[i].node]++
			c.Largest = max(c.Largest, spare[t.cells[i].node])
		}
		idle[i]++
	}
	for i, cell := range t.cells {
		c.Used += used[i]
		c.Reserve += max(0, cell.wantKept-kept[i])
		c.Interrupts += max(0, cell.serving-idle[i])
		c.Balance += balance(used[i], cell.size, all)
	}
}
