package knob

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// defaultPages is the value of a definition with huge pages of the host's default size.
const defaultPages = "default"

// pageNeed is memory of a guest in huge pages.
type pageNeed struct {
	size  uint64         // bytes per page; 0: the host's default size, which is unknown
	bytes uint64         // of memory
	nodes setting.CPUSet // that the memory comes from; empty: any
}

func (n pageNeed) pages() uint64 {
	if n.size == 0 {
		return 0
	}
	return (n.bytes + n.size - 1) / n.size
}

// pageNeeds returns the huge pages that a guest's definition takes on this host, for each NUMA cell if it has some.
func (v *View) pageNeeds(g *facts.Guest) []pageNeed { return pageNeedsOf(g, v.DefaultHugepage()) }

// pageNeedsOf is pageNeeds for a host with another default page size.
func pageNeedsOf(g *facts.Guest, defaultSize uint64) []pageNeed {
	whole := pageNeed{size: defaultSize, bytes: g.Memory, nodes: g.MemoryNodes}
	doc, err := domain.Parse([]byte(g.Definition))
	if err != nil {
		return []pageNeed{whole}
	}
	d := doc.Guest()
	sizeOf := func(cell int) uint64 {
		size := defaultSize
		for _, p := range d.Backing.Pages {
			if set, err := setting.ParseCPUs(p.Cells); p.Cells == "" || err == nil && set.Has(cell) {
				size = p.KiB << 10
			}
		}
		return size
	}
	if len(d.CPU.Cells) == 0 {
		whole.size = sizeOf(0)
		return []pageNeed{whole}
	}
	var all []pageNeed
	for _, c := range d.CPU.Cells {
		need := pageNeed{size: sizeOf(c.ID), bytes: c.KiB << 10, nodes: g.MemoryNodes}
		for _, on := range d.NUMA.Cells {
			if set, err := setting.ParseCPUs(on.Nodes); on.Cell == c.ID && err == nil && len(set) > 0 {
				need.nodes = set
			}
		}
		all = append(all, need)
	}
	return all
}

// poolFree returns the free bytes in the pools of a page size on some nodes, on all if none is given.
func (v *View) poolFree(size uint64, nodes setting.CPUSet) (free uint64) {
	tally := func(pools []facts.Hugepages) {
		for _, p := range pools {
			if p.Size == size {
				free += p.Size * (p.Free - min(p.Reserved, p.Free))
			}
		}
	}
	if len(nodes) == 0 {
		tally(v.Topology.Hugepages)
		return free
	}
	for _, n := range v.Topology.Nodes {
		if nodes.Has(n.ID) {
			tally(n.Hugepages)
		}
	}
	return free
}

// pageSizes returns the sizes of the host's pools, largest first.
func (v *View) pageSizes() []uint64 {
	sizes := facts.Map(v.Topology.Hugepages, func(p facts.Hugepages) uint64 { return p.Size })
	for _, n := range v.Topology.Nodes {
		for _, p := range n.Hugepages {
			sizes = append(sizes, p.Size)
		}
	}
	slices.SortFunc(sizes, func(a, b uint64) int { return cmp.Compare(b, a) })
	return slices.Compact(sizes)
}

// pagesFor returns what a definition should say about huge pages: the largest pages whose pool has room for all of the
// guest's memory, named unless they have the default size. holds is false if no pool has.
func (v *View) pagesFor(g *facts.Guest) (value string, holds bool) {
	for _, size := range v.pageSizes() {
		need := pageNeed{size: size, bytes: g.Memory}
		if size == 0 || need.pages()*size > v.poolFree(size, g.MemoryNodes) {
			continue
		}
		if size == v.DefaultHugepage() {
			return defaultPages, true
		}
		return sizeWords(size), true
	}
	return defaultPages, false
}

// PoolHolds reports whether a pool of huge pages has room for all of a guest's memory now.
func (v *View) PoolHolds(g *facts.Guest) bool {
	_, holds := v.pagesFor(g)
	return holds
}

// shortPageSize returns the page size that is short for a guest's definition; 0 if enough pages are free.
func (v *View) shortPageSize(g *facts.Guest) uint64 {
	for _, need := range v.pageNeeds(g) {
		if need.size > 0 && need.pages()*need.size > v.poolFree(need.size, need.nodes) {
			return need.size
		}
	}
	return 0
}

// PoolWords says how much is free of each page size on some nodes, on all if none is given.
func (v *View) PoolWords(nodes setting.CPUSet) string {
	var parts []string
	for _, size := range v.pageSizes() {
		parts = append(parts,
			fmt.Sprintf("%.1f GiB free in pages of %s", gib(v.poolFree(size, nodes)), sizeWords(size)))
	}
	if len(parts) == 0 {
		return "no pool was seen"
	}
	return strings.Join(parts, ", ")
}

// sizeWords returns a page size as definitions spell it.
func sizeWords(size uint64) string {
	switch {
	case size == 0:
		return "not known"
	case size%(1<<30) == 0:
		return fmt.Sprintf("%dGiB", size>>30)
	case size%(1<<20) == 0:
		return fmt.Sprintf("%dMiB", size>>20)
	}
	return fmt.Sprintf("%dKiB", size>>10)
}
