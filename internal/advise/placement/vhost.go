package placement

import (
	"slices"

	"mpps/internal/model/setting"
)

// addVhostPlaces adds an option for each place that the guest's vhost threads can have.
func (t *table) addVhostPlaces(it *item, base option, shares []share) {
	n := int64(it.vhost)
	add := func(place vhostPlace, points int64, extra ...use) {
		o := base
		o.vhost, o.points = place, points
		o.cost += costPoint*points + t.emulatorMoves(it.guest, place)
		o.use = merge(base.use, extra)
		it.options = append(it.options, o)
	}
	if n == 0 {
		add(vhostPlace{}, 0)
		return
	}
	for _, i := range t.vhostCells(shares) {
		c := t.cells[i]
		own := len(it.guest.Allowed) > 0 && !c.quiet && c.admits(it.guest, false)
		if !c.ordinary() && !own {
			continue
		}
		points := t.vhostPoints(it.vhost, it.weight, c.node, shares)
		if own {
			points += pointsGiven * it.weight * n
		}
		for cores := min(it.vhost, len(c.free)-c.mustKeep); cores >= max(1, it.vhost/4); cores-- {
			add(vhostPlace{onCores, i, cores}, points+pointsPair*it.weight*pairs(it.vhost, cores), use{i, cores})
		}
	}
	if s := t.siblings(it, base.parts); s > 0 {
		add(vhostPlace{kind: onSiblings}, it.weight*(pointsSibling*n+pointsPair*pairs(it.vhost, s)))
	}
	if slices.ContainsFunc(t.cells, func(c *cell) bool { return c.mustKeep > 0 }) {
		add(vhostPlace{kind: onKept}, it.weight*pointsKept*n)
	} else {
		add(vhostPlace{kind: onOwn}, it.weight*pointsOwn*n)
	}
}

// siblings returns how many CPUs are idle on the cores of a guest's vCPUs.
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

// idleSiblings returns the CPUs without a vCPU on the cores of some CPUs.
func (t *table) idleSiblings(cpus setting.CPUSet) setting.CPUSet {
	var idle []int
	for _, cpu := range cpus {
		if c, online := t.cpus[cpu]; online {
			idle = append(idle, t.cores[c.Core]...)
		}
	}
	return setting.CPUs(slices.DeleteFunc(idle, func(cpu int) bool { return t.vcpuOn[cpu] != "" })...)
}

// emulatorMoves returns 1 if a guest's emulator threads, and vhost with them, are pinned elsewhere today, else 0: of
// equally good places a guest keeps its own.
func (t *table) emulatorMoves(g *Guest, place vhostPlace) int64 {
	if place.kind == onCores && slices.ContainsFunc(g.Emulator,
		func(cpu int) bool { return t.cpus[cpu].Node == t.cells[place.cell].node }) {
		return 0
	}
	return 1
}
