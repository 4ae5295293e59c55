package sriov

import (
	"fmt"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Wish is what a guest is to be given.
type Wish struct {
	Guest   string
	PF      string // empty: chosen
	VF      string // a number on PF, or a name that Find takes; empty: chosen
	Form    string // facts.ByInterface, ByHostdev or ByNetwork
	Network string // of libvirt, for ByNetwork; empty: named after the PF
	MAC     string // empty: made up, and the same again for this guest
	Sets    []Set  // attributes, but for the address
	// Live plugs it into a guest that runs too.
	Live bool
	// Bridge says that a bridge in the guest is to carry frames of others through the function.
	Bridge bool
	// Force goes on where the reason against it can be wrong.
	Force bool
}

// Gift is what a guest gets, and what that means.
type Gift struct {
	Guest      string         `json:"guest"`
	UUID       string         `json:"uuid"`
	Form       string         `json:"form"` // interface, hostdev or network
	PF         string         `json:"pf"`
	Index      int            `json:"index"` // −1: one of a pool, chosen at each start
	PCI        string         `json:"pci,omitempty"`
	Network    string         `json:"network,omitempty"`
	MAC        string         `json:"mac"`
	Node       int            `json:"numa_node"`             // of the card, −1 where it is not told
	GuestNodes setting.CPUSet `json:"guest_nodes,omitempty"` // on which the guest is; empty: on any
	Memory     Pinned         `json:"memory"`
	Means      []string       `json:"means"`  // what the form does and does not do
	Inside     []string       `json:"inside"` // what is to be done in the guest
	Notes      []Note         `json:"-"`      // warnings

	pf     *facts.NIC
	guest  *facts.Guest
	wish   Wish
	values []value // of the function
	pool   *facts.Pool
}

// value is one attribute of a function that is to have a value.
type value struct {
	Set
	because string
}

// title is what a gift is called in messages.
func (g *Gift) title() string {
	if g.Form == facts.ByNetwork {
		return "a function of pool " + g.Network
	}
	return fmt.Sprintf("function %d of %s (%s)", g.Index, g.PF, g.PCI)
}

// refuse is a Refused in one line.
func refuse(advice, why string, args ...any) *Refused {
	return &Refused{Why: fmt.Sprintf(why, args...), Advice: advice}
}

// restart is what a change of a guest's definition waits for: nothing where the guest does not run.
func restart(g *facts.Guest) setting.Needs {
	if !g.Active() {
		return setting.Needs{}
	}
	return setting.RestartOf(g.Name)
}

// reservation is the gift as it is noted.
func (g *Gift) reservation() facts.Reservation {
	return facts.Reservation{PF: g.PF, Index: g.Index, PCI: g.PCI, Network: g.Network, Guest: g.Guest, UUID: g.UUID,
		Form: g.Form, MAC: g.MAC}
}

// functionOf is the function that a PCI address names.
func functionOf(h *facts.Host, pci string) *facts.VF {
	for i := range h.VFs {
		if pci != "" && h.VFs[i].PCI == pci {
			return &h.VFs[i]
		}
	}
	return nil
}

// asked is the value that is asked for of an attribute; empty where none is.
func (w Wish) asked(name string) string {
	for _, s := range w.Sets {
		if s.Attribute == name {
			return s.Value
		}
	}
	return ""
}

// few joins some names, and says how many more there are.
func few(names []string) string {
	const most = 8
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
