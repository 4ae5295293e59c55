package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/setting"
)

// keep leaves a guest where it is pinned, if it is well pinned.
func (t *table) keep(g Guest) bool {
	if len(g.Pins) == 0 || len(g.Pins) != g.VCPUs {
		return false
	}
	faults := t.Faults(g)
	if faults != nil && !g.Fixed {
		return false
	}
	placed := Placed{Name: g.Name, Kept: true, Why: "its vCPUs are pinned well already: one CPU each, no core shared, one node"}
	if faults != nil {
		placed.Why = "it is not to be moved, although " + strings.Join(faults, ", ")
	}
	for vcpu, cpu := range g.Pins {
		t.taken[cpu] = g.Name
		placed.VCPUs = append(placed.VCPUs, VCPU{VCPU: vcpu, CPU: cpu})
	}
	placed.Nodes = t.nodesOf(g.pinned())
	t.kept = t.kept.Minus(g.pinned())
	t.result.Guests = append(t.result.Guests, placed)
	return true
}

// Faults is what is wrong with where a guest is pinned today; nil where nothing is.
func (t *table) Faults(g Guest) (faults []string) {
	cores, seen := map[int]int{}, map[int]bool{}
	for vcpu, cpu := range g.Pins {
		c, online := t.cpus[cpu]
		switch {
		case !online:
			faults = append(faults, fmt.Sprintf("vCPU %d is pinned to CPU %d, which is offline or isolated", vcpu, cpu))
			continue
		case len(g.Allowed) > 0 && !g.Allowed.Has(cpu):
			faults = append(faults, fmt.Sprintf("vCPU %d is pinned to CPU %d, which is not among those given to it", vcpu, cpu))
		case seen[cpu]:
			faults = append(faults, fmt.Sprintf("CPU %d has two vCPUs", cpu))
		case t.taken[cpu] != "":
			faults = append(faults, fmt.Sprintf("CPU %d belongs to %s too", cpu, t.taken[cpu]))
		case cores[c.Core] > 0:
			faults = append(faults, fmt.Sprintf("CPU %d is the other thread of a core that has a vCPU already", cpu))
		}
		seen[cpu] = true
		cores[c.Core]++
	}
	if nodes := t.nodesOf(g.pinned()); len(nodes) > 1 {
		faults = append(faults, "its vCPUs are spread over nodes "+nodes.String())
	}
	return faults
}

func (t *table) nodesOf(cpus setting.CPUSet) setting.CPUSet {
	var nodes []int
	for _, cpu := range cpus {
		nodes = append(nodes, t.cpus[cpu].Node)
	}
	return setting.CPUs(nodes...)
}

// seat finds places for a guest's vCPUs.
func (t *table) seat(g Guest) {
	want, known := t.wantedNode(g)
	order := t.nodesFrom(want, known, g)
	oneNode := func(coresOnly bool) (cpus []int, node int) {
		for _, node := range order {
			if free := t.seatsOn(node, g, coresOnly); len(free) >= g.VCPUs && t.memoryFits(g, node) {
				return free, node
			}
		}
		return nil, -1
	}
	anyNode := func(coresOnly bool) (cpus []int) {
		for _, node := range order {
			cpus = append(cpus, t.seatsOn(node, g, coresOnly)...)
		}
		return cpus
	}

	if cpus, node := oneNode(true); node >= 0 {
		t.sit(g, cpus, []int{node}, why(g, node, want, known))
		return
	}
	if cpus := anyNode(true); len(cpus) >= g.VCPUs {
		t.torn++
		t.relax("%s is spread over nodes, because no node has %d cores and its memory to spare", g.Name, g.VCPUs)
		t.sit(g, cpus, nil, "no single node has enough free cores and memory")
		return
	}
	if cpus, node := oneNode(false); node >= 0 {
		t.shared++
		t.relax("vCPUs of %s share cores, because the host has too few", g.Name)
		t.sit(g, cpus, []int{node}, "not enough cores: siblings are used, on one node")
		return
	}
	cpus := anyNode(false)
	if len(cpus) >= g.VCPUs {
		t.shared, t.torn = t.shared+1, t.torn+1
		t.relax("vCPUs of %s share cores and are spread over nodes, because the host has too few", g.Name)
		t.sit(g, cpus, nil, "not enough cores: siblings are used, on several nodes")
		return
	}
	if len(g.Allowed) > 0 {
		t.result.Refused = append(t.result.Refused, Refusal{
			Guest:    g.Name,
			Shortage: fmt.Sprintf("needs %d CPUs of its own, and of those given to it (%s) %d are free", g.VCPUs, g.Allowed, len(cpus)),
			Relax:    fmt.Sprintf("give it %d CPUs more", g.VCPUs-len(cpus)),
		})
		return
	}
	t.result.Refused = append(t.result.Refused, Refusal{
		Guest:    g.Name,
		Shortage: fmt.Sprintf("needs %d CPUs of its own, and %d are left (%d online, %d kept for the host, the others belong to other guests)", g.VCPUs, len(cpus), len(t.ask.CPUs), len(t.kept)),
		Relax:    fmt.Sprintf("give it %d vCPUs, or move %d vCPUs of other guests elsewhere", len(cpus), g.VCPUs-len(cpus)),
	})
}

// sit takes the first CPUs of a list for a guest's vCPUs.
func (t *table) sit(g Guest, cpus, nodes []int, because string) {
	placed := Placed{Name: g.Name, Why: because}
	chosen := cpus[:g.VCPUs]
	for vcpu, cpu := range chosen {
		t.taken[cpu] = g.Name
		placed.VCPUs = append(placed.VCPUs, VCPU{VCPU: vcpu, CPU: cpu})
	}
	placed.Nodes = setting.CPUs(nodes...)
	if nodes == nil {
		placed.Nodes = t.nodesOf(setting.CPUs(chosen...))
	}
	if faults := t.faultsOfPins(g); faults != "" {
		placed.Why += "; today " + faults
	}
	t.result.Guests = append(t.result.Guests, placed)
}

func (t *table) faultsOfPins(g Guest) string {
	if len(g.Pins) == 0 {
		return "its vCPUs are not pinned one by one"
	}
	if len(g.Pins) != g.VCPUs {
		return fmt.Sprintf("only %d of %d vCPUs are pinned", len(g.Pins), g.VCPUs)
	}
	// Its own new seat must not count against its old one.
	others := &table{cpus: t.cpus, taken: map[int]string{}}
	for cpu, owner := range t.taken {
		if owner != g.Name {
			others.taken[cpu] = owner
		}
	}
	return strings.Join(others.Faults(g), ", ")
}

// wantedNode is the node of the NIC that carries most of the guest's interfaces.
func (t *table) wantedNode(g Guest) (node int, known bool) {
	votes := map[int]int{}
	for _, i := range g.NICs {
		for _, n := range t.ask.NICs {
			if n.Name == i.NIC && n.Node >= 0 {
				votes[n.Node]++
			}
		}
	}
	best := -1
	for _, n := range t.ask.Nodes {
		if votes[n.ID] > 0 && (best < 0 || votes[n.ID] > votes[best]) {
			best = n.ID
		}
	}
	return best, best >= 0
}

// nodesFrom are the nodes in the order in which a guest should try them: by distance from the wanted one, or where
// none is wanted, the one with the most free cores first.
func (t *table) nodesFrom(want int, known bool, g Guest) []int {
	type candidate struct{ id, key int }
	var all []candidate
	for _, n := range t.ask.Nodes {
		key := -len(t.freeCores(n.ID))
		if known {
			if key = 10; n.ID != want {
				if key = n.Distances[want]; key == 0 {
					key = 20
				}
			}
		}
		all = append(all, candidate{n.ID, key})
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(a.key, b.key) })
	ids := make([]int, len(all))
	for i, c := range all {
		ids[i] = c.id
	}
	return ids
}

// freeCores are a node's cores without any vCPU that are not kept for the host.
func (t *table) freeCores(node int) []int {
	return slices.DeleteFunc(slices.Clone(t.nodes[node]), func(core int) bool {
		return slices.ContainsFunc(t.cores[core], func(cpu int) bool { return t.taken[cpu] != "" || t.kept.Has(cpu) })
	})
}

// seatsOn are a node's CPUs on which a guest's vCPUs may sit: one of each free core, and where that is not enough the
// other threads behind them. CPUs that the user gave to another guest are left alone.
func (t *table) seatsOn(node int, g Guest, coresOnly bool) []int {
	may := func(cpu int) bool {
		if len(g.Allowed) > 0 {
			return g.Allowed.Has(cpu)
		}
		return !t.given.Has(cpu)
	}
	var first, rest []int
	for _, core := range t.nodes[node] {
		whole := true
		for _, cpu := range t.cores[core] {
			whole = whole && t.taken[cpu] == "" && !t.kept.Has(cpu)
		}
		for _, cpu := range t.cores[core] {
			switch {
			case t.taken[cpu] != "" || t.kept.Has(cpu) || !may(cpu):
			case whole:
				first = append(first, cpu)
				whole = false
			default:
				rest = append(rest, cpu)
			}
		}
	}
	if coresOnly {
		return first
	}
	slices.Sort(rest)
	return append(first, rest...)
}

// memoryFits tells whether a node has memory for a guest beside those already there, with a reserve for the host: 2 GiB,
// on small nodes an eighth. A node that does not tell its memory fits everything.
func (t *table) memoryFits(g Guest, node int) bool {
	for _, n := range t.ask.Nodes {
		if n.ID != node || n.Memory == 0 {
			continue
		}
		used := min(2<<30, n.Memory/8)
		for _, p := range t.result.Guests {
			if p.Nodes.Has(node) {
				used += t.memoryOf(p.Name) / uint64(len(p.Nodes))
			}
		}
		return used+g.Memory <= n.Memory
	}
	return true
}

func (t *table) memoryOf(name string) uint64 {
	for _, g := range t.ask.Guests {
		if g.Name == name {
			return g.Memory
		}
	}
	return 0
}

func why(g Guest, node, want int, known bool) string {
	switch {
	case !known:
		return fmt.Sprintf("node %d has the most free cores; which node its NIC is on is not known", node)
	case node == want:
		return fmt.Sprintf("node %d is where its NIC is", node)
	}
	return fmt.Sprintf("node %d: the NIC's node %d has too few free cores or too little memory for it", node, want)
}
