package placement

import (
	"cmp"
	"slices"
)

// Memory is counted in MiB, demand rounded up and room rounded down.
const memoryUnit = 1 << 20

// store is one place that memory comes from: the ordinary pages of a node, or its pool of one page size.
type store struct {
	node   int
	page   uint64 // bytes, 0: ordinary
	room   int    // MiB beside the guests that stay where they are
	bottom bool   // its size is not known: it holds everything
}

// stores are all places of memory, ordinary ones first.
func (t *table) stores() []store {
	var all []store
	for i, n := range t.ask.Nodes {
		room := n.Memory - min(t.hostMemory(i, n), n.Memory)
		for _, p := range n.Pages {
			room -= min(p.Size*p.Count, room)
		}
		all = append(all, store{node: n.ID, room: int(room / memoryUnit), bottom: n.Memory == 0})
	}
	for _, n := range t.ask.Nodes {
		pools := slices.Clone(n.Pages)
		slices.SortFunc(pools, func(a, b Pages) int { return cmp.Compare(b.Size, a.Size) })
		for _, p := range pools {
			if p.Count > 0 && p.Size >= memoryUnit {
				all = append(all, store{node: n.ID, page: p.Size, room: int(p.Size / memoryUnit * p.Count)})
			}
		}
	}
	for _, g := range t.ask.Guests {
		p := t.frozen[g.Name]
		if p == nil {
			continue
		}
		if len(p.Memory) == 0 {
			t.settle(p, &g, all)
		}
		for _, m := range p.Memory {
			if s := find(all, m.Node, p.PageSize); s != nil {
				s.room -= min(units(m.Bytes), s.room)
			}
		}
	}
	return all
}

// hostMemory is what a node keeps for the host: 4 GiB on the first one and 2 GiB on the others, at most an eighth of
// it, or what the user wants; and what daemons need.
func (t *table) hostMemory(index int, n Node) uint64 {
	kept := uint64(2 << 30)
	if index == 0 {
		kept = 4 << 30
	}
	kept = min(kept, n.Memory/8)
	for _, r := range t.ask.Reserves {
		if r.Node == n.ID && r.Memory > 0 {
			kept = r.Memory
		}
	}
	for _, d := range t.ask.Daemons {
		if d.Node == n.ID {
			kept += d.Memory
		}
	}
	return kept
}

// settle says where the memory of a guest is that stays: on the nodes of its vCPUs, in a pool that holds it.
func (t *table) settle(p *Placed, g *Guest, all []store) {
	seats := map[int]int{}
	for _, v := range p.VCPUs {
		if c, online := t.cpus[v.CPU]; online {
			seats[c.Node]++
		}
	}
	var nodes, counts []int
	for _, node := range p.Nodes {
		nodes, counts = append(nodes, node), append(counts, seats[node])
	}
	for _, page := range t.pageSizes(g) {
		on := shareOut(g.Memory, page, nodes, counts)
		if page == 0 || !slices.ContainsFunc(on, func(m MemoryOn) bool {
			s := find(all, m.Node, page)
			return s == nil || units(m.Bytes) > s.room
		}) {
			p.Memory, p.PageSize = on, page
			return
		}
	}
}

// pageSizes are the sizes of pages that a guest's memory may be in, the wanted ones first; 0 is ordinary pages.
func (t *table) pageSizes(g *Guest) []uint64 {
	var sizes []uint64
	if g.Hugepages {
		for _, n := range t.ask.Nodes {
			for _, p := range n.Pages {
				if p.Count > 0 && p.Size >= memoryUnit && g.Memory%p.Size == 0 && !slices.Contains(sizes, p.Size) {
					sizes = append(sizes, p.Size)
				}
			}
		}
		slices.SortFunc(sizes, func(a, b uint64) int { return cmp.Compare(b, a) })
	}
	return append(sizes, 0)
}

// shareOut divides memory over nodes in proportion to the vCPUs there, in whole pages, the rest on the first.
func shareOut(bytes, page uint64, nodes, counts []int) []MemoryOn {
	page = max(page, memoryUnit)
	all := 0
	for _, n := range counts {
		all += n
	}
	on := make([]MemoryOn, len(nodes))
	left := bytes
	for i := len(nodes) - 1; i >= 0; i-- {
		part := left
		if i > 0 && all > 0 {
			part = min(left, bytes/uint64(all)*uint64(counts[i])/page*page)
		}
		on[i] = MemoryOn{Node: nodes[i], Bytes: part}
		left -= part
	}
	return on
}

func units(bytes uint64) int { return int((bytes + memoryUnit - 1) / memoryUnit) }

func find(all []store, node int, page uint64) *store {
	for i := range all {
		if all[i].node == node && all[i].page == page {
			return &all[i]
		}
	}
	return nil
}
