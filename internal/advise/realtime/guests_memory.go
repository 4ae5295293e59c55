package realtime

import (
	"cmp"
	"fmt"
	"slices"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
)

var (
	guestNode = &Kind{"guest.node", Guests, "Its memory is on another node than its CPUs", knob.High,
		"each access goes over the link between the nodes: slower by half, and at the mercy of what else uses the link",
		"domain.numatune"}
	guestSpread = &Kind{"guest.spread", Guests, "Its CPUs are on several nodes, and it does not know", knob.Medium,
		"the guest's kernel takes all of its memory for equally near, and puts work and data on different nodes",
		"domain.vnuma"}
	guestStrict = &Kind{"guest.numa_mode", Guests, "Its memory may come from other nodes", knob.Medium,
		"without mode strict the kernel takes pages from another node as soon as its own is short, and nobody is told",
		"domain.numatune"}
	guestPages = &Kind{"guest.hugepages", Guests, "It has no huge pages", knob.Medium,
		"small pages can be merged, moved, compacted and swapped: each costs the guest a fault of some microseconds, " +
			"and translations miss more often", "domain.hugepages"}
	guestPagesShort = &Kind{"guest.hugepages_short", Guests, "There are not enough huge pages on the node", knob.High,
		"the guest does not start again, or takes pages of another node", "boot.hugepages"}
	guestLocked = &Kind{"guest.locked", Guests, "QEMU's own memory can be taken away", knob.Low,
		"the guest's RAM in huge pages stays; what QEMU itself needs can be swapped or dropped, and comes back with " +
			"a fault", "domain.locked"}
)

// memory judges where a guest's memory is and whether it stays.
func (v *view) memory(g *guest) {
	cells := g.d.CPU.Cells
	cpuNodes := v.nodes(g.pins())
	memory := pinned(g.d.NUMA.Nodes)
	for _, c := range g.d.NUMA.Cells {
		memory = memory.Or(pinned(c.Nodes))
	}
	several := len(v.h.Topology.Nodes) > 1
	if several && len(cpuNodes) > 0 {
		tune := fmt.Sprintf("<numatune><memory mode='strict' nodeset='%s'/></numatune> in the definition, then a "+
			"restart", cpuNodes)
		switch {
		case len(memory) == 0:
			v.add(guestStrict, g.object("memory"), g.pins(), fmt.Sprintf("its definition names no node for it; its "+
				"CPUs are on node %s", cpuNodes), tune)
		case len(memory.Minus(cpuNodes)) > 0:
			v.add(guestNode, g.object("memory"), g.pins(), fmt.Sprintf("its memory is on node %s, its CPUs on node %s",
				memory, cpuNodes), tune)
		case g.d.NUMA.Mode != "" && g.d.NUMA.Mode != "strict" && len(g.d.NUMA.Cells) == 0:
			v.add(guestStrict, g.object("memory"), g.pins(), fmt.Sprintf("the mode is %s", g.d.NUMA.Mode), tune)
		}
		if quiet := v.nodes(g.claims()); len(quiet) > 1 && len(cells) < 2 {
			v.add(guestSpread, g.object(""), g.claims(), fmt.Sprintf("its CPUs are on nodes %s, its definition has %s",
				quiet, counted(len(cells), "NUMA cell")),
				"pin it to one node, or give it cells of its own (<numa><cell …/></numa>) with <memnode> for each").
				with("nodes", float64(len(quiet)))
		}
	}
	if !g.d.Backing.HugePages {
		v.add(guestPages, g.object("memory"), g.claims(), "its definition has no <hugepages/>",
			"<memoryBacking><hugepages/></memoryBacking>, huge pages of the boot (boot.hugepages), and a restart")
	}
	if !g.d.Backing.Locked {
		v.add(guestLocked, g.object("memory"), g.claims(), "its definition has no <locked/>",
			"<memoryBacking><locked/></memoryBacking> and a restart")
	}
}

// pool judges for each node and page size whether there are pages for the guests that want them there: for those that
// run the pages are taken, for those that do not run they must be free.
func (v *view) pool() {
	type place struct {
		node int
		size uint64
	}
	var places []place
	need, ask, names := map[place]uint64{}, map[place]uint64{}, map[place][]*guest{}
	for _, g := range v.guests {
		if !g.defined || !g.d.Backing.HugePages || len(g.d.NUMA.Cells) > 0 || len(g.d.Backing.Pages) > 1 {
			continue
		}
		nodes := pinned(g.d.NUMA.Nodes)
		if len(nodes) != 1 {
			continue // where its pages come from is the kernel's choice
		}
		size := v.pageSize(g)
		if size == 0 {
			v.unsure("huge pages of "+g.object(""), "the host's default size is not known")
			continue
		}
		p := place{nodes[0], size}
		if g.realtime || g.active() && v.wanted(nodes[0]) {
			pages := (g.d.MemoryKiB<<10 + size - 1) / size
			need[p] += pages
			if !g.active() {
				ask[p] += pages
			}
			names[p] = append(names[p], g)
		}
	}
	for p := range names {
		places = append(places, p)
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.node, b.node),
			cmp.Compare(a.size, b.size))
	})
	for _, p := range places {
		node, _ := v.h.Topology.Node(p.node)
		pages, there := poolOf(node.Hugepages, p.size)
		object := fmt.Sprintf("node %d pages of %d kB", p.node, p.size>>10)
		switch {
		case !there || pages.Total < need[p]:
			v.add(guestPagesShort, object, v.s.CPUs.And(node.CPUs), fmt.Sprintf("there are %d, and %s need %d",
				pages.Total, guestNames(names[p]), need[p]),
				fmt.Sprintf("hugepages=%d:%d behind hugepagesz= on the kernel command line (boot.hugepages), or %d "+
					"to /sys/devices/system/node/node%d/hugepages/hugepages-%dkB/nr_hugepages", p.node, need[p],
					need[p], p.node, p.size>>10)).
				with("pages", float64(pages.Total)).with("needed", float64(need[p]))
		case pages.Free < ask[p]:
			v.add(guestPagesShort, object, v.s.CPUs.And(node.CPUs),
				fmt.Sprintf("%d are free, and guests that are off need %d", pages.Free, ask[p]),
				"find who holds them (grep -l hugetlbfs /proc/*/maps), or reserve more (boot.hugepages)").
				with("pages", float64(pages.Free)).with("needed", float64(ask[p])).at(knob.Medium)
		}
	}
}

// wanted reports whether a realtime guest has its memory on a node.
func (v *view) wanted(node int) bool {
	for _, g := range v.guests {
		if g.realtime && g.defined && pinned(g.d.NUMA.Nodes).Has(node) {
			return true
		}
	}
	return false
}

func poolOf(pools []facts.Hugepages, size uint64) (facts.Hugepages, bool) {
	for _, p := range pools {
		if p.Size == size {
			return p, true
		}
	}
	return facts.Hugepages{}, false
}

// pageSize is the size of a guest's huge pages in bytes; 0 where it is the host's default and that is not known.
func (v *view) pageSize(g *guest) uint64 {
	if len(g.d.Backing.Pages) == 1 {
		return g.d.Backing.Pages[0].KiB << 10
	}
	return v.h.DefaultHugepage()
}

func guestNames(list []*guest) string {
	text := ""
	for i, g := range list {
		if i > 0 {
			text += ", "
		}
		text += g.f.Name
	}
	return text
}
