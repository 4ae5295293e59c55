package placement

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

const (
	// enoughCPUs is the number of CPUs for a NIC's interrupts from which on worse ones are not added: one core forwards
	// about 2 Mpps in the kernel, and a guest's own kernel handles hardly more.
	enoughCPUs = 4
	// queuesPerCPU is how many busy queues one CPU serves. Of 1.8 Mpps, each of 9 queues carries 200 kpps: four are
	// what is left of a core's 2 Mpps when each packet passes bridge and vhost's queue as well.
	queuesPerCPU = 4
)

// NICQueues returns how many NIC queues a goal needs: one for each vhost thread's worth of packets, or for each
// 8 Gbit/s of bulk, a little less than one core receives with GRO; at least 4, since flows hash unevenly.
func NICQueues(g goal.Goal) int {
	if g.PPS == 0 && g.Bulk == 0 {
		return math.MaxInt
	}
	return max(4, int(math.Ceil(g.PPS/PerQueue)), int(math.Ceil(g.Bulk/8e9)))
}

// busyQueues returns how many queues of a NIC the goal keeps busy: from 500 kpps or 10 Gbit/s on all that it has or
// that nic.channels gives it, as many as enoughCPUs can serve; below that none, because one CPU serves them all.
func busyQueues(n *facts.NIC, g goal.Goal) int {
	if g.Tier() != goal.Aggressive {
		return 0
	}
	queues := n.RxQueues
	if n.Channels != nil {
		queues = max(n.Channels.Combined, n.Channels.Rx)
	}
	if c := n.Channels; c != nil && c.Combined > 0 {
		queues = max(queues, min(c.MaxCombined, NICQueues(g)))
	}
	return min(queues, enoughCPUs*queuesPerCPU)
}

// busyOn returns the busy queues of all NICs of a node, and the NICs' names.
func (t *table) busyOn(node int) (queues int, names []string) {
	for _, n := range t.ask.NICs {
		if n.Node == node && !n.Left && n.Queues > 0 {
			queues, names = queues+n.Queues, append(names, n.Name)
		}
	}
	return queues, names
}

// servingCPUs returns how many CPUs the interrupts of a node's busy NICs need, 0 if it has none.
func (t *table) servingCPUs(node int) int {
	queues, _ := t.busyOn(node)
	return (queues + queuesPerCPU - 1) / queuesPerCPU
}

// servingCores returns how many free cores of a node the interrupts of its busy NICs need, with the daemons' cores, 0
// if it has no busy NICs. The host's threads of cores whose others are isolated serve too.
func (t *table) servingCores(node int) int {
	cpus := t.servingCPUs(node)
	if cpus == 0 {
		return 0
	}
	_, threads := t.coresOf(node)
	cpus = max(0, cpus-len(t.shared.And(t.cpusOf(setting.CPUs(node)))))
	for _, d := range t.ask.Daemons {
		if d.Node == node {
			cpus += d.CPUs
		}
	}
	return (cpus + threads - 1) / threads
}

// servingKind says what else a CPU does that may serve interrupts.
type servingKind int

const (
	noServing     servingKind = iota - 1
	onIdle                    // nothing
	onHouse                   // it is kept for the host
	onVhost                   // vhost threads
	onVCPUSibling             // its core's other thread has a vCPU
	onSecond                  // the second thread of a core that has something on its first
)

var servingWords = [...]string{"CPUs that do nothing else", "CPUs kept for the host", "vhost's CPUs",
	"sibling threads of vCPUs", "second threads of other cores"}

// servingPoints are the points of one busy queue, as those of a vhost thread there.
var servingPoints = [...]int64{0, 0, pointsKept, pointsSibling, pointsKept + pointsPair}

// servingGroup is the CPUs of one kind that may serve a NIC.
type servingGroup struct {
	kind   servingKind
	local  bool // on the NIC's node
	cpus   []int
	points int64 // of one queue
}

func (g *servingGroup) words() string {
	if g.local {
		return servingWords[g.kind]
	}
	return servingWords[g.kind] + " on other nodes"
}

// servingGroups returns the CPUs that may serve a NIC, local ones first. CPUs that are isolated, or will be, serve only
// their guest.
func (t *table) servingGroups(r *Result, n NIC) []servingGroup {
	busy := map[int]bool{} // cores with a vCPU
	for cpu := range t.vcpuOn {
		busy[t.cpus[cpu].Core] = true
	}
	kindOf := func(c CPU) servingKind {
		switch {
		case t.vcpuOn[c.ID] != "" || t.ask.setAside(c) || t.ask.Taken.Has(c.ID):
			return noServing
		case busy[c.Core]: // kept for the host or not
			return onVCPUSibling
		case r.Housekeeping.Has(c.ID):
			return onHouse
		case t.vhostOn[c.ID] > 0:
			return onVhost
		case t.cores[c.Core][0] != c.ID:
			return onSecond
		}
		return onIdle
	}
	var all []servingGroup
	for _, local := range []bool{true, false} {
		for kind := range servingKind(len(servingWords)) {
			g := servingGroup{kind: kind, local: local, points: servingPoints[kind]}
			for _, c := range t.ask.CPUs {
				if kindOf(c) == kind && (n.Node < 0 || c.Node == n.Node) == local {
					g.cpus = append(g.cpus, c.ID)
					if !local {
						g.points = max(g.points, servingPoints[kind]+pointsNIC*t.distance(n.Node, c.Node))
					}
				}
			}
			if len(g.cpus) > 0 {
				all = append(all, g)
			}
		}
	}
	return all
}

// placeInterrupts assigns every NIC the CPUs that serve it: of its node, first idle ones, then those kept for the host,
// then vhost's, then sibling threads of vCPUs; of other nodes only if its own has none. Those of busy NICs get the
// cheapest CPUs, and of other nodes as many as they lack.
func (t *table) placeInterrupts(r *Result) {
	offset := map[string]int{} // by list of CPUs: queues that it serves already
	for _, n := range t.ask.NICs {
		if n.Left {
			continue
		}
		s := t.serveQuiet(r, n)
		if n.Queues > 0 {
			s = t.serveBusy(r, n)
		}
		if len(s.CPUs) == 0 {
			continue
		}
		list := fmt.Sprint(s.CPUs)
		first := offset[list] % len(s.CPUs)
		offset[list] += n.Queues
		s.CPUs = slices.Concat(s.CPUs[first:], s.CPUs[:first])
		r.NICs = append(r.NICs, s)
	}
	t.countServing(r)
}

// serveQuiet returns the CPUs for a NIC without busy queues under the goal.
func (t *table) serveQuiet(r *Result, n NIC) Serving {
	s := Serving{Name: n.Name}
	groups := t.servingGroups(r, n)
	realtime := slices.ContainsFunc(t.ask.Guests, func(g Guest) bool { return g.Realtime })
	choose := func(local bool) (from []string) {
		for _, g := range groups {
			if g.local == local && g.kind != onVCPUSibling && !(g.kind == onVhost && realtime) {
				s.Stay = s.Stay.Or(setting.CPUs(g.cpus...))
			}
			if g.local == local && len(s.CPUs) < enoughCPUs {
				s.CPUs, from = append(s.CPUs, g.cpus...), append(from, servingWords[g.kind])
			}
		}
		s.Stay = s.Stay.Or(setting.CPUs(s.CPUs...))
		return from
	}
	where := fmt.Sprintf("of the NIC's node %d", n.Node)
	from := choose(true)
	if n.Node < 0 {
		where = "of any node, because the NIC does not tell its own"
	} else if len(s.CPUs) == 0 {
		where = fmt.Sprintf("of other nodes, because guests have all of the NIC's node %d", n.Node)
		if from = choose(false); len(s.CPUs) > 0 {
			r.relax("interrupts of %s go to another node, because guests have all CPUs of its node %d", n.Name, n.Node)
		}
	}
	s.Why = strings.Join(from, ", then ") + ", " + where
	return s
}

// serveBusy returns the CPUs for a NIC with busy queues, and what others would cost.
func (t *table) serveBusy(r *Result, n NIC) Serving {
	s := Serving{Name: n.Name}
	groups := t.servingGroups(r, n)
	slices.SortStableFunc(groups, func(a, b servingGroup) int { return cmp.Compare(a.points, b.points) })
	queues, names := t.busyOn(n.Node)
	need, own := t.servingCPUs(n.Node), 0
	hasLocal := slices.ContainsFunc(groups, func(g servingGroup) bool { return g.local })
	var from, other []string // other: not on the node, or not for interrupts alone
	for _, g := range groups {
		take := g.cpus
		limit := need
		if g.local || !hasLocal { // as for quiet ones
			limit = max(need, enoughCPUs)
		}
		if !g.local && hasLocal {
			take = t.lessBusy(groups, take, n.Node)
		}
		switch missing := max(0, limit-len(s.CPUs)); {
		case g.local && g.points == 0:
			own += len(take)
		case missing == 0:
			take = nil
		case !g.local || g.kind == onVCPUSibling:
			take = take[:min(len(take), missing)]
		}
		if len(take) > 0 && (!g.local || g.points > 0) {
			other = append(other, g.words())
		}
		if len(take) > 0 {
			s.CPUs, from = append(s.CPUs, take...), append(from, g.words())
		}
		s.Others = append(s.Others, Alternative{
			What: fmt.Sprintf("%s (%s)", g.words(), cpuList(setting.CPUs(g.cpus...))), Chosen: len(take) > 0,
			Cost: pointsPair*pairs(queues, len(g.cpus)) + g.points*int64(queues),
			Why:  fmt.Sprintf("all %s there: %d for a CPU", words.Count(queues, "queue"), perCPU(queues, len(g.cpus))),
		})
	}
	need = max(need, 1)
	s.Why = fmt.Sprintf("%s; %s of %s are to have %s, one for each %d", strings.Join(from, ", then "),
		words.Count(queues, "busy queue"), strings.Join(names, ", "), words.Count(need, "CPU"), queuesPerCPU)
	if own < need && len(other) > 0 && n.Name == names[0] {
		r.relax("interrupts of %s have %s of their node %d where %d should serve their %s, because guests have the "+
			"others: they also get %s", strings.Join(names, ", "), words.Count(own, "CPU"), n.Node, need,
			words.Count(queues, "busy queue"), strings.Join(other, ", "))
	}
	return s
}

// lessBusy returns those of some CPUs whose nodes have fewer busy queues for each of their free CPUs than a node:
// borrowing from one that has as many only sends packets of both NICs across.
func (t *table) lessBusy(groups []servingGroup, cpus []int, node int) []int {
	load := func(node int) int {
		queues, _ := t.busyOn(node)
		free := 0
		for _, g := range groups {
			for _, cpu := range g.cpus {
				free += count01(g.kind <= onHouse && t.cpus[cpu].Node == node)
			}
		}
		if queues > 0 && free == 0 {
			return math.MaxInt
		}
		return 1000 * queues / max(1, free)
	}
	return slices.DeleteFunc(slices.Clone(cpus), func(cpu int) bool { return load(t.cpus[cpu].Node) >= load(node) })
}

// perCPU returns how many queues the busiest of some CPUs serves.
func perCPU(queues, cpus int) int { return (queues + cpus - 1) / cpus }

// countServing sets how many busy queues of all NICs share a CPU.
func (t *table) countServing(r *Result) {
	load := map[int]int{}
	each := func(do func(s *Serving, cpu int)) {
		for _, n := range t.ask.NICs {
			if s := r.NIC(n.Name); s != nil {
				for q := range n.Queues {
					do(s, s.CPUs[q%len(s.CPUs)])
				}
			}
		}
	}
	each(func(_ *Serving, cpu int) { load[cpu]++ })
	each(func(s *Serving, cpu int) { s.Most = max(s.Most, load[cpu]) })
	for _, s := range r.NICs {
		if s.Most > queuesPerCPU {
			r.relax("%d busy queues share a CPU for the interrupts of %s, because no more CPUs are left", s.Most,
				s.Name)
		}
	}
}
