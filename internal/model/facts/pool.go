package facts

import "slices"

// Pool is a libvirt network that hands out VFs (<forward mode='hostdev'>): when a guest with <interface type='network'>
// starts, it gets a free one.
type Pool struct {
	Network   string   `json:"network"`
	PF        string   `json:"pf,omitempty"`        // all its VFs; empty if Functions lists them
	Functions []string `json:"functions,omitempty"` // PCI addresses, if they are listed
	Managed   bool     `json:"managed"`
	Active    bool     `json:"active"`
	Autostart bool     `json:"autostart"`
}

// Has reports whether a VF belongs to the pool.
func (p *Pool) Has(vf *VF) bool {
	if p.PF != "" {
		return p.PF == vf.PF
	}
	return slices.Contains(p.Functions, vf.PCI)
}

// Pool returns the pool of a libvirt network, nil for other networks.
func (h *Host) Pool(network string) *Pool {
	return Find(h.Pools, func(p *Pool) bool { return p.Network == network })
}

// PoolOf returns the pool of a VF, nil if it belongs to none.
func (h *Host) PoolOf(vf *VF) *Pool {
	return Find(h.Pools, func(p *Pool) bool { return p.Has(vf) })
}
