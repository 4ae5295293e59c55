package placement

import (
	"fmt"
	"slices"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Rule is a rule of placement; what counts is the number of threads that break it. A thread that may run on several
// CPUs breaks a rule if it does so on any of them.
type Rule string

// The rules.
const (
	OwnCPU        Rule = "vcpu-own-cpu"            // a vCPU is pinned to a CPU that no other vCPU is pinned to
	OwnCore       Rule = "vcpu-own-core"           // no other vCPU may run on its core
	SetAside      Rule = "vcpu-isolated"           // it is on an isolated CPU, if the host has any
	Given         Rule = "vcpu-given"              // it is among the CPUs that the user gave
	NotTaken      Rule = "vcpu-off-pollers"        // it is off the cores of poll-mode threads
	OneNode       Rule = "guest-one-node"          // nodes of a guest's vCPUs beyond the first
	NearMemory    Rule = "vcpu-near-memory"        // it is on the nodes that the guest's memory is bound to
	NearNIC       Rule = "vcpu-near-nic"           // it is on the nodes of the guest's NICs
	VhostCPU      Rule = "vhost-off-vcpus"         // a vhost thread is off the CPUs of vCPUs
	VhostCore     Rule = "vhost-off-vcpu-cores"    // and off their cores
	VhostNear     Rule = "vhost-near-guest"        // it is on one node with all vCPUs of the guest
	VhostAlone    Rule = "vhost-own-cpu"           // it is pinned to a CPU that no other vhost thread is pinned to
	VhostRoom     Rule = "vhost-few-a-cpu"         // or to one with at most MostVhost, unless its guest is realtime
	VhostAside    Rule = "vhost-off-isolated"      // it is off isolated CPUs, if the host has others
	EmulatorCPU   Rule = "emulator-off-vcpus"      // a guest's emulator threads are off the CPUs of vCPUs
	EmulatorCore  Rule = "emulator-off-vcpu-cores" // and off their cores
	EmulatorAside Rule = "emulator-off-isolated"   // and off isolated CPUs, if the host has others
)

// MostVhost is how many vhost threads a plan may bind to one CPU: with a dozen each a host's own CPUs are full. For
// realtime guests, which share no CPU with them, there may be no others.
const MostVhost = 12

// ruleWords are the rules in words.
var ruleWords = map[Rule]string{
	OwnCPU:   "each vCPU is pinned to a dedicated CPU",
	OwnCore:  "each vCPU has a core without another vCPU",
	SetAside: "vCPUs are on isolated CPUs, if the host has any",
	Given:    "vCPUs are on the CPUs that the user gave", NotTaken: "vCPUs are off the cores of poll-mode threads",
	OneNode: "all vCPUs of a guest are on one node", NearMemory: "vCPUs are on the nodes of the guest's memory",
	NearNIC: "vCPUs are on the nodes of the guest's NICs", VhostCPU: "vhost threads are off the CPUs of vCPUs",
	VhostCore:     "vhost threads are off the cores of vCPUs",
	VhostNear:     "vhost threads are on one node with the guest's vCPUs",
	VhostAlone:    "each vhost thread is pinned to a dedicated CPU",
	VhostRoom:     "at most a dozen vhost threads are pinned to one CPU",
	VhostAside:    "vhost threads are off isolated CPUs",
	EmulatorCPU:   "emulator threads are off the CPUs of vCPUs",
	EmulatorCore:  "emulator threads are off the cores of vCPUs",
	EmulatorAside: "emulator threads are off isolated CPUs",
}

// Words says what the rule asks.
func (r Rule) Words() string { return ruleWords[r] }

var (
	vcpuRules     = []Rule{OwnCPU, OwnCore, SetAside, Given, NotTaken, OneNode, NearMemory, NearNIC}
	threadRules   = []Rule{VhostCPU, VhostCore, VhostNear, VhostAlone, VhostRoom, VhostAside}
	emulatorRules = []Rule{EmulatorCPU, EmulatorCore, EmulatorAside}
	allRules      = slices.Concat(vcpuRules, threadRules, emulatorRules)
)

// GivesWay is a rule that is worse for a guest than it is today.
type GivesWay struct {
	Rule  Rule   `json:"rule"`
	Guest string `json:"guest"` // the guest whose threads break it
	For   string `json:"for"`   // the guest whose place is the cause
	Found int    `json:"found"` // threads that break it today
	Then  int    `json:"then"`  // and with this placement
}

// Words says which rule is worse, for whom and by how much.
func (w GivesWay) Words() string {
	text := fmt.Sprintf("%s (of %s: %d do not today, %d would not)", w.Rule.Words(), w.Guest, w.Found, w.Then)
	if w.For != w.Guest {
		text += ", because of the place of " + w.For
	}
	return text
}

// breaches counts, by rule, the threads of one guest that break it.
type breaches map[Rule]int

// worse returns the rules of a list that more threads break than before.
func (b breaches) worse(before breaches, rules []Rule) []Rule {
	return slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool { return b[r] <= before[r] })
}

// standing is where the threads of a guest may run.
type standing struct {
	guest    *Guest
	vcpus    []setting.CPUSet
	vhost    []setting.CPUSet
	emulator setting.CPUSet
}

// cores returns the cores of all its threads.
func (s *standing) cores(t *table) map[int]bool {
	cores := map[int]bool{}
	for _, set := range slices.Concat(s.vcpus, s.vhost, []setting.CPUSet{s.emulator}) {
		for _, cpu := range set {
			cores[t.coreOf(cpu)] = true
		}
	}
	return cores
}

// anywhere returns the CPUs of threads that are pinned nowhere: those that are not set aside.
func (t *table) anywhere() setting.CPUSet {
	var all []int
	for _, c := range t.ask.CPUs {
		if !c.Isolated {
			all = append(all, c.ID)
		}
	}
	if len(all) == 0 {
		for _, c := range t.ask.CPUs {
			all = append(all, c.ID)
		}
	}
	return setting.CPUs(all...)
}

// reach returns the CPUs that a thread really uses: of those that it may use the online ones, and not the isolated ones
// among others, where nothing would move it (sched_domains end before them).
func (t *table) reach(mask, anywhere setting.CPUSet) setting.CPUSet {
	if len(mask) == 1 {
		return mask
	}
	if ordinary := mask.And(anywhere); len(ordinary) > 0 {
		return ordinary
	}
	return slices.DeleteFunc(slices.Clone(mask), func(cpu int) bool {
		_, online := t.cpus[cpu]
		return !online
	})
}

// foundStandings returns where every guest's threads may run today.
func (t *table) foundStandings() []standing {
	anywhere := t.anywhere()
	var all []standing
	for g := range facts.Each(t.ask.Guests) {
		if !g.isNew {
			all = append(all, t.foundStanding(g, anywhere))
		}
	}
	return all
}

// foundStanding returns where a guest's threads may run today.
func (t *table) foundStanding(g *Guest, anywhere setting.CPUSet) standing {
	s := standing{guest: g, emulator: anywhere}
	if len(g.Emulator) > 0 {
		s.emulator = t.reach(g.Emulator, anywhere)
	}
	masks := g.masks()
	for v := range min(g.VCPUs, maxJudged) {
		mask := anywhere
		if len(masks) > v && len(masks[v]) > 0 {
			mask = t.reach(masks[v], anywhere)
		}
		s.vcpus = append(s.vcpus, mask)
	}
	for _, i := range g.NICs {
		for q := range queuesOf(i) {
			mask := s.emulator // where libvirt will start it
			if w := g.worker(i.MAC, q); w != nil {
				mask = t.reach(w.CPUs, anywhere)
			}
			s.vhost = append(s.vhost, mask)
		}
	}
	return s
}

// masks returns where each vCPU may run today; empty: anywhere.
func (g *Guest) masks() []setting.CPUSet {
	if len(g.Masks) > 0 || len(g.Pins) != g.VCPUs {
		return g.Masks
	}
	all := make([]setting.CPUSet, len(g.Pins))
	for v, cpu := range g.Pins {
		all[v] = setting.CPUs(cpu)
	}
	return all
}

// maxJudged is the most vCPUs of a guest that are judged: a made-up snapshot may name any number.
const maxJudged = 4096

// queuesOf returns how many vhost threads an interface has.
func queuesOf(i Interface) int {
	if i.VF {
		return 0
	}
	return max(1, i.Queues)
}

// worker returns a vhost thread of today, nil if it is not known.
func (g *Guest) worker(mac string, queue int) *Worker {
	return facts.Find(g.Workers, func(w *Worker) bool { return w.NIC == mac && w.Queue == queue })
}

// standings returns where every guest's threads may run once a placement is carried out. Guests that it does not
// change, and those that must not be changed, stay as they are.
func (t *table) standings(r *Result, found []standing) []standing {
	then, anywhere := slices.Clone(found), t.anywhere()
	for p := range facts.Each(r.Guests) {
		g := facts.Find(t.ask.Guests, func(g *Guest) bool { return g.Name == p.Name })
		if g == nil || g.Fixed {
			continue
		}
		s := standing{guest: g, emulator: t.reach(p.Emulator, anywhere)}
		for _, v := range p.VCPUs {
			s.vcpus = append(s.vcpus, setting.CPUs(v.CPU))
		}
		if g.unmanaged {
			now := t.foundStanding(g, anywhere)
			s.vcpus, s.emulator = now.vcpus, now.emulator
		}
		for w := range facts.Each(p.Vhost) {
			mask := s.emulator
			if len(w.Stays) > 0 {
				mask = w.Stays
			}
			s.vhost = append(s.vhost, g.reaches(w, mask, g.repinned(p, anywhere)))
		}
		if i := slices.IndexFunc(then, func(s standing) bool { return s.guest == g }); i >= 0 {
			then[i] = s
		} else {
			then = append(then, s)
		}
	}
	return then
}

// judge counts the breaches of every guest.
func (t *table) judge(all []standing) map[string]breaches {
	onCPU, onCore, pinned, workers := map[int]int{}, map[int]int{}, map[int]int{}, map[int]int{}
	for _, s := range all {
		for _, set := range s.vcpus {
			if len(set) == 1 {
				pinned[set[0]]++
			}
			seen := map[int]bool{}
			for _, cpu := range set {
				onCPU[cpu]++
				if core := t.coreOf(cpu); !seen[core] {
					seen[core] = true
					onCore[core]++
				}
			}
		}
		for _, set := range s.vhost {
			if len(set) == 1 {
				workers[set[0]]++
			}
		}
	}
	touches := func(set setting.CPUSet, cores bool) int {
		return count01(slices.ContainsFunc(set, func(cpu int) bool {
			return onCPU[cpu] > 0 || cores && onCore[t.coreOf(cpu)] > 0
		}))
	}
	ordinary := t.hasOrdinary()
	aside := func(set setting.CPUSet) int {
		return count01(ordinary && slices.ContainsFunc(set, func(cpu int) bool { return t.cpus[cpu].Isolated }))
	}
	found := map[string]breaches{}
	for _, s := range all {
		b := t.judgeVCPUs(&s, pinned, onCore)
		nodes := t.nodesOfAll(s.vcpus)
		for _, set := range s.vhost {
			b[VhostCPU] += touches(set, false)
			b[VhostCore] += touches(set, true)
			b[VhostNear] += count01(len(nodes.Or(t.nodesOf(set))) > 1)
			b[VhostAside] += aside(set)
			b[VhostAlone] += count01(len(set) != 1 || workers[set[0]] > 1)
			b[VhostRoom] += count01(!s.guest.Realtime && len(set) == 1 && workers[set[0]] > MostVhost)
		}
		b[EmulatorCPU], b[EmulatorCore] = touches(s.emulator, false), touches(s.emulator, true)
		b[EmulatorAside] = aside(s.emulator)
		found[s.guest.Name] = b
	}
	return found
}

// judgeVCPUs counts the breaches of one guest's vCPUs. pinned counts the vCPUs that are pinned to a CPU, onCore those
// that may run on a core. A vCPU that is pinned to a CPU that is offline breaks every rule.
func (t *table) judgeVCPUs(s *standing, pinned, onCore map[int]int) breaches {
	b, g := breaches{}, s.guest
	var nics []int
	for _, n := range g.NICs {
		if node := t.nicNode(n); node >= 0 {
			nics = append(nics, node)
		}
	}
	near, isolated := setting.CPUs(nics...), t.hasIsolated()
	for _, set := range s.vcpus {
		some := func(breaks func(c CPU, online bool) bool) int {
			return count01(slices.ContainsFunc(set, func(cpu int) bool {
				c, online := t.cpus[cpu]
				return breaks(c, online)
			}))
		}
		b[OwnCPU] += count01(len(set) != 1 || pinned[set[0]] > 1 || some(func(_ CPU, on bool) bool { return !on }) > 0)
		b[OwnCore] += some(func(c CPU, on bool) bool { return !on || onCore[c.Core] > 1 })
		b[SetAside] += some(func(c CPU, on bool) bool { return isolated && (!on || !c.Isolated) })
		b[Given] += some(func(c CPU, on bool) bool { return len(g.Allowed) > 0 && (!on || !g.Allowed.Has(c.ID)) })
		b[NotTaken] += some(func(c CPU, on bool) bool { return on && t.ask.Taken.Has(c.ID) })
		b[NearMemory] += some(func(c CPU, on bool) bool { return len(g.Home) > 0 && (!on || !g.Home.Has(c.Node)) })
		b[NearNIC] += some(func(c CPU, on bool) bool { return len(near) > 0 && (!on || !near.Has(c.Node)) })
	}
	b[OneNode] = max(len(t.nodesOfAll(s.vcpus))-1, 0)
	return b
}

// hasOrdinary reports whether some CPUs of the host are not isolated.
func (t *table) hasOrdinary() bool {
	return slices.ContainsFunc(t.ask.CPUs, func(c CPU) bool { return !c.Isolated })
}

// coreOf returns the core of a CPU, and one of its own for a CPU that is not online.
func (t *table) coreOf(cpu int) int {
	if c, online := t.cpus[cpu]; online {
		return c.Core
	}
	return -1 - cpu
}

func (t *table) nodesOfAll(sets []setting.CPUSet) setting.CPUSet {
	nodes := map[int]bool{}
	for _, set := range sets {
		for _, cpu := range set {
			if c, online := t.cpus[cpu]; online {
				nodes[c.Node] = true
			}
		}
	}
	var all []int
	for node := range nodes {
		all = append(all, node)
	}
	return setting.CPUs(all...)
}

func count01(breaks bool) int {
	if breaks {
		return 1
	}
	return 0
}
