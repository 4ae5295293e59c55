package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/setting"
)

// enough is how many CPUs for a NIC's interrupts are looked for before worse ones are left alone: one core forwards
// about 2 Mpps in the kernel, and a guest's own kernel ends near that.
const enough = 4

// interrupts gives every NIC the CPUs that should serve it: of its node, first those that do nothing else, then those
// kept for the host, then vhost's, then sibling threads of vCPUs; from other nodes only where its own has none. CPUs
// that are isolated, or are to be, serve nobody but their guest.
func (t *table) interrupts(r *Result) {
	busy := map[int]bool{} // cores with a vCPU
	for cpu := range t.taken {
		busy[t.cpus[cpu].Core] = true
	}
	class := func(c CPU) int {
		switch {
		case t.taken[c.ID] != "" || t.ask.aside(c):
			return 9
		case r.Housekeeping.Has(c.ID):
			return 1
		case t.worked[c.ID] > 0:
			return 2
		case busy[c.Core]:
			return 3
		case t.cores[c.Core][0] != c.ID:
			return 4 // second thread of a core that has something on its first
		}
		return 0
	}
	names := [...]string{"CPUs that do nothing else", "CPUs kept for the host", "vhost's CPUs",
		"sibling threads of vCPUs", "second threads of other cores"}

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
				r.relax("interrupts of %s go to another node, because guests have all CPUs of its node %d", n.Name,
					n.Node)
			}
			r.NICs = append(r.NICs, Serving{Name: n.Name, CPUs: chosen, Why: strings.Join(from, ", then ") + ", " +
				where})
			break
		}
	}
}

func (r *Result) relax(format string, a ...any) {
	r.Relaxed = append(r.Relaxed, fmt.Sprintf(format, a...))
}

// house gives the host's daemons their CPUs: of those kept, on their node.
func (t *table) house(r *Result) {
	left := r.Housekeeping
	for _, d := range t.ask.Daemons {
		var own []int
		for _, cpu := range left.And(t.cpusOf(setting.CPUs(d.Node))) {
			own = append(own, cpu)
		}
		slices.Reverse(own) // the host's own work is on the lowest
		own = own[:min(d.CPUs, len(own))]
		housed := Housed{Name: d.Name, CPUs: setting.CPUs(own...),
			Why: fmt.Sprintf("kept for it on node %d, apart from guests", d.Node)}
		if len(own) < d.CPUs {
			housed.Why = fmt.Sprintf("node %d has %d of the %d CPUs that it needs", d.Node, len(own), d.CPUs)
			r.relax("%s gets %d of %d CPUs, because guests that stay have the others of node %d", d.Name, len(own),
				d.CPUs, d.Node)
		}
		left = left.Minus(housed.CPUs)
		t.housed = t.housed.Or(housed.CPUs)
		r.Daemons = append(r.Daemons, housed)
	}
}

// gaveWay lists the rules that had to give way.
func (t *table) gaveWay(r *Result) {
	for i := range r.Guests {
		p := &r.Guests[i]
		if len(p.Nodes) > 1 && !p.Kept {
			r.relax("%s is spread over nodes %s, because no node has %d cores and its memory to spare", p.Name, p.Nodes,
				len(p.VCPUs))
		}
		if t.guest(p.Name).Realtime && !t.hasIsolated() {
			r.relax("%s is a realtime guest on CPUs that are not isolated, because none is: isolate them and start "+
				"the host anew (boot.isolcpus)", p.Name)
		}
		cores := map[int]bool{}
		for _, v := range p.VCPUs {
			core := t.cpus[v.CPU].Core
			if !p.Kept && (cores[core] || slices.ContainsFunc(t.cores[core],
				func(cpu int) bool { return t.taken[cpu] != "" && t.taken[cpu] != p.Name })) {
				r.relax("vCPUs of %s share cores, because the host has too few", p.Name)
				break
			}
			cores[core] = true
		}
		if n := len(p.vhostCPUs()); n < len(p.Vhost) {
			r.relax("%d vhost threads of %s share %s (%s)", len(p.Vhost), p.Name, many(n, "CPU"), p.vhostCPUs())
		}
		if t.guest(p.Name).Hugepages && p.PageSize == 0 {
			r.relax("%s gets ordinary pages, because no pool has huge pages enough for it on node %s", p.Name, p.Nodes)
		}
	}
	for _, node := range t.nodesWithCPUs() {
		missing := 0
		for _, c := range t.cells {
			if c.node == node && c.want > 0 {
				missing += c.want - t.coresIn(r.Housekeeping.And(t.cpusOf(setting.CPUs(node))))
			}
		}
		kept := t.coresIn(r.Housekeeping.And(t.cpusOf(setting.CPUs(node))))
		want, _ := t.hostCores(node)
		if cores, _ := t.coresOf(node); t.staying(node) > 0 && cores-t.staying(node) < want && kept < want {
			r.relax("node %d keeps %s for the host where it should keep %d, because guests stay that are pinned to "+
				"%d of its %d", node, many(kept, "core"), want, t.staying(node), cores)
			continue
		}
		if missing > 0 {
			r.relax("node %d keeps %s fewer for the host than it should, because guests would not fit otherwise", node,
				many(missing, "core"))
		}
	}
}

// coresIn is how many cores some CPUs are.
func (t *table) coresIn(cpus setting.CPUSet) int {
	cores := map[int]bool{}
	for _, cpu := range cpus {
		cores[t.cpus[cpu].Core] = true
	}
	return len(cores)
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
