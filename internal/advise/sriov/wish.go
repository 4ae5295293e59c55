package sriov

import (
	"cmp"
	"fmt"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// Request is what to assign to a guest.
type Request struct {
	Guest   string
	PF      string // empty: chosen
	VF      string // number on PF, or a name that Find accepts; empty: chosen
	Form    string // facts.ByInterface, ByHostdev or ByNetwork
	Network string // of libvirt, for ByNetwork; empty: named after the PF
	MAC     string // empty: generated, always the same for this guest
	Sets    []Set  // attributes other than the MAC address
	Live    bool   // plug it into the running guest too
	Bridge  bool   // a bridge in the guest will carry frames of others through the function
	Force   bool   // ignore objections that may be wrong
}

// Gift is the function that a guest gets, and what that means.
type Gift struct {
	Guest      string         `json:"guest"`
	UUID       string         `json:"uuid"`
	Form       string         `json:"form"` // interface, hostdev or network
	PF         string         `json:"pf"`
	Index      int            `json:"index"` // −1: one of a pool, chosen at each start
	PCI        string         `json:"pci,omitempty"`
	Network    string         `json:"network,omitempty"`
	MAC        string         `json:"mac"`
	Node       int            `json:"numa_node"`             // of the NIC; −1: unknown
	GuestNodes setting.CPUSet `json:"guest_nodes,omitempty"` // nodes that the guest is bound to; empty: any
	Memory     Pinned         `json:"memory"`
	Means      []string       `json:"means"`  // what the form does and does not do
	Inside     []string       `json:"inside"` // what to do in the guest
	Notes      []Note         `json:"-"`      // warnings

	pf      *facts.NIC
	guest   *facts.Guest
	request Request
	values  []value // of the function
	pool    *facts.Pool
}

// value is one attribute to set, and why.
type value struct {
	Set
	because string
}

// title names the function in messages.
func (g *Gift) title() string {
	return words.Either(g.Form == facts.ByNetwork, "a function of pool "+g.Network,
		fmt.Sprintf("function %d of %s (%s)", g.Index, g.PF, g.PCI))
}

// restart is what a change of a guest's definition waits for: nothing if the guest does not run.
func restart(g *facts.Guest) setting.Needs {
	return words.Either(g.Active(), setting.RestartOf(g.Name), setting.Needs{})
}

// reservation is the record of the gift.
func (g *Gift) reservation() facts.Reservation {
	return facts.Reservation{PF: g.PF, Index: g.Index, PCI: g.PCI, Network: g.Network, Guest: g.Guest, UUID: g.UUID,
		Form: g.Form, MAC: g.MAC}
}

// functionOf returns the function with a PCI address, or nil.
func functionOf(h *facts.Host, pci string) *facts.VF {
	return facts.Find(h.VFs, func(f *facts.VF) bool { return pci != "" && f.PCI == pci })
}

// requested returns the requested value of an attribute; empty: none.
func (w Request) requested(name string) string {
	s := facts.Find(w.Sets, func(s *Set) bool { return s.Attribute == name })
	return cmp.Or(s, &Set{}).Value
}

// few joins at most eight names and adds how many more there are.
func few(names []string) string {
	const most = 8
	return strings.Join(names[:min(len(names), most)], ", ") +
		words.If(len(names) > most, " and %d more", len(names)-most)
}
