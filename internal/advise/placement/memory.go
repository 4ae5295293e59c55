package placement

import (
	"cmp"
	"slices"

	"mpps/internal/model/facts"
)

// Memory is counted in MiB, demand rounded up and room rounded down.
const memoryUnit = 1 << 20

// store is a source of memory: a node's ordinary pages, or its pool of huge pages of one size.
type store struct {
	node      int
	page      uint64 // bytes, 0: ordinary
	room      int    // MiB left by the guests that stay
	unlimited bool   // its size is not known: it holds everything
}

// stores returns all sources of memory, the nodes' ordinary pages first.
func (t *table) stores() []store {
	var all []store
	for i, n := range t.ask.Nodes {
		room := n.Memory - min(t.hostMemory(i, n), n.Memory)
		for _, p := range n.Pages {
			room -= min(p.Size*p.Count, room)
		}
		all = append(all, store{node: n.ID, room: int(room / memoryUnit), unlimited: n.Memory == 0 && !n.Empty})
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
		if p := t.frozen[g.Name]; p != nil {
			if len(p.Memory) == 0 {
				t.placeMemory(p, &g, all)
			}
			takeMemory(all, p)
		}
	}
	return all
}

// takeMemory removes a guest's memory from the stores.
func takeMemory(stores []store, p *Placed) {
	for _, m := range p.Memory {
		if s := storeOf(stores, m.Node, p.PageSize); s != nil {
			s.room -= min(mebibytes(m.Bytes), s.room)
		}
	}
}

// hostMemory returns what a node keeps for the host and its daemons, in bytes. The host's part is 4 GiB on the first
// node and 2 GiB on the others, at most an eighth of the node, or what the user wants.
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

// placeMemory assigns the memory of a guest that stays: on the nodes of its vCPUs, in a pool that has room.
func (t *table) placeMemory(p *Placed, g *Guest, all []store) {
	for _, page := range t.pageSizes(g) {
		on := divideMemory(g.Memory, page, t.shares(p, p.Nodes))
		if page == 0 || !slices.ContainsFunc(on, func(m MemoryOn) bool {
			s := storeOf(all, m.Node, page)
			return s == nil || mebibytes(m.Bytes) > s.room
		}) {
			p.Memory, p.PageSize = on, page
			return
		}
	}
}

// pageSizes returns the page sizes that a guest's memory may have, the preferred first; 0 is ordinary pages.
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

// divideMemory divides memory over nodes in proportion to the vCPUs there, in whole pages, the rest on the first.
func divideMemory(bytes, page uint64, shares []share) []MemoryOn {
	page = max(page, memoryUnit)
	all := 0
	for _, s := range shares {
		all += s.vcpus
	}
	on := make([]MemoryOn, len(shares))
	left := bytes
	for i := len(shares) - 1; i >= 0; i-- {
		part := left
		if i > 0 && all > 0 {
			part = min(left, bytes/page*uint64(shares[i].vcpus)/uint64(all)*page)
		}
		on[i] = MemoryOn{Node: shares[i].node, Bytes: part}
		left -= part
	}
	return on
}

func mebibytes(bytes uint64) int { return int((bytes + memoryUnit - 1) / memoryUnit) }

func storeOf(all []store, node int, page uint64) *store {
	return facts.Find(all, func(s *store) bool { return s.node == node && s.page == page })
}
