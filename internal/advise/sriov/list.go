package sriov

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
)

// List is the virtual functions of a host, by the order of their physical ones.
type List struct {
	PFs []Port     `json:"pfs"` // those asked for, with all of their functions
	VFs []Function `json:"vfs"` // those asked for
}

// Port is a physical function with what becomes of its virtual ones.
type Port struct {
	PF      string `json:"pf"`
	PCI     string `json:"pci"`
	Driver  string `json:"driver"`
	Node    int    `json:"numa_node"` // −1: not known
	Up      bool   `json:"up"`
	Carrier string `json:"carrier"`
	Speed   int    `json:"speed_mbps"` // −1: not known
	Most    int    `json:"total_vfs"`  // that it can have
	VFs     int    `json:"vfs"`        // that it has
	Seen    int    `json:"seen"`       // of these: fewer while they are being made
	Used    int    `json:"used"`
	Free    int    `json:"free"`
	// guests that were given one of a pool of libvirt: it takes a free one at their start
	Pooled []Share `json:"pooled"`
	Guests []Share `json:"by_guest"`
}

// Share is how many functions of a physical one a guest has.
type Share struct {
	Guest string `json:"guest"`
	VFs   int    `json:"vfs"`
}

// Which says which functions are asked for: all of these where more than one is set.
type Which struct {
	PF    string // name or PCI address; empty: any
	Free  bool   // those that nobody has
	Guest string // those of a guest; empty: any
}

// Show lists the functions that are asked for.
func Show(h *facts.Host, which Which) (List, error) {
	l := List{PFs: []Port{}, VFs: []Function{}}
	of := map[string][]Function{}
	for run := Functions(h); len(run) > 0; { // those of one physical function stand together
		end := slices.IndexFunc(run, func(f Function) bool { return f.PF != run[0].PF })
		if end < 0 {
			end = len(run)
		}
		of[run[0].PF] = append(of[run[0].PF], run[:end:end]...)
		run = run[end:]
	}
	for i := range h.NICs {
		n := &h.NICs[i]
		if n.SRIOV == nil || which.PF != "" && which.PF != n.Name && which.PF != n.PCI {
			continue
		}
		own := of[n.Name]
		l.PFs = append(l.PFs, totals(h, n, own))
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
		return l, &Refused{Why: fmt.Sprintf("no guest %q on this host", which.Guest),
			Advice: "without --guest every function is listed with its guest"}
	}
	return l, nil
}

// belongs reports whether a guest has a function, or its definition names it.
func (f *Function) belongs(guest string) bool {
	return f.Guest == guest || slices.Contains(f.Guests, guest)
}

func knownGuest(h *facts.Host, name string) bool {
	return slices.ContainsFunc(h.Guests, func(g facts.Guest) bool { return g.Name == name }) ||
		slices.ContainsFunc(h.Reservations, func(r facts.Reservation) bool { return r.Guest == name })
}

// noPort says why there is no physical function of a name.
func noPort(h *facts.Host, name string) *Refused {
	var others []string
	for _, n := range h.NICs {
		switch {
		case n.Name == name || n.PCI == name:
			return &Refused{
				Why:    fmt.Sprintf("%s cannot have virtual functions: it shows no sriov_totalvfs", name),
				Advice: "'mpps sriov check " + name + "' says what to look at",
			}
		case n.SRIOV != nil:
			others = append(others, n.Name)
		}
	}
	advice := "no NIC of this host can have virtual functions: 'mpps sriov check' says what to look at"
	if len(others) > 0 {
		advice = "physical functions of this host: " + strings.Join(others[:min(len(others), 12)], ", ")
	}
	return &Refused{Why: fmt.Sprintf("no physical function %q on this host", name), Advice: advice}
}

// totals counts what becomes of a physical function's virtual ones.
func totals(h *facts.Host, n *facts.NIC, own []Function) Port {
	p := Port{
		PF: n.Name, PCI: n.PCI, Driver: n.Driver, Node: n.Node, Up: n.Up, Carrier: n.Carrier, Speed: n.Speed,
		Most: n.SRIOV.Total, VFs: n.SRIOV.Enabled, Seen: len(own), Pooled: []Share{}, Guests: []Share{},
	}
	for i := range own {
		f := &own[i]
		if f.Holding == Free {
			p.Free++
		} else {
			p.Used++
		}
		if f.Guest != "" {
			p.Guests = counted(p.Guests, f.Guest)
		}
	}
	for _, r := range h.Reservations {
		if r.Network != "" && r.PF == n.Name {
			p.Pooled = counted(p.Pooled, r.Guest)
		}
	}
	return p
}

func counted(shares []Share, guest string) []Share {
	at := slices.IndexFunc(shares, func(s Share) bool { return s.Guest == guest })
	if at < 0 {
		shares = append(shares, Share{Guest: guest})
		at = len(shares) - 1
	}
	shares[at].VFs++
	return shares
}
