package sriov

import (
	"fmt"
	"slices"
	"strconv"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// The attributes of a function outlive the guest that had it. So a function that a guest has just left, and that nobody
// has now, gets the attributes that mpps keeps for it and otherwise those of a new function. A function that a guest
// starts with, without being reserved for it, gets the attributes of a new function except those of the guest's
// definition. This file has the rules; the watching service applies them.

// Upkeep is what is known in addition to the host when guests have started or stopped.
type Upkeep struct {
	// Kept are the attributes that mpps restores by other means, with the guest that they were set for (empty: whoever
	// has the function).
	Kept    map[setting.Address]string
	Made    map[string]bool   // PFs whose functions mpps creates
	Started map[string]bool   // guests that have just started
	Left    map[string]string // PCI address of a function → guest that has just stopped or been undefined with it
	Defined map[string]bool   // guests of reservations that are still defined
}

// Due is one attribute to write now.
type Due struct {
	ID      string
	Address setting.Address
	Value   string
	Because string
}

// Keep returns what is due. It leaves out functions that mpps neither created nor assigned nor set, those that the host
// uses, and those that another process has open.
func Keep(h *facts.Host, u Upkeep) []Due {
	var all []Due
	for f := range facts.Each(h.VFs) {
		if !u.concerns(h, f) {
			continue
		}
		who := runsWith(h, f)
		switch {
		case who != nil && u.Started[who.Name]:
			all = append(all, u.dueAfterStart(h, f, who)...)
		case who == nil && u.Left[f.PCI] != "" && f.PCI != "" && f.HostUse == "" && f.Holder == "":
			all = append(all, u.dueAfterStop(h, f)...)
		}
	}
	return all
}

// NotForHolder returns the kept attributes that mpps must not restore now, and why: the function is with another guest
// than the one they were set for, or that guest is gone.
func NotForHolder(h *facts.Host, u Upkeep) map[setting.Address]string {
	lent := map[setting.Address]string{}
	for f := range facts.Each(h.VFs) {
		for _, name := range facts.VFAttributes {
			if why := u.notForHolder(h, f, name); why != "" {
				lent[attribute(f, name)] = why
			}
		}
	}
	return lent
}

// notForHolder returns why a kept attribute is not meant for whoever has the function; empty: it is, or it is not kept.
func (u Upkeep) notForHolder(h *facts.Host, f *facts.VF, name string) string {
	guest, kept := u.Kept[attribute(f, name)]
	if !kept {
		return ""
	}
	r := reservationOf(h, f)
	switch {
	case guest != "":
		r = &facts.Reservation{Guest: guest}
	case r == nil:
		return ""
	}
	who := runsWith(h, f)
	switch {
	case who != nil && !isGuest(r, who):
		return fmt.Sprintf("guest %s runs with it, and it was set for %s", who.Name, r.Guest)
	case who == nil && !u.Defined[r.Guest] &&
		!slices.ContainsFunc(h.Guests, func(g facts.Guest) bool { return isGuest(r, &g) }):
		return fmt.Sprintf("guest %s, for which it was set, is gone", r.Guest)
	}
	return ""
}

// concerns reports whether mpps created, assigned or set a function.
func (u Upkeep) concerns(h *facts.Host, f *facts.VF) bool {
	pool := func(r facts.Reservation) bool { return r.Form == facts.ByNetwork && r.PF == f.PF }
	leaves := func(r facts.Reservation) bool { return r.PCI == f.PCI && f.PCI != "" }
	if u.Made[f.PF] || reservationOf(h, f) != nil || slices.ContainsFunc(h.Reservations, pool) ||
		slices.ContainsFunc(h.Leaving, leaves) {
		return true
	}
	return slices.ContainsFunc(facts.VFAttributes,
		func(name string) bool { _, kept := u.Kept[attribute(f, name)]; return kept })
}

// stays reports whether an attribute is kept for whoever has the function now or may get it next.
func (u Upkeep) stays(h *facts.Host, f *facts.VF, name string) bool {
	_, kept := u.Kept[attribute(f, name)]
	return kept && u.notForHolder(h, f, name) == ""
}

// dueAfterStart returns what is due after a guest has started with a function.
func (u Upkeep) dueAfterStart(h *facts.Host, f *facts.VF, who *facts.Guest) []Due {
	byLibvirt := map[string]bool{}
	because := fmt.Sprintf("guest %s started with %s", who.Name, nameOf(f))
	i := libvirtInterface(who, f)
	if i != nil { // src/util/virnetdev.c, virNetDevSetVfConfig: MAC and, if defined, VLAN
		byLibvirt["mac"], byLibvirt["vlan"] = true, i.VLAN != 0 || i.Type == "network"
	}
	all := u.due(h, f, because, func(name string) bool {
		// The guest's own driver may have chosen the address: reset it only if it is another guest's.
		return !byLibvirt[name] && (name != "mac" || hasOthersMAC(h, f, who))
	})
	return append(all, u.dueAgain(f, i, because)...)
}

// dueAgain returns what libvirt had set for a guest and was overwritten: the guest started while the function was still
// being reset after another one, which a check before the write cannot prevent.
func (u Upkeep) dueAgain(f *facts.VF, i *facts.Interface, because string) []Due {
	var all []Due
	if i == nil {
		return nil
	}
	for _, s := range []Set{{"mac", i.MAC}, {"vlan", strconv.Itoa(i.VLAN)}} {
		_, kept := u.Kept[attribute(f, s.Attribute)]
		asNew := s.Attribute == "mac" && facts.NoAddress(f.MAC) && !facts.NoAddress(i.MAC) || s.Attribute == "vlan" &&
			f.VLAN == 0 && i.VLAN != 0
		if asNew && !kept && !slices.Contains(f.Untold, s.Attribute) {
			all = append(all, Due{knobs[s.Attribute].id, attribute(f, s.Attribute), s.Value, because})
		}
	}
	return all
}

// dueAfterStop returns what is due after a guest has left a function that nobody has now.
func (u Upkeep) dueAfterStop(h *facts.Host, f *facts.VF) []Due {
	onHost := f.Driver != "" && !facts.PassesThrough(f.Driver)
	return u.due(h, f, fmt.Sprintf("guest %s left %s", u.Left[f.PCI], nameOf(f)), func(name string) bool {
		// The host's driver has set its own address, unless the function already had one when it was bound.
		return name != "mac" || !onHost || hasOthersMAC(h, f, nil)
	})
}

// due returns the attributes of a function that differ from those of a new one, except those that stay, and only those
// that asked accepts.
func (u Upkeep) due(h *facts.Host, f *facts.VF, because string, asked func(name string) bool) []Due {
	p, _ := port(h, f)
	fresh, has := facts.VFDefaults(p.Driver), values(f)
	var all []Due
	for _, s := range inOrder(f, sets(fresh)) {
		same := has[s.Attribute] == s.Value || s.Attribute == "mac" && facts.NoAddress(f.MAC)
		if same || slices.Contains(f.Untold, s.Attribute) || u.stays(h, f, s.Attribute) || !asked(s.Attribute) {
			continue
		}
		all = append(all, Due{knobs[s.Attribute].id, attribute(f, s.Attribute), s.Value, because})
	}
	return all
}

// sets returns attributes in the order of facts.VFAttributes.
func sets(values map[string]string) []Set {
	var all []Set
	for _, name := range facts.VFAttributes {
		if value, given := values[name]; given {
			all = append(all, Set{name, value})
		}
	}
	return all
}

// runsWith returns the guest that runs with a function, or nil. No guest has a function that is bound to its driver on
// the host, whatever the definitions say.
func runsWith(h *facts.Host, f *facts.VF) *facts.Guest {
	if f.Driver != "" && !facts.PassesThrough(f.Driver) {
		return nil
	}
	// f.Guest: of several guests that are defined with it only one can run with it
	g := guestNamed(h, f.Guest)
	if g == nil || !g.Active() || f.PCI == "" || !slices.Contains(g.Hostdevs, f.PCI) {
		return nil
	}
	return g
}

// reservationOf returns the reservation of a function: its own, or that of the guest that runs with it for its pool.
func reservationOf(h *facts.Host, f *facts.VF) *facts.Reservation {
	who := runsWith(h, f)
	for r := range facts.Each(h.Reservations) {
		switch {
		case r.Form == facts.ByNetwork:
			if who != nil && r.PF == f.PF && isGuest(r, who) {
				return r
			}
		case f.PCI != "" && r.PCI == f.PCI:
			return r
		}
	}
	return nil
}

// isGuest reports whether a reservation belongs to a guest, which may have been renamed.
func isGuest(r *facts.Reservation, g *facts.Guest) bool {
	return words.Either(r.UUID != "" && g.UUID != "", r.UUID == g.UUID, r.Guest == g.Name)
}

// libvirtInterface returns the guest's interface for a function, whose MAC address libvirt sets; nil: it is a plain
// <hostdev>.
func libvirtInterface(g *facts.Guest, f *facts.VF) *facts.Interface {
	return facts.Find(g.NICs(), func(n *facts.Interface) bool {
		return n.Type == "hostdev" && n.Source == f.PCI ||
			n.Type == "network" && (n.MAC == f.MAC || n.Function != "" && n.Function == f.PCI)
	})
}

// hasOthersMAC reports whether a function has the MAC address of a guest other than who.
func hasOthersMAC(h *facts.Host, f *facts.VF, who *facts.Guest) bool {
	if r := reservationOf(h, f); r != nil && r.MAC == f.MAC && (who == nil || !isGuest(r, who)) {
		return true
	}
	return slices.ContainsFunc(h.Guests, func(g facts.Guest) bool {
		return (who == nil || g.Name != who.Name) &&
			slices.ContainsFunc(g.NICs(), func(n facts.Interface) bool { return n.MAC == f.MAC })
	})
}
