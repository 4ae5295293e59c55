package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/setting"
)

// placeThreads gives every guest's vhost threads and emulator their CPUs, after all vCPUs have theirs.
func (t *table) placeThreads() {
	next := map[string]int{} // by pool: who comes next, so that guests which share one spread over it
	for i := range t.result.Guests {
		p := &t.result.Guests[i]
		g := t.guest(p.Name)
		threads := 0
		for _, n := range g.NICs {
			threads += max(1, n.Queues)
		}
		pool, reason := t.pool(p, g, threads)
		if len(pool) == 0 { // a guest without a vCPU
			continue
		}
		key := pool.String()
		for _, n := range g.NICs {
			for q := range max(1, n.Queues) {
				p.Vhost = append(p.Vhost, Vhost{NIC: n.MAC, Queue: q, CPU: pool[next[key]%len(pool)]})
				next[key]++
			}
		}
		p.VhostWhy = reason
		if threads > len(pool) {
			t.relax("%d vhost threads of %s share %d CPUs (%s)", threads, p.Name, len(pool), pool)
		}
		p.Emulator = pool
		if own := g.Emulator.And(t.online()); len(g.Emulator) > 0 && own.Equal(g.Emulator) && len(own.And(t.vcpus())) == 0 {
			// libvirt keeps the vhost threads in the emulator's cpuset: they can be placed only inside it.
			p.Emulator = own.Or(p.vhostCPUs())
		}
	}
}

func (p *Placed) vhostCPUs() setting.CPUSet {
	var all []int
	for _, v := range p.Vhost {
		all = append(all, v.CPU)
	}
	return setting.CPUs(all...)
}

func (t *table) guest(name string) Guest {
	for _, g := range t.ask.Guests {
		if g.Name == name {
			return g
		}
	}
	return Guest{}
}

func (t *table) online() setting.CPUSet {
	all := make([]int, len(t.ask.CPUs))
	for i, c := range t.ask.CPUs {
		all[i] = c.ID
	}
	return setting.CPUs(all...)
}

func (t *table) vcpus() setting.CPUSet {
	var all []int
	for cpu := range t.taken {
		all = append(all, cpu)
	}
	return setting.CPUs(all...)
}

// pool is the CPUs for a guest's vhost threads and emulator, never empty, with the reason.
func (t *table) pool(p *Placed, g Guest, threads int) (setting.CPUSet, string) {
	home := p.Nodes
	near := t.idle(func(node int) bool { return home.Has(node) })
	if 2*len(near) >= threads && len(near) > 0 {
		return near, fmt.Sprintf("cores of node %s without a vCPU", home)
	}
	if len(home) > 0 {
		for _, node := range t.nodesFrom(home[0], true, g) {
			if home.Has(node) {
				continue
			}
			if far := t.idle(func(n int) bool { return n == node }); len(far) > len(near) {
				return far, fmt.Sprintf("node %s has no cores left for vhost: whole cores of node %d cost the distance between the nodes, the sibling threads on node %s would take half of the vCPUs' cores", home, node, home)
			}
		}
	}
	if len(near) > 0 {
		return near, fmt.Sprintf("the last cores of node %s without a vCPU", home)
	}
	var siblings []int
	for _, v := range p.VCPUs {
		for _, cpu := range t.cores[t.cpus[v.CPU].Core] {
			if t.taken[cpu] == "" && !t.kept.Has(cpu) {
				siblings = append(siblings, cpu)
			}
		}
	}
	if len(siblings) > 0 {
		return setting.CPUs(siblings...), "no core is left without a vCPU: the sibling threads of the guest's own cores"
	}
	kept := t.kept.And(t.cpusOf(home))
	if len(kept) == 0 {
		kept = t.kept
	}
	if len(kept) > 0 {
		return kept, "no CPU is left without a vCPU: the CPUs kept for the host"
	}
	return p.VCPUSet(), "no CPU is left without a vCPU: they share with the guest's own"
}

// idle are all CPUs of cores without a vCPU that are not kept, on nodes that pass the test.
func (t *table) idle(on func(node int) bool) setting.CPUSet {
	var cpus []int
	for _, n := range t.ask.Nodes {
		if on(n.ID) {
			for _, core := range t.freeCores(n.ID) {
				cpus = append(cpus, t.cores[core][0])
			}
		}
	}
	return setting.CPUs(cpus...)
}

func (t *table) cpusOf(nodes setting.CPUSet) setting.CPUSet {
	var cpus []int
	for _, c := range t.ask.CPUs {
		if nodes.Has(c.Node) {
			cpus = append(cpus, c.ID)
		}
	}
	return setting.CPUs(cpus...)
}

// enough is how many CPUs for a NIC's interrupts are looked for before worse ones are left alone: one core forwards
// about 2 Mpps in the kernel, and a guest's own kernel ends near that.
const enough = 4

// placeInterrupts gives every NIC the CPUs that should serve it: of its node, first those that do nothing else, then
// those kept for the host, then vhost's, then sibling threads of vCPUs; from other nodes only where its own has none.
func (t *table) placeInterrupts() {
	vcpus := t.vcpus()
	var vhost []int
	for _, p := range t.result.Guests {
		for _, w := range p.Vhost {
			vhost = append(vhost, w.CPU)
		}
	}
	workers := setting.CPUs(vhost...)
	busy := map[int]bool{} // cores with a vCPU
	for cpu := range t.taken {
		busy[t.cpus[cpu].Core] = true
	}

	class := func(c CPU) int {
		switch {
		case vcpus.Has(c.ID):
			return 9
		case t.kept.Has(c.ID):
			return 1
		case workers.Has(c.ID):
			return 2
		case busy[c.Core]:
			return 3
		case t.cores[c.Core][0] != c.ID:
			return 4 // second thread of a core that has something on its first
		}
		return 0
	}
	names := [...]string{"CPUs that do nothing else", "CPUs kept for the host", "vhost's CPUs", "sibling threads of vCPUs", "second threads of other cores"}

	for _, n := range t.ask.NICs {
		for _, local := range []bool{true, false} {
			var chosen []int
			var from []string
			for want := range names {
				before := len(chosen)
				for _, c := range t.ask.CPUs {
					if class(c) == want && (n.Node < 0 || (c.Node == n.Node) == local) {
						chosen = append(chosen, c.ID)
					}
				}
				if len(chosen) > before {
					from = append(from, names[want])
				}
				if len(chosen) >= enough {
					break
				}
			}
			if len(chosen) == 0 {
				continue
			}
			where := fmt.Sprintf("of the NIC's node %d", n.Node)
			switch {
			case n.Node < 0:
				where = "of any node, because the NIC does not tell its own"
			case !local:
				where = fmt.Sprintf("of other nodes, because guests have all of the NIC's node %d", n.Node)
				t.relax("interrupts of %s go to another node, because guests have all CPUs of its node %d", n.Name, n.Node)
			}
			t.result.NICs = append(t.result.NICs, Serving{Name: n.Name, CPUs: chosen, Why: strings.Join(from, ", then ") + ", " + where})
			break
		}
	}
}

// Spread divides all CPUs over a NIC's transmit queues: first those of vhost threads, guest by guest, so that two
// guests share a queue only when there are fewer queues than threads; then the others in turn. Every CPU has a queue.
func (r *Result) Spread(online setting.CPUSet, queues int) []setting.CPUSet {
	if queues < 1 {
		return nil
	}
	var order []int
	seen := map[int]bool{}
	add := func(cpu int) {
		if online.Has(cpu) && !seen[cpu] {
			seen[cpu] = true
			order = append(order, cpu)
		}
	}
	for _, p := range r.Guests {
		own := slices.Clone(p.Vhost)
		slices.SortStableFunc(own, func(a, b Vhost) int { return cmp.Compare(a.Queue, b.Queue) })
		for _, w := range own {
			add(w.CPU)
		}
	}
	for _, cpu := range online {
		add(cpu)
	}
	sets := make([][]int, queues)
	for i, cpu := range order {
		sets[i%queues] = append(sets[i%queues], cpu)
	}
	spread := make([]setting.CPUSet, queues)
	for i, s := range sets {
		spread[i] = setting.CPUs(s...)
	}
	return spread
}
