package sriov

import (
	"maps"
	"slices"

	"mpps/internal/model/facts"
)

// Memory is which functions each guest had when it was last seen: what it has left is told by nobody afterwards.
type Memory struct {
	had  map[string][]string // guest → functions, by PCI address
	ran  map[string]string   // function → guest that ran with it
	left map[string]string   // function → guest that runs on without it
}

// NewMemory remembers nothing yet.
func NewMemory() *Memory {
	return &Memory{had: map[string][]string{}, ran: map[string]string{}, left: map[string]string{}}
}

// Note takes in what guests have. What a running guest has is all that it has; of one that does not run, what its
// definition names comes to what it ran with, which may have been of a pool.
func (m *Memory) Note(h *facts.Host) {
	for i := range h.Guests {
		g := &h.Guests[i]
		had := m.had[g.Name]
		if g.Active() {
			had = nil
		}
		for _, pci := range g.Hostdevs {
			if !slices.Contains(had, pci) {
				had = append(slices.Clip(had), pci)
			}
		}
		if len(had) == 0 { // it let go of all while it ran: what becomes of them is not its any more
			delete(m.had, g.Name)
			continue
		}
		m.had[g.Name] = had
	}
	for i := range h.VFs {
		f := &h.VFs[i]
		if g := runsWith(h, f); g != nil {
			m.ran[f.PCI] = g.Name
			delete(m.left, f.PCI)
		}
	}
}

// Came takes in that the interfaces of functions (PF/N) came on the host a moment ago. Where a guest ran with one, and
// nobody does now, it was taken out of that guest: these are told, by PCI address, with the guest, as long as their
// coming is.
func (m *Memory) Came(h *facts.Host, functions []string) map[string]string {
	left := map[string]string{}
	for i := range h.VFs {
		f := &h.VFs[i]
		if runsWith(h, f) != nil || !slices.Contains(functions, nameOf(f)) {
			continue
		}
		if ran := m.ran[f.PCI]; ran != "" {
			m.left[f.PCI] = ran
			delete(m.ran, f.PCI)
		}
		if guest := m.left[f.PCI]; guest != "" {
			left[f.PCI] = guest
		}
	}
	m.left = left
	return maps.Clone(left)
}

// Of are the functions that a guest has or had, by PCI address.
func (m *Memory) Of(guest string) []string { return m.had[guest] }

// Left are the functions that guests have left that stopped or were undefined, by PCI address, with the guest.
func (m *Memory) Left(guests []string) map[string]string {
	left := map[string]string{}
	for _, guest := range guests {
		for _, pci := range m.had[guest] {
			left[pci] = guest
		}
	}
	return left
}
