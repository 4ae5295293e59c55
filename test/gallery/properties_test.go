package gallery

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/knob"
	"mpps/internal/advise/lasting"
	"mpps/internal/advise/placement"
	"mpps/internal/advise/site"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/ops"
	"mpps/internal/ops/change"
)

// checkProperties holds a host to what is true of all. What comes after a plan, which takes longest, is looked at for
// the host's own goals, and on every third host for another one: number chooses.
func (s *Spec) checkProperties(all []verdict, number int, p problems) {
	for i, v := range all {
		if v.took > mostTime {
			p.add(s.Name+" takes", "%v with %q, expected at most %v", v.took, v.flags, mostTime)
		}
		s.checkGuide(v, p)
		s.checkRefused(v, p)
		s.checkAllowed(v, p)
		s.checkDeclined(v, p)
		s.checkOwn(v, number%4 == 0, p)
		if s.owns(v) || number%3 == 0 && i == number/3%len(all) {
			s.checkApplied(v, p)
		}
	}
}

// checkGuide: a host that is tuned by its platform's guide has nothing above low.
func (s *Spec) checkGuide(v verdict, p problems) {
	if s.Guide == "" || !s.owns(v) {
		return
	}
	for _, f := range v.report.AtLeast(knob.Medium) {
		p.add(s.Name+" guide "+f.ID, "with %q: %s is %s, wanted %s (%s), although the host is tuned by %s: %s", v.flags,
			f.Address, f.Found, f.Wanted, f.Severity, s.Guide, f.Why)
	}
}

// checkAllowed: nothing is planned whose risk nobody consented to, nor over a value that is not known.
func (s *Spec) checkAllowed(v verdict, p problems) {
	for _, c := range v.plan.Changes {
		if !v.goal.Consents(c.Risk) {
			p.add(s.Name+" consent "+c.ID, "with %q: %s is changed at risk %s", v.flags, c.Address, c.Risk)
		}
		if c.From.State == setting.Unknown {
			p.add(s.Name+" unknown "+c.ID, "with %q: %s is changed to %s, and what it is now is not known", v.flags,
				c.Address, c.To)
		}
	}
}

// checkOwn: what is planned is not foreign, nor, where that is asked, is its first half.
func (s *Spec) checkOwn(v verdict, half bool, p problems) {
	if !s.owns(v) {
		return
	}
	m, err := s.build()
	if err != nil {
		p.add(s.Name+" ends", "%v", err)
		return
	}
	m.Gather()
	h, env := &ops.Host{Facts: m.Host, Site: new(site.File)}, &ops.Env{Root: "/nowhere", Out: ops.Deaf{}}
	own, err := change.Plan(env, h, change.Target{Goal: v.goal})
	if err != nil {
		return // there is nothing to plan for
	}
	if err = change.CheckForeign(env, own, h); err == nil && half {
		lasting.Strip(own)
		own.Changes = own.Changes[:len(own.Changes)/2]
		if err = lasting.Add(own, m.Host); err == nil {
			err = change.CheckForeign(env, own, h)
		}
	}
	if err != nil {
		p.add(s.Name+" foreign", "with %q: %v", v.flags, err)
	}
}

// checkRefused: a guest that gets no place must not fit into what is left, if it may have that.
func (s *Spec) checkRefused(v verdict, p problems) {
	if v.report.Place == nil {
		return
	}
	for _, r := range v.report.Place.Refused {
		g := facts.Find(v.guests, func(g *facts.Guest) bool { return g.Name == r.Guest })
		for _, n := range v.report.Place.Nodes {
			spare := n.Spare
			if v.report.Tier == goal.Realtime && len(v.topology.Isolated) > 0 { // which these guests need
				spare = v.isolatedCores(n.Node, r.Guest)
			}
			if g != nil && !g.Hugepages && !v.bounded[g.Name] && spare >= g.VCPUs && n.Left >= g.Memory {
				p.add(s.Name+" refused", "with %q: guest %s of %d vCPUs has no place, and node %d has %d cores left: %s",
					v.flags, g.Name, g.VCPUs, n.Node, spare, r.Shortage)
			}
		}
	}
}

// isolatedCores counts the isolated cores of a node on which no other guest has a vCPU, nor one that stays a vhost
// thread, and nothing polls.
func (v verdict) isolatedCores(node int, guest string) int {
	used := v.polled
	for _, g := range v.report.Place.Guests {
		used = used.Or(g.VCPUSet())
	}
	for _, g := range v.guests {
		p := v.report.Place.Guest(g.Name)
		for _, t := range g.Threads {
			// one that has no place stays where it is, and so do vhost threads beside a vCPU that stays
			if stays := p == nil && t.Role == "vcpu" || p != nil && p.Kept && t.Role == "vhost"; stays &&
				len(t.Affinity) == 1 && g.Name != guest {
				used = used.Or(t.Affinity)
			}
		}
	}
	free := map[int]bool{}
	for _, c := range v.topology.CPUs {
		if c.Node == node && v.topology.Isolated.Has(c.ID) && len(c.Siblings.And(used)) == 0 {
			free[c.Core] = true
		}
	}
	return len(free)
}

// checkApplied applies a plan: no rule of placement may be broken more often than before, and what was changed must not
// be found again.
func (s *Spec) checkApplied(v verdict, p problems) {
	m, err := s.build()
	if err != nil {
		p.add(s.Name+" ends", "%v", err)
		return
	}
	if s.owns(v) {
		m.Gather()
		again, err := m.audit(v.goal)
		if err != nil || !reflect.DeepEqual(again, v.report) {
			p.add(s.Name+" twice", "with %q: two audits of the same facts differ (%v)", v.flags, err)
		}
	}
	s.checkPossible(m.Host, v, p)
	isolated, there := m.Topology.Isolated, threads(m.Host)
	before := breaches(m.Host, isolated, there)
	type spot struct {
		id string
		a  setting.Address
	}
	changed := map[spot]string{}
	for _, c := range v.plan.Changes {
		changed[spot{c.ID, c.Address}] = c.To.String()
	}
	err = m.settle(v, p, func(after audit.Report) {
		for rule, n := range breaches(m.Host, isolated, there) {
			if n > before[rule] && !v.announced(rule, n) {
				p.add(s.Name+" worse "+rule, "with %q: %d before the plan, %d after it", v.flags, before[rule], n)
			}
		}
		for _, f := range after.InState(audit.Off) {
			if to, was := changed[spot{f.ID, f.Address}]; was && f.Blocked == "" {
				p.add(s.Name+" again "+f.ID, "with %q: %s was set to %s and is to be %s then (found %s): %s", v.flags,
					f.Address, to, f.Wanted, f.Found, f.Why)
			}
		}
	})
	if err != nil {
		p.add(s.Name+" ends", "after the plan for %q: %v", v.flags, err)
	}
}

// ruleNames are the rules of placement that breaches counts.
var ruleNames = map[string]placement.Rule{
	"vcpu on CPU": placement.OwnCPU, "vcpu on core": placement.OwnCore, "vcpu on ordinary": placement.SetAside,
	"nodes": placement.OneNode, "vhost on CPU": placement.VhostCPU, "vhost on core": placement.VhostCore,
	"vhost on isolated": placement.VhostAside, "emulator on CPU": placement.EmulatorCPU,
	"emulator on core": placement.EmulatorCore, "emulator on isolated": placement.EmulatorAside,
}

// announced reports whether a plan for a latency says that a rule becomes worse for a guest, and by no less.
func (v verdict) announced(rule string, n int) bool {
	what, guest, _ := strings.Cut(rule, ", ")
	if what == "nodes" {
		n-- // the first breaks no rule
	}
	return v.report.Tier == goal.Realtime && v.report.Place != nil && slices.ContainsFunc(v.report.Place.GivesWay,
		func(w placement.GivesWay) bool { return w.Rule == ruleNames[what] && w.Guest == guest && w.Then >= n })
}

// breaches counts, for each rule of placement and guest, the threads that may break it, by where they may run.
// isolated are the CPUs that were set aside before a plan, there the threads that ran then.
func breaches(h *facts.Host, isolated setting.CPUSet, there map[int]bool) map[string]int {
	found := map[string]int{}
	core, node, kind := map[int]int{}, map[int]int{}, map[int]string{}
	for _, c := range h.Topology.CPUs {
		core[c.ID], node[c.ID], kind[c.ID] = c.Core, c.Node, c.Kind
	}
	polled := map[int]bool{} // cores
	for _, p := range h.Pollers {
		for _, cpu := range p.CPUs {
			polled[core[cpu]] = true
		}
	}
	each := func(role string, is func(g *facts.Guest, t *facts.Thread)) {
		for g := range facts.Each(h.Guests) {
			for t := range facts.Each(g.Threads) {
				if t.Role == role && there[t.TID] {
					is(g, t)
				}
			}
		}
	}
	crowd := map[int]int{} // vhost threads that have no other CPU
	each("vhost", func(_ *facts.Guest, t *facts.Thread) {
		if len(t.Affinity) == 1 {
			crowd[t.Affinity[0]]++
		}
	})
	for _, n := range crowd {
		found["vhost threads bound to one CPU"] = max(found["vhost threads bound to one CPU"], n-placement.MostVhost)
	}
	onCPU, onCore, nodes := map[int]int{}, map[int]int{}, map[string]map[int]bool{} // vCPUs that may run there
	kinds := map[string]map[string]bool{}
	each("vcpu", func(g *facts.Guest, t *facts.Thread) {
		cores := map[int]bool{}
		if nodes[g.Name] == nil {
			nodes[g.Name], kinds[g.Name] = map[int]bool{}, map[string]bool{}
		}
		for _, cpu := range t.Affinity {
			onCPU[cpu]++
			cores[core[cpu]], nodes[g.Name][node[cpu]], kinds[g.Name][kind[cpu]] = true, true, true
		}
		for c := range cores {
			onCore[c]++
		}
	})
	count := func(rule string, least int) func(g *facts.Guest, t *facts.Thread) {
		return func(g *facts.Guest, t *facts.Thread) {
			if slices.ContainsFunc(t.Affinity, func(cpu int) bool {
				return rule == "CPU" && onCPU[cpu] > least || rule == "core" && onCore[core[cpu]] > least ||
					rule == "poller" && polled[core[cpu]] || rule == "isolated" && isolated.Has(cpu) || rule == "ordinary" && !isolated.Has(cpu)
			}) {
				found[fmt.Sprintf("%s on %s, %s", t.Role, rule, g.Name)]++
			}
		}
	}
	for name, set := range nodes {
		found["nodes, "+name], found["kinds of core, "+name] = len(set), len(kinds[name])
	}
	for _, role := range []string{"vcpu", "vhost", "emulator"} {
		each(role, count("poller", 0))
	}
	each("vcpu", count("CPU", 1))
	each("vcpu", count("core", 1))
	if len(isolated) > 0 {
		each("vcpu", count("ordinary", 0))
	}
	for _, role := range []string{"vhost", "emulator"} {
		each(role, count("CPU", 0))
		each(role, count("core", 0))
		each(role, count("isolated", 0))
	}
	return found
}

// threads returns the threads of all guests.
func threads(h *facts.Host) map[int]bool {
	all := map[int]bool{}
	for _, g := range h.Guests {
		for _, t := range g.Threads {
			all[t.TID] = true
		}
	}
	return all
}
