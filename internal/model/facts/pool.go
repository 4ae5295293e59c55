package facts

import "slices"

// Pool is one of libvirt's networks that hands virtual functions out (<forward mode='hostdev'>): at its start a guest
// with <interface type='network'> gets one that no other guest of the network has.
type Pool struct {
	Network   string   `json:"network"`
	PF        string   `json:"pf,omitempty"`        // all of its functions; empty where they are listed
	Functions []string `json:"functions,omitempty"` // PCI addresses, where they are listed
	Managed   bool     `json:"managed"`
	Active    bool     `json:"active"`
	Autostart bool     `json:"autostart"`
}

// Has reports whether a function is one of the pool's.
func (p *Pool) Has(vf *VF) bool {
	if p.PF != "" {
		return p.PF == vf.PF
	}
	return slices.Contains(p.Functions, vf.PCI)
}

// Pool is the pool that a network of libvirt is; nil for other networks.
func (h *Host) Pool(network string) *Pool {
	for i := range h.Pools {
		if h.Pools[i].Network == network {
			return &h.Pools[i]
		}
	}
	return nil
}

// PoolOf is the pool that a function belongs to; nil where it belongs to none.
func (h *Host) PoolOf(vf *VF) *Pool {
	for i := range h.Pools {
		if h.Pools[i].Has(vf) {
			return &h.Pools[i]
		}
	}
	return nil
}
