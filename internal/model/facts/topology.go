package facts

import (
	"slices"

	"mpps/internal/model/setting"
)

// Topology is the machine's processors, caches and memory.
type Topology struct {
	Counts   Counts         `json:"counts"`
	CPUs     []CPU          `json:"cpus"` // every present CPU, offline ones too
	Nodes    []Node         `json:"nodes"`
	Caches   []Cache        `json:"caches"`
	Online   setting.CPUSet `json:"online"`
	Offline  setting.CPUSet `json:"offline"`
	Isolated setting.CPUSet `json:"isolated"`
	NohzFull setting.CPUSet `json:"nohz_full"`
	SMT      string         `json:"smt,omitempty"` // content of devices/system/cpu/smt/control
	Model    string         `json:"model,omitempty"`
	Vendor   string         `json:"vendor,omitempty"`
	Suspect  []string       `json:"suspect,omitempty"` // tables that contradict each other and what was made of them
	// DeniedCPUs are online CPUs, DeniedNodes NUMA nodes, that the cpuset of the process that took stock keeps from it.
	// They are in all lists, for the host has them, but not in Counts, for lstopo does not count them either.
	DeniedCPUs  setting.CPUSet `json:"denied_cpus,omitempty"`
	DeniedNodes setting.CPUSet `json:"denied_nodes,omitempty"`
	Hugepages   []Hugepages    `json:"hugepages"` // totals over all nodes
	// size of the huge pages that nobody names a size of; 0: not known
	DefaultPage uint64 `json:"default_hugepage_bytes,omitempty"`
}

// DefaultHugepage is the size in bytes of huge pages that nobody names a size of: what the running kernel tells, else
// what its command line says; 0 where neither does and there is more than one size.
func (h *Host) DefaultHugepage() uint64 {
	if h.Topology.DefaultPage > 0 {
		return h.Topology.DefaultPage
	}
	switch setting.ParseCommandLine(h.Kernel.CommandLine).Get("default_hugepagesz").Value {
	case "1G", "1g", "1024M":
		return 1 << 30
	case "2M", "2m":
		return 2 << 20
	}
	if pools := h.Topology.Hugepages; len(pools) == 1 {
		return pools[0].Size
	}
	if slices.ContainsFunc(h.Topology.Hugepages, func(p Hugepages) bool { return p.Size == 2<<20 }) {
		return 2 << 20 // x86, where nobody says otherwise
	}
	return 0
}

// Counts are the numbers that lstopo (hwloc 3) prints too: of what the process that took stock may use.
type Counts struct {
	Packages    int `json:"packages"`
	Dies        int `json:"dies"` // 0 where each package is one die
	NUMANodes   int `json:"numa_nodes"`
	L3Caches    int `json:"l3_caches"`
	Cores       int `json:"cores"`
	CPUsOnline  int `json:"cpus_online"`  // PUs of lstopo
	CPUsOffline int `json:"cpus_offline"` // "processors not represented in topology": offline, or denied by the cpuset
}

// CPU is the CPU of a number and whether there is one.
func (t *Topology) CPU(id int) (CPU, bool) {
	i, found := t.Index(id)
	if !found {
		return CPU{}, false
	}
	return t.CPUs[i], true
}

// Index is where the CPU of a number stands in CPUs, which is in the order of the numbers.
func (t *Topology) Index(id int) (int, bool) {
	return slices.BinarySearchFunc(t.CPUs, id, func(cpu CPU, id int) int { return cpu.ID - id })
}

// Node is the NUMA node of a number and whether there is one.
func (t *Topology) Node(id int) (Node, bool) {
	i := slices.IndexFunc(t.Nodes, func(n Node) bool { return n.ID == id })
	if i < 0 {
		return Node{}, false
	}
	return t.Nodes[i], true
}

// CPU is one logical processor (a hardware thread). IDs are −1 where the machine does not tell.
type CPU struct {
	ID       int            `json:"id"`
	Online   bool           `json:"online"`
	Package  int            `json:"package"`
	Die      int            `json:"die"`
	Core     int            `json:"core"`     // unique over the whole machine, counted from 0 in CPU order
	CoreID   int            `json:"core_id"`  // the kernel's number, unique only within package and die
	Siblings setting.CPUSet `json:"siblings"` // CPUs of the same core, this one among them
	Node     int            `json:"node"`
	L3       int            `json:"l3"` // index of its L3 cache in Topology.Caches, −1 where there is none
}

// Node is one NUMA node. Sizes are in bytes.
type Node struct {
	ID     int            `json:"id"`
	CPUs   setting.CPUSet `json:"cpus"`
	Memory uint64         `json:"memory_bytes"`
	Free   uint64         `json:"free_bytes"`
	// free, or taken by caches of files that the kernel gives up; 0: not known
	Available uint64      `json:"available_bytes,omitempty"`
	Distances []int       `json:"distances"` // to each node in the order of Topology.Nodes; 10 = local
	Hugepages []Hugepages `json:"hugepages"`
}

// Hugepages is the pool of one page size.
type Hugepages struct {
	Size     uint64 `json:"size_bytes"`
	Total    uint64 `json:"total"`
	Free     uint64 `json:"free"`
	Surplus  uint64 `json:"surplus"`
	Reserved uint64 `json:"reserved"`
}

// Cache is one cache instance that serves a set of CPUs.
type Cache struct {
	Level int            `json:"level"`
	Type  string         `json:"type"` // Data, Instruction or Unified
	Size  uint64         `json:"size_bytes"`
	CPUs  setting.CPUSet `json:"cpus"`
}
