package facts

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/model/setting"
)

// Topology describes CPUs, caches and memory.
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
	// nil if unknown: other architectures, and snapshots of versions that did not record it
	Processor *Processor `json:"processor,omitempty"`
	Suspect   []string   `json:"suspect,omitempty"` // tables that contradict each other, and how that was resolved
	// DeniedCPUs and DeniedNodes are online CPUs and NUMA nodes outside the cpuset of the process that took the
	// inventory. They are in all lists, since the host has them, but not in Counts, since lstopo does not count them.
	DeniedCPUs  setting.CPUSet `json:"denied_cpus,omitempty"`
	DeniedNodes setting.CPUSet `json:"denied_nodes,omitempty"`
	Hugepages   []Hugepages    `json:"hugepages"` // totals over all nodes
	// default huge page size; 0: unknown
	DefaultPage uint64 `json:"default_hugepage_bytes,omitempty"`
}

// DefaultHugepage returns the default huge page size in bytes: as the running kernel reports it, else from its command
// line; 0 if neither says and the size is ambiguous.
func (h *Host) DefaultHugepage() uint64 {
	if h.Topology.DefaultPage > 0 {
		return h.Topology.DefaultPage
	}
	size, _ := setting.MemParse(setting.ParseCommandLine(h.Kernel.CommandLine).Get("default_hugepagesz").Value)
	if size > 0 {
		return size
	}
	if pools := h.Topology.Hugepages; len(pools) == 1 {
		return pools[0].Size
	}
	if slices.ContainsFunc(h.Topology.Hugepages, func(p Hugepages) bool { return p.Size == 2<<20 }) {
		return 2 << 20 // x86's default
	}
	return 0
}

// Counts are lstopo's numbers (hwloc 3), limited to what the inventorying process may use.
type Counts struct {
	Packages    int `json:"packages"`
	Dies        int `json:"dies"` // 0 if each package is one die
	NUMANodes   int `json:"numa_nodes"`
	L3Caches    int `json:"l3_caches"`
	Cores       int `json:"cores"`
	CPUsOnline  int `json:"cpus_online"`  // PUs of lstopo
	CPUsOffline int `json:"cpus_offline"` // "processors not represented in topology": offline, or denied by the cpuset
}

// CPU returns a CPU by number, and whether it exists.
func (t *Topology) CPU(id int) (CPU, bool) {
	i, found := t.Index(id)
	if !found {
		return CPU{}, false
	}
	return t.CPUs[i], true
}

// Index returns the index in CPUs, which is sorted by number, of a CPU.
func (t *Topology) Index(id int) (int, bool) {
	return slices.BinarySearchFunc(t.CPUs, id, func(cpu CPU, id int) int { return cpu.ID - id })
}

// Node returns a NUMA node by number, and whether it exists.
func (t *Topology) Node(id int) (Node, bool) {
	return first(t.Nodes, func(n Node) bool { return n.ID == id })
}

// BootCPU is the CPU that the kernel boots on. It keeps time for the CPUs without a tick and cannot be one of them.
const BootCPU = 0

// CPU is a logical CPU (hardware thread). IDs are −1 if unknown.
type CPU struct {
	ID       int            `json:"id"`
	Online   bool           `json:"online"`
	Package  int            `json:"package"`
	Die      int            `json:"die"`
	Core     int            `json:"core"`     // unique in the machine, counted from 0 in CPU order
	CoreID   int            `json:"core_id"`  // kernel's number, unique only within package and die
	Siblings setting.CPUSet `json:"siblings"` // CPUs of the same core, including itself
	Node     int            `json:"node"`
	L3       int            `json:"l3"` // index of its L3 cache in Topology.Caches, −1 for none
	// kind of core where the machine has several: core, atom or lowpower of Intel's hybrid processors, of others the
	// capacity (cpu_capacity, of 1024); empty: all are of one kind, or it is not known
	Kind string `json:"kind,omitempty"`
}

// Kinds returns the kinds of core of a machine, the fastest first: one, which may be empty, where all are alike. CPUs
// that are offline have none.
func (t *Topology) Kinds() []string {
	speed := func(kind string) int {
		if i := slices.Index([]string{"lowpower", "atom", "core"}, kind); i >= 0 {
			return i
		}
		n, _ := strconv.Atoi(kind)
		return n
	}
	kinds := []string{}
	for _, c := range t.CPUs {
		if c.Online && !slices.Contains(kinds, c.Kind) {
			kinds = append(kinds, c.Kind)
		}
	}
	slices.SortFunc(kinds, func(a, b string) int { return cmp.Or(speed(b)-speed(a), strings.Compare(a, b)) })
	return kinds
}

// Node is one NUMA node. Sizes are in bytes.
type Node struct {
	ID     int            `json:"id"`
	CPUs   setting.CPUSet `json:"cpus"`
	Memory uint64         `json:"memory_bytes"`
	Free   uint64         `json:"free_bytes"`
	// free or reclaimable page cache; 0: unknown
	Available uint64      `json:"available_bytes,omitempty"`
	Distances []int       `json:"distances"` // to each node, in the order of Topology.Nodes; 10 = local
	Hugepages []Hugepages `json:"hugepages"`
}

// Hugepages is the pool of a page size.
type Hugepages struct {
	Size     uint64 `json:"size_bytes"`
	Total    uint64 `json:"total"`
	Free     uint64 `json:"free"`
	Surplus  uint64 `json:"surplus"`
	Reserved uint64 `json:"reserved"`
}

// Cache is a cache and the CPUs that share it.
type Cache struct {
	Level int            `json:"level"`
	Type  string         `json:"type"` // Data, Instruction or Unified
	Size  uint64         `json:"size_bytes"`
	CPUs  setting.CPUSet `json:"cpus"`
}
