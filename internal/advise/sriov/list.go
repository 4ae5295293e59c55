package sriov

import (
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/words"
)

// List is the functions of a host, by PF.
type List struct {
	PFs []Port     `json:"pfs"` // requested ones
	VFs []Function `json:"vfs"` // requested ones
}

// Port is a PF and a summary of its functions.
type Port struct {
	PF      string `json:"pf"`
	PCI     string `json:"pci"`
	Driver  string `json:"driver"`
	Node    int    `json:"numa_node"` // −1: unknown
	Up      bool   `json:"up"`
	Carrier string `json:"carrier"`
	Speed   int    `json:"speed_mbps"` // −1: unknown
	Most    int    `json:"total_vfs"`  // sriov_totalvfs
	VFs     int    `json:"vfs"`        // sriov_numvfs
	Seen    int    `json:"seen"`       // of VFs; fewer while they are being created
	Used    int    `json:"used"`
	Free    int    `json:"free"`
	// Pooled are the guests with reservations on a libvirt pool, which takes a free function at their start.
	Pooled []Share `json:"pooled"`
	Guests []Share `json:"by_guest"`
}

// Share is the number of functions of a PF that a guest has.
type Share struct {
	Guest string `json:"guest"`
	VFs   int    `json:"vfs"`
}

// Which selects functions. All conditions must hold.
type Which struct {
	PF    string // name or PCI address; empty: any
	Free  bool   // only free ones
	Guest string // only those of a guest; empty: any
}

// Show returns the selected functions and their PFs.
func Show(h *facts.Host, which Which) (List, error) {
	l := List{PFs: []Port{}, VFs: []Function{}}
	of := map[string][]Function{}
	for _, f := range Functions(h) {
		of[f.PF] = append(of[f.PF], f)
	}
	for n := range facts.Each(h.NICs) {
		if n.SRIOV == nil || which.PF != "" && which.PF != n.Name && which.PF != n.PCI {
			continue
		}
		own := of[n.Name]
		l.PFs = append(l.PFs, newPort(h, n, own))
		for j := range own {
			if f := &own[j]; (!which.Free || f.Holding == Free) && (which.Guest == "" || f.belongs(which.Guest)) {
				l.VFs = append(l.VFs, *f)
			}
		}
	}
	if which.PF != "" && len(l.PFs) == 0 {
		return l, noPort(h, which.PF)
	}
	if which.Guest != "" && len(l.VFs) == 0 && !knownGuest(h, which.Guest) {
		return l, refuse("without --guest every function is listed with its guest", "no guest %q on this host",
			which.Guest)
	}
	return l, nil
}

// belongs reports whether a guest has a function or is defined with it.
func (f *Function) belongs(guest string) bool {
	return f.Guest == guest || slices.Contains(f.Guests, guest)
}

func knownGuest(h *facts.Host, name string) bool {
	return slices.ContainsFunc(h.Guests, func(g facts.Guest) bool { return g.Name == name }) ||
		slices.ContainsFunc(h.Reservations, func(r facts.Reservation) bool { return r.Guest == name })
}

// noPort returns why there is no PF with a name or PCI address.
func noPort(h *facts.Host, name string) *Refused {
	var others []string
	for _, n := range h.NICs {
		switch {
		case n.Name == name || n.PCI == name:
			return refuse("'mpps sriov check "+name+"' says what to look at", "%s cannot have virtual functions: "+
				"it shows no sriov_totalvfs", name)
		case n.SRIOV != nil:
			others = append(others, n.Name)
		}
	}
	advice := words.Either(len(others) > 0,
		"physical functions of this host: "+strings.Join(others[:min(len(others), 12)], ", "),
		"no NIC of this host can have virtual functions: 'mpps sriov check' says what to look at")
	return refuse(advice, "no physical function %q on this host", name)
}

// newPort summarizes a PF and its functions.
func newPort(h *facts.Host, n *facts.NIC, own []Function) Port {
	p := Port{
		PF: n.Name, PCI: n.PCI, Driver: n.Driver, Node: n.Node, Up: n.Up, Carrier: n.Carrier, Speed: n.Speed,
		Most: n.SRIOV.Total, VFs: n.SRIOV.Enabled, Seen: len(own), Pooled: []Share{}, Guests: []Share{},
	}
	for f := range facts.Each(own) {
		if f.Holding == Free {
			p.Free++
		} else {
			p.Used++
		}
		if f.Guest != "" {
			p.Guests = addShare(p.Guests, f.Guest)
		}
	}
	for _, r := range h.Reservations {
		if r.Network != "" && r.PF == n.Name {
			p.Pooled = addShare(p.Pooled, r.Guest)
		}
	}
	return p
}

// addShare counts one more function for a guest.
func addShare(shares []Share, guest string) []Share {
	at := slices.IndexFunc(shares, func(s Share) bool { return s.Guest == guest })
	if at < 0 {
		shares = append(shares, Share{Guest: guest})
		at = len(shares) - 1
	}
	shares[at].VFs++
	return shares
}
