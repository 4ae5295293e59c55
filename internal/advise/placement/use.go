package placement

import "slices"

// NodeUse is what is used of a node.
type NodeUse struct {
	Node   int       `json:"node"`
	Cores  int       `json:"cores"`
	VCPUs  int       `json:"vcpus"`
	Vhost  int       `json:"vhost"` // threads
	Kept   int       `json:"kept_cores"`
	Spare  int       `json:"spare_cores"`  // neither used nor kept
	Memory uint64    `json:"memory_bytes"` // 0: not known
	Left   uint64    `json:"left_bytes"`   // ordinary memory left by guests, pools and the host
	Pools  []PoolUse `json:"pools"`
}

// PoolUse is what is used of a node's pool of huge pages.
type PoolUse struct {
	Size  uint64 `json:"size_bytes"`
	Pages uint64 `json:"pages"`
	Left  uint64 `json:"left"`
}

// countUse sets what is used of each node.
func (t *table) countUse(r *Result) {
	stores := t.stores() // without the guests that stay
	for _, p := range r.Guests {
		if t.frozen[p.Name] == nil {
			takeMemory(stores, &p)
		}
	}
	for _, n := range t.ask.Nodes {
		u := NodeUse{Node: n.ID, Memory: n.Memory}
		if s := storeOf(stores, n.ID, 0); s != nil {
			u.Left = uint64(s.room) * memoryUnit
		}
		for _, p := range n.Pages {
			if s := storeOf(stores, n.ID, p.Size); s != nil && p.Size > 0 {
				u.Pools = append(u.Pools, PoolUse{Size: p.Size, Pages: p.Count,
					Left: uint64(s.room) * memoryUnit / p.Size})
			}
		}
		for _, cpus := range t.cores {
			if t.cpus[cpus[0]].Node != n.ID {
				continue
			}
			u.Cores++
			vcpus, vhost := 0, 0
			for _, cpu := range cpus {
				if t.vcpuOn[cpu] != "" {
					vcpus++
				}
				vhost += t.vhostOn[cpu]
			}
			u.VCPUs, u.Vhost = u.VCPUs+vcpus, u.Vhost+vhost
			switch {
			case slices.ContainsFunc(cpus, r.Housekeeping.Has):
				u.Kept++
			case vcpus+vhost == 0:
				u.Spare++
			}
		}
		r.Nodes = append(r.Nodes, u)
	}
}
