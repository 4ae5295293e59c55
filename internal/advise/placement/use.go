package placement

import "slices"

// NodeUse is what is used of a node.
type NodeUse struct {
	Node   int       `json:"node"`
	Cores  int       `json:"cores"`
	VCPUs  int       `json:"vcpus"` // that sit here
	Vhost  int       `json:"vhost"` // threads that run here
	Kept   int       `json:"kept_cores"`
	Spare  int       `json:"spare_cores"`  // nobody's
	Memory uint64    `json:"memory_bytes"` // 0: not known
	Left   uint64    `json:"left_bytes"`   // ordinary memory beside guests, pools and what the host keeps
	Pools  []PoolUse `json:"pools"`
}

// PoolUse is what is used of a node's pool of huge pages.
type PoolUse struct {
	Size  uint64 `json:"size_bytes"`
	Pages uint64 `json:"pages"`
	Left  uint64 `json:"left"`
}

// tally counts what is used of each node.
func (t *table) tally(r *Result) {
	stores := t.stores()
	for _, p := range r.Guests {
		if t.frozen[p.Name] != nil {
			continue // counted already
		}
		for _, m := range p.Memory {
			if s := find(stores, m.Node, p.PageSize); s != nil {
				s.room -= min(units(m.Bytes), s.room)
			}
		}
	}
	for _, n := range t.ask.Nodes {
		u := NodeUse{Node: n.ID, Memory: n.Memory}
		if s := find(stores, n.ID, 0); s != nil {
			u.Left = uint64(s.room) * memoryUnit
		}
		for _, p := range n.Pages {
			if s := find(stores, n.ID, p.Size); s != nil {
				u.Pools = append(u.Pools, PoolUse{Size: p.Size, Pages: p.Count,
					Left: uint64(s.room) * memoryUnit / p.Size})
			}
		}
		for _, cpus := range t.cores {
			if t.cpus[cpus[0]].Node != n.ID {
				continue
			}
			u.Cores++
			has := func(busy func(cpu int) bool) bool { return slices.ContainsFunc(cpus, busy) }
			switch {
			case has(r.Housekeeping.Has):
				u.Kept++
			case !has(func(cpu int) bool { return t.taken[cpu] != "" || t.worked[cpu] > 0 }):
				u.Spare++
			}
			for _, cpu := range cpus {
				if t.taken[cpu] != "" {
					u.VCPUs++
				}
				u.Vhost += t.worked[cpu]
			}
		}
		r.Nodes = append(r.Nodes, u)
	}
}
