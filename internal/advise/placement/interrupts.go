package placement

import (
	"cmp"
	"fmt"
	"slices"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

func (r *Result) relax(format string, a ...any) {
	r.Relaxed = append(r.Relaxed, fmt.Sprintf(format, a...))
}

// placeDaemons assigns the host's daemons CPUs of those kept on their node.
func (t *table) placeDaemons(r *Result) {
	left := r.Housekeeping
	for _, d := range t.ask.Daemons {
		own := left.And(t.cpusOf(setting.CPUs(d.Node)))
		own = own[max(0, len(own)-d.CPUs):] // the host itself uses the lowest ones
		housed := Housed{Name: d.Name, CPUs: setting.CPUs(own...),
			Why: fmt.Sprintf("kept for it on node %d, apart from guests", d.Node)}
		if len(own) < d.CPUs {
			housed.Why = fmt.Sprintf("node %d has %d of the %d CPUs that it needs", d.Node, len(own), d.CPUs)
			r.relax("%s gets %d of %d CPUs, because guests that stay have the others of node %d", d.Name, len(own),
				d.CPUs, d.Node)
		}
		left = left.Minus(housed.CPUs)
		t.daemonCPUs = t.daemonCPUs.Or(housed.CPUs)
		r.Daemons = append(r.Daemons, housed)
	}
}

// reportRelaxed lists the rules that gave way.
func (t *table) reportRelaxed(r *Result) {
	for p := range facts.Each(r.Guests) {
		g := t.ask.guestNamed(p.Name)
		if len(p.Nodes) > 1 && !p.Kept {
			r.relax("%s is spread over nodes %s, because no node has %d cores and its memory to spare", p.Name, p.Nodes,
				len(p.VCPUs))
		}
		if g.Realtime && !t.hasIsolated() {
			r.relax("%s is a realtime guest on CPUs that are not isolated, because none is: isolate them and start "+
				"the host again (boot.isolcpus)", p.Name)
		}
		cores := map[int]bool{}
		for _, v := range p.VCPUs {
			core := t.cpus[v.CPU].Core
			if !p.Kept && (cores[core] || slices.ContainsFunc(t.cores[core],
				func(cpu int) bool { return t.vcpuOn[cpu] != "" && t.vcpuOn[cpu] != p.Name })) {
				r.relax("vCPUs of %s share cores, because the host has too few", p.Name)
				break
			}
			cores[core] = true
		}
		if n := len(p.VhostCPUs()); n < len(p.Vhost) {
			r.relax("%d vhost threads of %s share %s (%s)", len(p.Vhost), p.Name, words.Count(n, "CPU"), p.VhostCPUs())
		}
		switch {
		case g.paged && p.Kept || !g.Hugepages || p.PageSize > 0:
		case g.paged:
			r.relax("%s is in huge pages, and too few of them are free for it on node %s", p.Name, p.Nodes)
		default:
			r.relax("%s gets ordinary pages, because no pool has huge pages enough for it on node %s", p.Name, p.Nodes)
		}
	}
	for _, node := range t.nodesWithCPUs() {
		kept := t.coresIn(r.Housekeeping.And(t.cpusOf(setting.CPUs(node))))
		missing := 0
		for _, c := range t.cells {
			if c.node == node && c.wantKept > 0 {
				missing += c.wantKept - kept
			}
		}
		want, _ := t.hostCores(node)
		cores, _ := t.coresOf(node)
		if frozen := t.frozenCores(node); frozen > 0 && cores-frozen < want && kept < want {
			r.relax("node %d keeps %s for the host where it should keep %d, because guests stay that are pinned to "+
				"%d of its %d", node, words.Count(kept, "core"), want, frozen, cores)
			continue
		}
		if missing > 0 {
			r.relax("node %d keeps %s fewer for the host than it should, because guests would not fit otherwise", node,
				words.Count(missing, "core"))
		}
	}
}

// Spread divides all CPUs over a NIC's transmit queues: first those of vhost threads, guest by guest, so that two
// guests share a queue only if there are fewer queues than threads; then the others in turn. Every CPU has a queue.
func (r *Result) Spread(online setting.CPUSet, queues int) []setting.CPUSet {
	if queues < 1 {
		return nil
	}
	var order []int
	add := func(cpu int) {
		if online.Has(cpu) && !slices.Contains(order, cpu) {
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
	spread := make([]setting.CPUSet, queues)
	for i, cpu := range order {
		spread[i%queues] = spread[i%queues].Or(setting.CPUs(cpu))
	}
	return spread
}
