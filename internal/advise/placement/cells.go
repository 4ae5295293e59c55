package placement

import (
	"slices"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// makeCells sorts the cores into cells. Cores of guests that stay are not free.
func (t *table) makeCells() {
	type key struct {
		node            int
		isolated, mixed bool
		allowed, within string
		quiet, claimed  bool
	}
	sets := t.setsOf(func(g *Guest) setting.CPUSet { return g.Allowed })
	groups := t.setsOf(func(g *Guest) setting.CPUSet { return g.Confined })
	t.emulatorOn = t.emulators()
	t.crowded = t.sharedBy(vhostPins).Or(t.sharedBy(vhostPinsOfEmulator))
	if house := t.sharedBy(t.houseOf); len(house) > 0 { // vhost threads elsewhere are there because the host is here
		t.crowded = house
	}
	t.crowded = t.crowded.Or(t.lastOrdinary())
	held := t.heldByVhost()
	at := map[key]int{}
	seen := map[int]bool{}
	for _, c := range t.ask.CPUs {
		if seen[c.Core] {
			continue
		}
		seen[c.Core] = true
		k, all := key{node: c.Node}, setting.CPUSet(t.cores[c.Core])
		if len(all.And(t.ask.Taken)) > 0 {
			continue
		}
		seats := all.Minus(t.ask.Barred)
		for _, set := range sets {
			if len(all.And(set)) > 0 {
				k.allowed += set.String() + ";"
				seats = seats.And(set)
			}
		}
		aside := slices.DeleteFunc(slices.Clone(all), func(cpu int) bool { return !t.ask.setAside(t.cpus[cpu]) })
		if k.quiet = len(aside) > 0; k.quiet && k.allowed == "" {
			others := all.And(t.unseated)
			k.isolated, k.mixed, seats = true, len(aside) < len(all) || len(others) > 0, aside
			if alone := aside.Minus(others); len(alone) > 0 {
				seats = alone
			}
			k.claimed = len(all.And(t.ask.Quiet)) > 0
			t.shared = t.shared.Or(all.Minus(aside))
		}
		for _, set := range groups {
			if both := seats.And(set); len(both) > 0 {
				k.within, seats = k.within+set.String()+";", both
			}
		}
		if len(seats) == 0 { // its threads are allowed to different guests
			continue
		}
		i, known := at[k]
		if !known {
			i = len(t.cells)
			at[k] = i
			t.cells = append(t.cells, &cell{node: k.node, isolated: k.isolated, mixed: k.mixed, claimed: k.claimed,
				allowed: k.allowed, within: k.within, quiet: k.quiet, threads: len(seats)})
		}
		cell := t.cells[i]
		cell.size++
		t.cellOf[c.Core] = i
		if !slices.ContainsFunc(all, func(cpu int) bool {
			loose := k.isolated && t.unseated.Has(cpu) // no reason to leave an isolated core idle
			vhost := !loose && (t.vhostOn[cpu] > 0 || held.Has(cpu))
			return t.vcpuOn[cpu] != "" || vhost && !t.shared.Has(cpu) && (k.isolated || !t.keeps(cpu)) ||
				!loose && t.emulatorOn.Has(cpu) && t.ask.setAside(t.cpus[cpu])
		}) {
			cell.free = append(cell.free, core{id: c.Core, seats: seats, alike: c.Alike, slow: c.Slow})
			cell.threads = min(cell.threads, len(seats))
		}
	}
	for _, c := range t.cells {
		slices.SortStableFunc(c.free, func(a, b core) int { return t.keepRank(b) - t.keepRank(a) })
	}
}

// setsOf returns the sets that guests have, each once.
func (t *table) setsOf(of func(g *Guest) setting.CPUSet) (sets []setting.CPUSet) {
	for g := range facts.Each(t.ask.Guests) {
		if set := of(g); len(set) > 0 && !slices.ContainsFunc(sets, set.Equal) {
			sets = append(sets, set)
		}
	}
	return sets
}

// heldByVhost returns the CPUs of emulators whose vhost threads stay, some of them pinned there one by one: the threads
// of queues that the guest gets with its next start run there too.
func (t *table) heldByVhost() (held setting.CPUSet) {
	for g := range facts.Each(t.ask.Guests) {
		if g.threadsStay && g.Seat == nil {
			held = held.Or(vhostPinsOfEmulator(g))
		}
	}
	return held.And(t.emulatorOn)
}

// emulators returns the CPUs that guests' emulator threads are pinned to, apart from all vCPUs.
func (t *table) emulators() (set setting.CPUSet) {
	for _, g := range t.ask.Guests {
		if !slices.ContainsFunc(g.Emulator, func(cpu int) bool { return t.vcpuOn[cpu] != "" }) {
			set = set.Or(g.Emulator)
		}
	}
	return set
}

// houseOf returns where a guest's emulator threads are pinned apart from all vCPUs and from its vhost threads, which
// are pinned one by one.
func (t *table) houseOf(g *Guest) setting.CPUSet {
	pins := vhostPins(g)
	if len(pins) == 0 || len(pins.And(g.Emulator)) > 0 {
		return nil
	}
	return g.Emulator.And(t.emulatorOn)
}

// keeps reports whether the host keeps a CPU already: what vhost threads of several guests are pinned to, and emulators
// with such threads, is its part of the CPUs, and so are its last ones (lastOrdinary).
func (t *table) keeps(cpu int) bool {
	return t.ask.Kept.Has(cpu) || t.ask.Host.Has(cpu) || t.crowded.Has(cpu)
}

// lastOrdinary returns the CPUs that are the host's although vhost threads have them, on nodes where guests' threads
// have each core without a vCPU and the host keeps none: the lowest cores, as many as it should keep, since seat gives
// it these; on a host with isolated CPUs all ordinary ones. There, emulator threads alone leave a core idle (reserve).
func (t *table) lastOrdinary() (set setting.CPUSet) {
	own, idle := map[int][]setting.CPUSet{}, map[int]bool{} // by node: cores without a vCPU, and whether one is idle
	isolated := t.hasIsolated()
	for _, c := range t.ask.CPUs {
		all := setting.CPUSet(t.cores[c.Core])
		if c.ID != all[0] || idle[c.Node] ||
			slices.ContainsFunc(all, func(cpu int) bool { return t.vcpuOn[cpu] != "" }) {
			continue
		}
		ordinary := slices.DeleteFunc(slices.Clone(all), func(cpu int) bool {
			return t.ask.setAside(t.cpus[cpu]) || t.ask.Taken.Has(cpu)
		})
		if len(ordinary) == 0 {
			continue
		}
		own[c.Node] = append(own[c.Node], ordinary)
		idle[c.Node] = slices.ContainsFunc(ordinary, t.keeps) ||
			!slices.ContainsFunc(all, func(cpu int) bool {
				return t.vhostOn[cpu] > 0 || !isolated && t.emulatorOn.Has(cpu)
			})
	}
	for node, cores := range own {
		if idle[node] {
			continue
		}
		if want, _ := t.hostCores(node); !isolated {
			cores = cores[:min(len(cores), max(want, t.servingCores(node)))]
		}
		for _, cpus := range cores {
			set = set.Or(cpus)
		}
	}
	return set
}

// sharedBy returns the CPUs that more than one guest has.
func (t *table) sharedBy(of func(g *Guest) setting.CPUSet) (shared setting.CPUSet) {
	var one setting.CPUSet
	for g := range facts.Each(t.ask.Guests) {
		own := of(g)
		shared, one = shared.Or(own.And(one)), one.Or(own)
	}
	return shared
}

// vhostPins returns the CPUs that vhost threads of a guest are pinned to, one by one.
func vhostPins(g *Guest) (set setting.CPUSet) {
	for _, w := range g.Workers {
		if len(w.CPUs) == 1 {
			set = set.Or(w.CPUs)
		}
	}
	return set
}

// vhostPinsOfEmulator returns the CPUs of a guest's emulator if vhost threads are pinned to some of them.
func vhostPinsOfEmulator(g *Guest) setting.CPUSet {
	if len(vhostPins(g).And(g.Emulator)) == 0 {
		return nil
	}
	return g.Emulator
}

// keepRank returns 2 for a core that the host keeps already and that has work, 1 for others that it keeps, else 0.
func (t *table) keepRank(c core) int {
	rank := 0
	for _, cpu := range t.cores[c.id] {
		switch {
		case t.keeps(cpu) && t.vhostOn[cpu] > 0:
			return 2
		case t.keeps(cpu):
			rank = 1
		}
	}
	return rank
}
