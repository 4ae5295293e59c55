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
		if !c.ordinary() && !own || !c.reaches(it.guest) {
			continue
		}
		points := t.vhostPoints(it.vhost, it.weight, c.node, shares)
		if own {
			points += pointsGiven * it.weight * n
		}
		most := len(c.free) - c.mustKeep
		// beside its own vCPUs, so that fewer() passes what is left, as it will once they are pinned
		for _, p := range base.parts {
			if left := most - p.vcpus; p.cell == i && left > 0 {
				most = left
			}
		}
		most = min(most, it.vhost)
		for cores := most; cores >= 1; cores = fewer(cores, it.vhost) {
			add(vhostPlace{onCores, i, cores}, points+pointsPair*it.weight*pairs(it.vhost, cores), use{i, cores})
		}
	}
	if s := t.siblings(it, base.parts); s > 0 {
		add(vhostPlace{kind: onSiblings}, it.weight*(pointsSibling*n+pointsPair*pairs(it.vhost, s)))
	}
	hasKept := t.hostHasCPUs() && t.keptReaches(it.guest)
	if hasKept {
		add(vhostPlace{kind: onKept}, it.weight*t.pointsKept*n)
	}
	if !hasKept || t.keptIsFull(it.guest) {
		add(vhostPlace{kind: onOwn}, it.weight*pointsOwn*n)
	}
}

// fewer returns the next number of cores that is tried for some threads: each down to a quarter of the threads, and
// below that, where cores are few, a quarter less.
func fewer(cores, threads int) int {
	if cores > max(1, threads/4) {
		return cores - 1
	}
	return cores - max(1, cores/4)
}

// keptIsFull reports whether a guest's vhost threads are better off on its own CPUs than on those kept for the host. A
// thread of a realtime guest would wait there behind its vCPU, and isolated CPUs are for vCPUs alone.
func (t *table) keptIsFull(g *Guest) bool {
	return t.pointsKept > pointsOwn && !g.Realtime && !t.hasIsolated()
}

// siblings returns how many CPUs are idle on the cores of a guest's vCPUs.
func (t *table) siblings(it *item, parts []part) int {
	if it.seated != nil {
		return len(t.idleSiblings(it.seated.VCPUSet()))
	}
	n := 0
	for _, p := range parts {
		if c := t.cells[p.cell]; !c.quiet || !t.hostHasCPUs() {
			n += p.vcpus * (c.threads - 1)
		}
	}
	return n
}

// hostHasCPUs reports whether the host keeps CPUs that are not isolated.
func (t *table) hostHasCPUs() bool {
	return len(t.shared) > 0 || slices.ContainsFunc(t.cells, func(c *cell) bool { return c.mustKeep > 0 })
}

// keptReaches reports whether a guest's control groups have CPUs that the host keeps for sure.
func (t *table) keptReaches(g *Guest) bool {
	return len(g.Confined) == 0 || len(t.shared.And(g.Confined)) > 0 ||
		slices.ContainsFunc(t.cells, func(c *cell) bool { return c.mustKeep > 0 && c.reaches(g) })
}

// keptPoints returns the points of a vhost thread on CPUs kept for the host: more where threads for which no core will
// be left crowd them, and more than those of the guest's own CPUs where each would have fullKept or more.
func (t *table) keptPoints() int64 {
	spare, kept, threads := 0, len(t.shared), 0
	for _, g := range t.ask.Guests {
		if t.toPlace(&g) {
			spare -= g.VCPUs
		}
		threads += vhostCount(&g)
	}
	for _, c := range t.cells {
		if !c.isolated {
			spare += len(c.free) - c.wantKept
		}
	}
	short := max(-spare, 0) // cores that the host would like and vCPUs take
	for _, c := range t.cells {
		if !c.isolated {
			taken := min(short, c.wantKept-c.mustKeep)
			short, kept = short-taken, kept+(c.wantKept-taken)*c.threads
		}
	}
	crowd := (threads - max(spare, 0)) / max(kept, 1)
	if crowd >= fullKept {
		return pointsOwn + pointsPair/2*int64(min(crowd, maxCrowd))
	}
	return pointsKept + pointsPair/2*int64(min(max(crowd-1, 0), maxCrowd))
}

// fullKept is how many vhost threads on each CPU kept for the host are too many, so that a guest's own CPUs are better.
const fullKept = 12

// maxCrowd is the most threads on one CPU that are counted.
const maxCrowd = 50

// idleSiblings returns the CPUs without a vCPU on the cores of some CPUs, isolated ones only if the host has no others.
func (t *table) idleSiblings(cpus setting.CPUSet) setting.CPUSet {
	var idle []int
	for _, cpu := range cpus {
		if c, online := t.cpus[cpu]; online {
			idle = append(idle, t.cores[c.Core]...)
		}
	}
	aside := t.hostHasCPUs()
	return setting.CPUs(slices.DeleteFunc(idle, func(cpu int) bool {
		return t.vcpuOn[cpu] != "" || aside && t.ask.setAside(t.cpus[cpu])
	})...)
}

// emulatorMoves returns how much the place of a guest's vhost threads differs from where its emulator threads are
// pinned today, and vhost with them: 2 if on another node or not on the CPUs kept for the host, 1 if on another number
// of cores, else 0. Of equally good places a guest keeps its own.
func (t *table) emulatorMoves(g *Guest, place vhostPlace) int64 {
	cores := slices.DeleteFunc(slices.Clone(g.Emulator), t.keeps)
	switch {
	case place.kind == onKept && len(g.Emulator) > 0 && len(cores) == 0:
		return 0
	case place.kind != onCores:
		return 2
	}
	c := t.cells[place.cell]
	own := 0
	for _, core := range c.free {
		own += count01(slices.ContainsFunc(core.seats, cores.Has))
	}
	near := slices.ContainsFunc(cores, func(cpu int) bool { return t.cpus[cpu].Node == c.node })
	return int64(count01(!near)) + int64(count01(own != place.cores))
}
