package sriov

import (
	"maps"
	"slices"

	"mpps/internal/model/facts"
)

// Memory remembers the functions of each guest: once a guest has left a function, nothing else knows.
type Memory struct {
	had  map[string][]string // guest → PCI addresses of functions
	ran  map[string]string   // function → guest that ran with it
	left map[string]string   // function → guest that still runs, without it
}

// NewMemory returns an empty memory.
func NewMemory() *Memory {
	return &Memory{had: map[string][]string{}, ran: map[string]string{}, left: map[string]string{}}
}

// Note records what guests have. The functions of a running guest replace its record; those of a guest that is off are
// added to it, since it may have run with functions from a pool.
func (m *Memory) Note(h *facts.Host) {
	for g := range facts.Each(h.Guests) {
		had := m.had[g.Name]
		if g.Active() {
			had = nil
		}
		for _, pci := range g.Hostdevs {
			if !slices.Contains(had, pci) {
				had = append(slices.Clip(had), pci)
			}
		}
		if len(had) == 0 { // it gave all of them up while running
			delete(m.had, g.Name)
			continue
		}
		m.had[g.Name] = had
	}
	for f := range facts.Each(h.VFs) {
		if g := runsWith(h, f); g != nil {
			m.ran[f.PCI] = g.Name
			delete(m.left, f.PCI)
		}
	}
}

// Reappeared records that interfaces of functions (PF/N) have just appeared on the host. If a guest ran with a function
// and none does now, it was unplugged from that guest: Reappeared returns the guest by PCI address, for as long as the
// function is among the reappeared ones.
func (m *Memory) Reappeared(h *facts.Host, functions []string) map[string]string {
	left := map[string]string{}
	for f := range facts.Each(h.VFs) {
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

// Of returns the PCI addresses of the functions that a guest has or had.
func (m *Memory) Of(guest string) []string { return m.had[guest] }

// Left returns the functions of guests that have stopped or been undefined: PCI address → guest.
func (m *Memory) Left(guests []string) map[string]string {
	left := map[string]string{}
	for _, guest := range guests {
		for _, pci := range m.had[guest] {
			left[pci] = guest
		}
	}
	return left
}
