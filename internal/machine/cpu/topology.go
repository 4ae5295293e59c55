// Package cpu reads the processors of a machine: topology, caches, NUMA nodes, cpufreq, C-states, CPU times and
// cpusets. Parsers take text; recorded trees of the hwloc project are its test cases.
package cpu

import (
	"context"
	"slices"
	"strconv"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Topology reads CPUs, caches and NUMA nodes into h.Topology. It interprets the tables as hwloc does
// (topology-linux.c), so the counts match lstopo's.
func Topology(_ context.Context, m *tree.Tree, h *facts.Host) {
	first := FirstCPU(m)
	t := &h.Topology
	t.Model, t.Vendor, t.Processor = Model(first), vendor(first), processor(first)

	p := processorsOf(m, h, first)
	t.Suspect = p.suspect
	t.CPUs, t.Caches = p.list(), p.caches()
	t.Online, t.Offline = p.online.set(), p.present.minus(p.online).set()
	if cpus := m.Folder(Dir); cpus != nil {
		t.SMT = cpus.Line("smt/control")
		cpus.ListMalformed(&t.Suspect)
		isolated, _ := listFile(cpus, "isolated")
		t.Isolated = isolated.set()
		if cpus.Line("nohz_full") != "(null)" { // an empty set before Linux 5.19
			nohz, _ := listFile(cpus, "nohz_full")
			t.NohzFull = nohz.set()
		}
		cpus.Close()
	}
	coreKinds(m, t)
	memory(m, t, p.online)
	limits(m, t, p)
	t.CPUs, t.Nodes, t.Caches, t.Hugepages = tree.OrEmpty(t.CPUs), tree.OrEmpty(t.Nodes), tree.OrEmpty(t.Caches),
		tree.OrEmpty(t.Hugepages)
	for i := range t.Nodes {
		t.Nodes[i].Distances, t.Nodes[i].Hugepages = tree.OrEmpty(t.Nodes[i].Distances),
			tree.OrEmpty(t.Nodes[i].Hugepages)
	}
	for i := range t.Caches {
		if t.Caches[i].Level == 3 && t.Caches[i].Type != "Instruction" {
			for _, cpu := range t.Caches[i].CPUs {
				if at, found := t.Index(cpu); found {
					t.CPUs[at].L3 = i
				}
			}
		}
	}
}

// processorsOf reads the CPUs from sysfs, else from /proc/cpuinfo or /proc/stat, which it notes in h.Unseen.
func processorsOf(m *tree.Tree, h *facts.Host, first map[string]string) *processors {
	cpus := m.Folder(Dir)
	defer cpus.Close()
	if p, found := readProcessors(cpus, computeUnits(first)); found {
		return p
	}
	h.Unseen = append(h.Unseen, facts.Unseen{What: "CPU topology", Why: "no topology in /" + Dir +
		": taken from /proc/cpuinfo"})
	text, _ := m.Read("proc/cpuinfo")
	p := parseCpuinfo(text)
	if p.present.empty() {
		stat, _ := m.Read("proc/stat")
		p.present = parseStatCPUs(stat)
		p.online, p.known = p.present, p.present
	}
	for _, cpu := range cpus.Numbers("cpu") {
		p.present = p.present.with(cpu)
	}
	return p
}

// coreKinds sets of what kind the CPUs are where there are several: Intel's hybrid processors have a PMU for each kind
// (arch/x86/events/intel/core.c, intel_hybrid_pmu_type_map), others a capacity (drivers/base/arch_topology.c).
func coreKinds(m *tree.Tree, t *facts.Topology) {
	for _, kind := range []string{"core", "atom", "lowpower"} {
		cpus, _ := setting.ParseCPUs(m.Line("sys/devices/cpu_" + kind + "/cpus"))
		for i := range t.CPUs {
			if cpus.Has(t.CPUs[i].ID) {
				t.CPUs[i].Kind = kind
			}
		}
	}
	for i := range t.CPUs {
		if c := &t.CPUs[i]; c.Kind == "" && c.Online {
			c.Kind = m.Line(Dir + "/cpu" + strconv.Itoa(c.ID) + "/cpu_capacity")
		}
	}
	if len(t.Kinds()) == 1 {
		for i := range t.CPUs {
			t.CPUs[i].Kind = ""
		}
	}
}

// memory reads the NUMA nodes and huge pages.
func memory(m *tree.Tree, t *facts.Topology, online mask) {
	t.Hugepages = readHugepages(m.Folder("sys/kernel/mm/hugepages").ListMalformed(&t.Suspect))
	meminfoText, _ := m.Read("proc/meminfo")
	t.DefaultPage = Meminfo(meminfoText, "Hugepagesize:")
	nodes, suspect := readNodes(m, m.Line("proc/cmdline"))
	t.Suspect = append(t.Suspect, suspect...)
	if len(nodes) == 0 {
		nodes = []facts.Node{wholeMachine(m, online, t.Hugepages)}
	}
	t.Nodes = nodes
	for _, node := range slices.Backward(nodes) {
		for _, cpu := range node.CPUs {
			if at, found := t.Index(cpu); found {
				t.CPUs[at].Node = node.ID
			}
		}
	}
}

// limits sets the CPUs and nodes that this process's cpuset denies, and the counts of what it allows.
func limits(m *tree.Tree, t *facts.Topology, p *processors) {
	cpus, nodes, limitedCPUs, limitedNodes := allowed(m)
	usable := p.known
	if limitedCPUs {
		usable = usable.and(cpus)
		t.DeniedCPUs = p.online.minus(cpus).set()
	}
	var usableNodes []mask
	for _, node := range t.Nodes {
		if limitedNodes && !nodes.has(node.ID) {
			t.DeniedNodes = append(t.DeniedNodes, node.ID)
			continue
		}
		usableNodes = append(usableNodes, maskOf(node.CPUs))
	}
	count := func(match func(object) bool) int { return p.objects.count(match, usable, usableNodes) }
	t.Counts = facts.Counts{
		Packages:    count(func(o object) bool { return o.kind == kindPackage }),
		Dies:        count(func(o object) bool { return o.kind == kindDie }),
		NUMANodes:   len(usableNodes),
		L3Caches:    count(isL3),
		Cores:       count(func(o object) bool { return o.kind == kindCore }),
		CPUsOnline:  usable.count(),
		CPUsOffline: p.present.minus(usable).count(),
	}
}
