package realtime

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/words"
)

var (
	guestNode       = kind("guest.node")
	guestSpread     = kind("guest.spread")
	guestStrict     = kind("guest.numa_mode")
	guestPages      = kind("guest.hugepages")
	guestPagesShort = kind("guest.hugepages_short")
	guestLocked     = kind("guest.locked")
)

// judgeMemory judges where a guest's memory is and whether it stays there.
func (v *view) judgeMemory(g *guest) {
	cells := g.d.CPU.Cells
	object, pinned, quiet := g.object("memory"), g.pinnedCPUs(), g.quietCPUs()
	cpuNodes := v.nodes(pinned)
	memory := parseSet(g.d.NUMA.Nodes)
	for _, c := range g.d.NUMA.Cells {
		memory = memory.Or(parseSet(c.Nodes))
	}
	if len(v.h.Topology.Nodes) > 1 && len(cpuNodes) > 0 {
		tune := fmt.Sprintf("<numatune><memory mode='strict' nodeset='%s'/></numatune> in the definition, then a "+
			"restart", cpuNodes)
		switch {
		case len(memory) == 0:
			v.add(guestStrict, object, pinned,
				fmt.Sprintf("its definition names no node for it; its CPUs are on node %s", cpuNodes), tune)
		case len(memory.Minus(cpuNodes)) > 0:
			v.add(guestNode, object, pinned, fmt.Sprintf("its memory is on node %s, its CPUs on node %s",
				memory, cpuNodes), tune)
		case g.d.NUMA.Mode != "" && g.d.NUMA.Mode != "strict" && len(g.d.NUMA.Cells) == 0:
			v.add(guestStrict, object, pinned, fmt.Sprintf("the mode is %s", g.d.NUMA.Mode), tune)
		}
		if nodes := v.nodes(quiet); len(nodes) > 1 && len(cells) < 2 {
			v.add(guestSpread, g.object(""), quiet, fmt.Sprintf("its CPUs are on nodes %s, its definition has %s",
				nodes, words.Count(len(cells), "NUMA cell")),
				"pin it to one node, or give it cells of its own (<numa><cell …/></numa>) with <memnode> for each").
				with("nodes", float64(len(nodes)))
		}
	}
	if !g.d.Backing.HugePages {
		v.add(guestPages, object, quiet, "its definition has no <hugepages/>",
			"<memoryBacking><hugepages/></memoryBacking>, huge pages of the boot (boot.hugepages), and a restart")
	}
	if !g.d.Backing.Locked {
		v.add(guestLocked, object, quiet, "its definition has no <locked/>",
			"<memoryBacking><locked/></memoryBacking> and a restart")
	}
}

// judgeHugepages judges, by node and page size, whether the guests that want huge pages there can have them. Running
// guests have theirs already; for the others they must be free.
func (v *view) judgeHugepages() {
	type place struct {
		node int
		size uint64
	}
	need, ask, names := map[place]uint64{}, map[place]uint64{}, map[place][]string{}
	for _, g := range v.guests {
		if !g.defined || !g.d.Backing.HugePages || len(g.d.NUMA.Cells) > 0 || len(g.d.Backing.Pages) > 1 {
			continue
		}
		nodes := parseSet(g.d.NUMA.Nodes)
		if len(nodes) != 1 {
			continue // the kernel chooses the nodes of its pages
		}
		size := v.pageSize(g)
		if size == 0 {
			v.addUnjudged("huge pages of "+g.object(""), "the host's default size is not known")
			continue
		}
		p := place{nodes[0], size}
		if g.realtime || g.active() && v.usesNode(nodes[0]) {
			pages := (g.d.MemoryKiB<<10 + size - 1) / size
			need[p] += pages
			if !g.active() {
				ask[p] += pages
			}
			names[p] = append(names[p], g.f.Name)
		}
	}
	for _, p := range slices.SortedFunc(maps.Keys(names), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.size, b.size))
	}) {
		node, _ := v.h.Topology.Node(p.node)
		var pages facts.Hugepages
		if i := slices.IndexFunc(node.Hugepages, func(h facts.Hugepages) bool { return h.Size == p.size }); i >= 0 {
			pages = node.Hugepages[i]
		}
		object := fmt.Sprintf("node %d pages of %d kB", p.node, p.size>>10)
		switch {
		case pages.Size == 0 || pages.Total < need[p]:
			v.add(guestPagesShort, object, v.s.CPUs.And(node.CPUs), fmt.Sprintf("there are %d, and %s need %d",
				pages.Total, strings.Join(names[p], ", "), need[p]),
				fmt.Sprintf("hugepages=%d:%d behind hugepagesz= on the kernel command line (boot.hugepages), or %d "+
					"to /sys/devices/system/node/node%d/hugepages/hugepages-%dkB/nr_hugepages", p.node, need[p],
					need[p], p.node, p.size>>10)).with("pages", float64(pages.Total)).with("needed", float64(need[p]))
		case pages.Free < ask[p]:
			v.add(guestPagesShort, object, v.s.CPUs.And(node.CPUs),
				fmt.Sprintf("%d are free, and guests that are off need %d", pages.Free, ask[p]),
				"find who holds them (grep -l hugetlbfs /proc/*/maps), or reserve more (boot.hugepages)").
				with("pages", float64(pages.Free)).with("needed", float64(ask[p])).at(knob.Medium)
		}
	}
}

// usesNode reports whether a realtime guest has its memory on a node.
func (v *view) usesNode(node int) bool {
	return slices.ContainsFunc(v.guests, func(g *guest) bool {
		return g.realtime && g.defined && parseSet(g.d.NUMA.Nodes).Has(node)
	})
}

// pageSize returns the size of a guest's huge pages in bytes, or 0 if it is the host's default and that is unknown.
func (v *view) pageSize(g *guest) uint64 {
	if len(g.d.Backing.Pages) == 1 {
		return g.d.Backing.Pages[0].KiB << 10
	}
	return v.h.DefaultHugepage()
}
