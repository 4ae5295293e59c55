package sriov

import (
	"slices"

	"mpps/internal/facts"
)

// Memory is which functions each guest had when it was last seen: what it has left is not told by anybody afterwards.
type Memory map[string][]string

// Note takes in what guests have. What a running guest has is all that it has; of one that does not run, what its definition names
// comes to what it ran with, which may have been of a pool.
func (m Memory) Note(h *facts.Host) {
	for i := range h.Guests {
		g := &h.Guests[i]
		had := m[g.Name]
		if g.Active() {
			had = nil
		}
		for _, pci := range g.Hostdevs {
			if !slices.Contains(had, pci) {
				had = append(slices.Clip(had), pci)
			}
		}
		if len(had) == 0 { // it let go of all while it ran: what becomes of them is not its any more
			delete(m, g.Name)
			continue
		}
		m[g.Name] = had
	}
}

// Of are the functions that a guest has or had, by PCI address.
func (m Memory) Of(guest string) []string { return m[guest] }

// Left are the functions that guests have left, by PCI address, with the guest.
func (m Memory) Left(guests []string) map[string]string {
	left := map[string]string{}
	for _, guest := range guests {
		for _, pci := range m[guest] {
			left[pci] = guest
		}
	}
	return left
}
