package sriov

import (
	"fmt"
	"slices"
	"strconv"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Attributes of a function survive the guest that had it: its end, its definition's end. So when guests come and go,
// functions that one has just left, and that nobody has now, get what mpps keeps of them, and in all else what a new
// function has; and one with which a guest starts that it was not given to gets what a new function has, but for what
// the guest's own definition says. The rule is this file; the service that watches carries it out.

// Upkeep is what is known beside the host when guests came or went a moment ago.
type Upkeep struct {
	// attributes that mpps puts back, not this rule → the guest that they were set for, empty: whoever has the function
	Kept    map[setting.Address]string
	Made    map[string]bool   // physical functions whose functions mpps makes
	Started map[string]bool   // guests that have just started
	Left    map[string]string // PCI address of a function → guest that has just stopped or been undefined with it
	Defined map[string]bool   // guests of reservations that are still defined
}

// Due is one attribute that is to be written now.
type Due struct {
	ID      string
	Address setting.Address
	Value   string
	Because string
}

// Keep lists what is due. It touches no function that mpps neither made nor gave nor set, none that the host itself
// uses, and none that another process has open.
func Keep(h *facts.Host, u Upkeep) []Due {
	var all []Due
	for i := range h.VFs {
		f := &h.VFs[i]
		if !u.concerns(h, f) {
			continue
		}
		who := runsWith(h, f)
		switch {
		case who != nil && u.Started[who.Name]:
			all = append(all, u.begun(h, f, who)...)
		case who == nil && u.Left[f.PCI] != "" && f.PCI != "" && f.HostUse == "" && f.Holder == "":
			all = append(all, u.left(h, f)...)
		}
	}
	return all
}

// Lent tells which kept attributes mpps must not put back now, and why: those of a function that a guest has for which
// they were not set, or whose guest is gone.
func Lent(h *facts.Host, u Upkeep) map[setting.Address]string {
	lent := map[setting.Address]string{}
	for i := range h.VFs {
		f := &h.VFs[i]
		for _, name := range facts.VFAttributes {
			if why := u.lent(h, f, name); why != "" {
				lent[attribute(f, name)] = why
			}
		}
	}
	return lent
}

// lent is why a kept attribute is not for who has the function; empty where it is, or is not kept.
func (u Upkeep) lent(h *facts.Host, f *facts.VF, name string) string {
	guest, kept := u.Kept[attribute(f, name)]
	if !kept {
		return ""
	}
	r := givenTo(h, f)
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

// concerns reports whether a function is one of mpps.
func (u Upkeep) concerns(h *facts.Host, f *facts.VF) bool {
	pool := func(r facts.Reservation) bool { return r.Form == facts.ByNetwork && r.PF == f.PF }
	leaves := func(r facts.Reservation) bool { return r.PCI == f.PCI && f.PCI != "" }
	if u.Made[f.PF] || givenTo(h, f) != nil || slices.ContainsFunc(h.Reservations, pool) ||
		slices.ContainsFunc(h.Leaving, leaves) {
		return true
	}
	return slices.ContainsFunc(facts.VFAttributes,
		func(name string) bool { _, kept := u.Kept[attribute(f, name)]; return kept })
}

// stays reports whether an attribute is kept for who has the function now, or may have it next.
func (u Upkeep) stays(h *facts.Host, f *facts.VF, name string) bool {
	_, kept := u.Kept[attribute(f, name)]
	return kept && u.lent(h, f, name) == ""
}

// begun is what is due where a guest has started with a function.
func (u Upkeep) begun(h *facts.Host, f *facts.VF, who *facts.Guest) []Due {
	byLibvirt := map[string]bool{}
	because := fmt.Sprintf("guest %s started with %s", who.Name, nameOf(f))
	i := libvirtSets(who, f)
	if i != nil { // src/util/virnetdev.c, virNetDevSetVfConfig: MAC and, where there is one, VLAN
		byLibvirt["mac"], byLibvirt["vlan"] = true, i.VLAN != 0 || i.Type == "network"
	}
	all := u.due(h, f, because, func(name string) bool {
		// An address may be one that the guest's own driver has chosen: only another's is taken away.
		return !byLibvirt[name] && (name != "mac" || othersAddress(h, f, who))
	})
	return append(all, u.overtaken(f, i, because)...)
}

// overtaken is what libvirt has set for a guest that started while the function was still being set as new after
// another: who looks and writes then cannot keep libvirt from starting one in between.
func (u Upkeep) overtaken(f *facts.VF, i *facts.Interface, because string) []Due {
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

// left is what is due where a guest has left a function and nobody has it.
func (u Upkeep) left(h *facts.Host, f *facts.VF) []Due {
	onHost := f.Driver != "" && !facts.PassesThrough(f.Driver)
	return u.due(h, f, fmt.Sprintf("guest %s left %s", u.Left[f.PCI], nameOf(f)), func(name string) bool {
		// Its driver on the host has told an address of its own, unless it found one there when it was bound.
		return name != "mac" || !onHost || othersAddress(h, f, nil)
	})
}

// due lists the attributes of a function that are not those of a new one: not those that stay, and of the others those
// that are asked for.
func (u Upkeep) due(h *facts.Host, f *facts.VF, because string, asked func(name string) bool) []Due {
	p, _ := port(h, f)
	fresh, has := facts.VFFresh(p.Driver), values(f)
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

// sets are attributes in the order of facts.VFAttributes.
func sets(values map[string]string) []Set {
	var all []Set
	for _, name := range facts.VFAttributes {
		if value, given := values[name]; given {
			all = append(all, Set{name, value})
		}
	}
	return all
}

// runsWith is the guest that runs with a function, nil where none does. One that is bound to its driver on the host is
// no guest's, whatever definitions name it.
func runsWith(h *facts.Host, f *facts.VF) *facts.Guest {
	if f.Driver != "" && !facts.PassesThrough(f.Driver) {
		return nil
	}
	for i := range h.Guests {
		if g := &h.Guests[i]; g.Active() && f.PCI != "" && slices.Contains(g.Hostdevs, f.PCI) {
			if f.Guest == g.Name { // of two definitions that name it only one can run with it
				return g
			}
		}
	}
	return nil
}

// givenTo is the reservation of a function: its own, or of a pool from which the guest that runs with it takes one.
func givenTo(h *facts.Host, f *facts.VF) *facts.Reservation {
	who := runsWith(h, f)
	for i := range h.Reservations {
		r := &h.Reservations[i]
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

// isGuest reports whether a reservation is a guest's, which may have been renamed.
func isGuest(r *facts.Reservation, g *facts.Guest) bool {
	if r.UUID != "" && g.UUID != "" {
		return r.UUID == g.UUID
	}
	return r.Guest == g.Name
}

// libvirtSets is the interface by which a guest has a function whose address libvirt has set; nil where it has it as a
// plain device.
func libvirtSets(g *facts.Guest, f *facts.VF) *facts.Interface {
	nics := g.NICs()
	for i := range nics {
		if n := &nics[i]; n.Type == "hostdev" && n.Source == f.PCI || n.Type == "network" &&
			(n.MAC == f.MAC || n.Function != "" && n.Function == f.PCI) {
			return n
		}
	}
	return nil
}

// othersAddress reports whether a function still has the address of a guest that does not run with it.
func othersAddress(h *facts.Host, f *facts.VF, who *facts.Guest) bool {
	if r := givenTo(h, f); r != nil && r.MAC == f.MAC && (who == nil || !isGuest(r, who)) {
		return true
	}
	for i := range h.Guests {
		g := &h.Guests[i]
		if who != nil && g.Name == who.Name {
			continue
		}
		if slices.ContainsFunc(g.NICs(), func(n facts.Interface) bool { return n.MAC == f.MAC }) {
			return true
		}
	}
	return false
}
