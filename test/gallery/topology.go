package gallery

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// topology returns the CPUs, caches and nodes of a host.
func (s *Spec) topology() (facts.Topology, error) {
	c := s.CPU
	offline, err := setting.ParseCPUs(c.Offline)
	if err != nil {
		return facts.Topology{}, err
	}
	t := facts.Topology{Model: c.Model, Vendor: c.Vendor, Offline: offline, SMT: "on"}
	if len(c.Rows) > 0 {
		return t, s.addRows(&t)
	}
	switch {
	case c.Threads < 2 && s.Arch == "x86_64":
		t.SMT = "notsupported"
	case c.Threads < 2:
		t.SMT = "notimplemented"
	}
	cores := c.Sockets * c.Cores
	nodes := make([]setting.CPUSet, c.Sockets*c.Nodes)
	caches := make([]setting.CPUSet, max(0, cores/max(1, c.coresOfL3())))
	for id := range cores * c.Threads {
		core := c.core(id)
		cpu := facts.CPU{
			ID: id, Online: !offline.Has(id), Package: core / c.Cores, Core: core, CoreID: core % c.Cores,
			Node: core / (c.Cores / c.Nodes), L3: -1,
		}
		for other := range c.Threads {
			cpu.Siblings = append(cpu.Siblings, c.id(core, other))
		}
		cpu.Siblings = setting.CPUs(cpu.Siblings...).Minus(offline)
		if !cpu.Online {
			cpu.Siblings = setting.CPUs(id)
		} else {
			t.Online = append(t.Online, id)
		}
		if c.L3 >= 0 {
			cpu.L3 = core / c.coresOfL3()
			caches[cpu.L3] = append(caches[cpu.L3], id)
		}
		nodes[cpu.Node] = append(nodes[cpu.Node], id)
		t.CPUs = append(t.CPUs, cpu)
	}
	if c.L3 >= 0 {
		for _, cpus := range caches {
			t.Caches = append(t.Caches, facts.Cache{Level: 3, Type: "Unified", Size: uint64(c.L3MiB) << 20, CPUs: cpus})
		}
	}
	for i, cpus := range nodes {
		t.Nodes = append(t.Nodes, s.node(i, len(nodes), cpus))
	}
	s.emptied(t.Nodes)
	t.Nodes = s.withFar(t.Nodes)
	t.Counts = facts.Counts{Packages: c.Sockets, NUMANodes: len(t.Nodes), L3Caches: len(t.Caches), Cores: cores,
		CPUsOnline: len(t.Online), CPUsOffline: len(offline)}
	return t, s.addPages(&t)
}

// addPages adds the pools of huge pages, and what the command line isolates.
func (s *Spec) addPages(t *facts.Topology) error {
	for _, size := range sorted(s.Memory.Pages) {
		bytes, err := pageBytes(size)
		if err != nil {
			return err
		}
		pages := uint64(s.Memory.Pages[size])
		t.Hugepages = append(t.Hugepages, facts.Hugepages{Size: bytes, Total: pages, Free: pages})
	}
	line := setting.ParseCommandLine(s.Cmdline)
	t.Isolated, t.NohzFull = isolatedBy(line, "isolcpus", t.Online), isolatedBy(line, "nohz_full", t.Online)
	return nil
}

// addRows adds the CPUs, caches and nodes of a recorded machine.
func (s *Spec) addRows(t *facts.Topology) error {
	packages, nodes, caches := map[int]bool{}, map[int]setting.CPUSet{}, map[int]setting.CPUSet{}
	for core, row := range s.CPU.Rows {
		var pkg, node, l3 int
		numbers, list, _ := strings.Cut(row, ":")
		if _, err := fmt.Sscan(numbers, &pkg, &node, &l3); err != nil {
			return fmt.Errorf("row %q: %w", row, err)
		}
		cpus, err := setting.ParseCPUs(list)
		if err != nil {
			return err
		}
		packages[pkg], nodes[node] = true, nodes[node].Or(cpus)
		if l3 >= 0 {
			caches[l3] = caches[l3].Or(cpus)
		}
		for _, id := range cpus {
			t.CPUs = append(t.CPUs, facts.CPU{ID: id, Online: true, Package: pkg, Core: core, CoreID: core, Node: node,
				L3: l3, Siblings: cpus})
			t.Online = t.Online.Or(setting.CPUs(id))
		}
	}
	slices.SortFunc(t.CPUs, func(a, b facts.CPU) int { return a.ID - b.ID })
	for i := range len(caches) {
		t.Caches = append(t.Caches, facts.Cache{Level: 3, Type: "Unified", Size: uint64(s.CPU.L3MiB) << 20,
			CPUs: caches[i]})
	}
	for i := range len(nodes) {
		t.Nodes = append(t.Nodes, s.node(i, len(nodes), nodes[i]))
	}
	t.Counts = facts.Counts{Packages: len(packages), NUMANodes: len(nodes), L3Caches: len(caches),
		Cores: len(s.CPU.Rows), CPUsOnline: len(t.Online)}
	return s.addPages(t)
}

func (c CPU) coresOfL3() int {
	if c.L3 > 0 {
		return c.L3
	}
	return c.Cores
}

// id returns the number of a thread of a core.
func (c CPU) id(core, thread int) int {
	cores := c.Sockets * c.Cores
	switch c.Numbering {
	case "adjacent":
		return core*c.Threads + thread
	case "alternating":
		return core%c.Cores*c.Sockets + core/c.Cores + thread*cores
	}
	return core + thread*cores
}

// core returns the core of a CPU.
func (c CPU) core(id int) int {
	cores := c.Sockets * c.Cores
	switch c.Numbering {
	case "adjacent":
		return id / c.Threads
	case "alternating":
		return id%cores%c.Sockets*c.Cores + id%cores/c.Sockets
	}
	return id % cores
}

// node returns one of count nodes.
func (s *Spec) node(id, count int, cpus setting.CPUSet) facts.Node {
	n := facts.Node{ID: id, CPUs: cpus, Memory: uint64(s.Memory.GiB) << 30 / uint64(count)}
	used := n.Memory / 4
	for _, size := range sorted(s.Memory.Pages) {
		bytes, _ := pageBytes(size) // checked by addPages
		pages := uint64(s.Memory.Pages[size] / count)
		n.Hugepages = append(n.Hugepages, facts.Hugepages{Size: bytes, Total: pages, Free: pages})
		used += pages * bytes
	}
	n.Free = n.Memory - min(used, n.Memory)
	n.Available = n.Free
	remote := s.CPU.Remote
	if remote == 0 {
		remote = 21
		if s.CPU.Vendor == "AuthenticAMD" {
			remote = 32
		}
	}
	for other := range count {
		switch {
		case other == id:
			n.Distances = append(n.Distances, 10)
		case s.CPU.Rows == nil && other/s.CPU.Nodes == id/s.CPU.Nodes:
			n.Distances = append(n.Distances, 12)
		default:
			n.Distances = append(n.Distances, remote)
		}
	}
	return n
}

// emptied takes the memory of the nodes that have none.
func (s *Spec) emptied(nodes []facts.Node) {
	for _, id := range s.Memory.Empty {
		n := &nodes[id]
		n.Memory, n.Free, n.Available, n.Hugepages = 0, 0, 0, nil
	}
}

// withFar adds the nodes without CPUs, at the distance that firmware gives memory behind CXL.
func (s *Spec) withFar(nodes []facts.Node) []facts.Node {
	const away = 24
	for _, gib := range s.Memory.Far {
		bytes := uint64(gib) << 30
		far := facts.Node{ID: len(nodes), Memory: bytes, Free: bytes, Available: bytes}
		for i := range nodes {
			nodes[i].Distances = append(nodes[i].Distances, away)
			far.Distances = append(far.Distances, away)
		}
		far.Distances = append(far.Distances, 10)
		nodes = append(nodes, far)
	}
	return nodes
}

// pageBytes returns the size of a page: "2M".
func pageBytes(text string) (uint64, error) {
	shift := map[byte]int{'K': 10, 'M': 20, 'G': 30}[text[len(text)-1]]
	n, err := strconv.ParseUint(text[:len(text)-1], 10, 32)
	if err != nil || shift == 0 {
		return 0, fmt.Errorf("page size %q: expected one such as 2M", text)
	}
	return n << shift, nil
}

// isolatedBy returns the CPUs that an argument takes from those that are online: not the first if it lists all.
func isolatedBy(line setting.CommandLine, name string, online setting.CPUSet) setting.CPUSet {
	parts := strings.Split(line.Get(name).Value, ",")
	parts = slices.DeleteFunc(parts, func(p string) bool { return p == "domain" || p == "managed_irq" || p == "nohz" })
	set, err := setting.ParseCPUs(strings.Join(parts, ","))
	if err != nil {
		return nil
	}
	if set = set.And(online); len(set) > 0 && set.Equal(online) {
		return set[1:]
	}
	return set
}
