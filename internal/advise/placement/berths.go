package placement

import (
	"slices"

	"mpps/internal/model/setting"
)

// addBerths adds an option with every place of the guest's vhost threads.
func (t *table) addBerths(it *item, base option, nodes, counts []int) {
	add := func(b berth, points int64, extra ...use) {
		o := base
		o.vhost, o.points = b, points
		o.cost += costPoint*points + t.astray(it.guest, b)
		o.use = merge(base.use, extra)
		it.options = append(it.options, o)
	}
	n := it.threads
	if n == 0 {
		add(berth{}, 0)
		return
	}
	for _, i := range t.reach(nodes) {
		c := &t.cells[i]
		own := len(it.guest.Allowed) > 0 && !c.quiet && c.takes(it.guest, false)
		if !c.main() && !own {
			continue
		}
		way := t.vhostPoints(n, it.weight, c.node, nodes, counts)
		if own {
			way += pointsGiven * it.weight * int64(n)
		}
		for cores := min(n, len(c.free)-c.hard); cores >= max(1, n/4); cores-- {
			add(berth{onCores, i, cores}, way+pointsPair*it.weight*pairs(n, cores), use{i, cores})
		}
	}
	if s := t.siblings(it, base.parts); s > 0 {
		add(berth{kind: onSiblings}, it.weight*(pointsSibling*int64(n)+pointsPair*pairs(n, s)))
	}
	if slices.ContainsFunc(t.cells, func(c cell) bool { return c.hard > 0 }) {
		add(berth{kind: onKept}, it.weight*pointsKept*int64(n))
	} else {
		add(berth{kind: onOwn}, it.weight*pointsOwn*int64(n))
	}
}

// siblings is how many CPUs are idle on the cores of a guest's vCPUs.
func (t *table) siblings(it *item, parts []part) int {
	if it.seated != nil {
		return len(t.idleSiblings(it.seated.VCPUSet()))
	}
	n := 0
	for _, p := range parts {
		n += p.vcpus * (t.cells[p.cell].threads - 1)
	}
	return n
}

// idleSiblings are the CPUs of some CPUs' cores that have no vCPU.
func (t *table) idleSiblings(cpus setting.CPUSet) setting.CPUSet {
	var idle []int
	for _, cpu := range cpus {
		c, online := t.cpus[cpu]
		if !online {
			continue
		}
		for _, s := range t.cores[c.Core] {
			if t.taken[s] == "" {
				idle = append(idle, s)
			}
		}
	}
	return setting.CPUs(idle...)
}

// threadOptions lists the ways to place the vhost threads of a guest that stays.
func (t *table) threadOptions(it *item) {
	seats := map[int]int{}
	for _, v := range it.seated.VCPUs {
		if c, online := t.cpus[v.CPU]; online {
			seats[c.Node]++
		}
	}
	var nodes, counts []int
	for _, node := range it.seated.Nodes {
		nodes, counts = append(nodes, node), append(counts, seats[node])
	}
	t.addBerths(it, option{cost: costPoint * t.nicPoints(it.guest, it.weight, nodes, counts)}, nodes, counts)
}

// astray is 1 where a guest's emulator threads, and vhost with them, are pinned elsewhere today: of equal places it
// keeps the one that it has.
func (t *table) astray(g *Guest, b berth) int64 {
	for _, cpu := range g.Emulator {
		c := t.cpus[cpu]
		if b.kind == onCores && c.Node == t.cells[b.cell].node {
			return 0
		}
	}
	return 1
}
