package sriov

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/words"
)

// Holder returns who has a function or is to have it, in words; empty: nobody, it can be assigned.
func Holder(h *facts.Host, vf *facts.VF) string {
	var by []string
	for g := range facts.Each(h.Guests) {
		if vf.PCI != "" && slices.Contains(g.Hostdevs, vf.PCI) {
			by = append(by, "guest "+g.Name+stateSuffix(g))
		}
	}
	for _, r := range h.Reservations {
		if r.PCI != vf.PCI || r.PCI == "" || guestHas(h, r.Guest, r.PCI) {
			continue
		}
		gone := words.If(guestNamed(h, r.Guest) == nil, ", which is not defined any more")
		by = append(by, "guest "+r.Guest+gone+" (reserved)")
	}
	if len(by) > 0 {
		return strings.Join(by, " and ")
	}
	if p := h.PoolOf(vf); p != nil {
		return "pool " + p.Network
	}
	return otherHolder(vf)
}

// otherHolder returns who has a function other than guests of libvirt and pools; empty: nobody.
func otherHolder(vf *facts.VF) string {
	switch {
	case vf.Holder != "":
		return vf.Holder
	case vf.HostUse != "":
		return fmt.Sprintf("the host (%s is %s)", vf.NIC, vf.HostUse)
	case facts.PassesThrough(vf.Driver):
		return fmt.Sprintf("whoever bound it to %s, without a guest", vf.Driver)
	}
	return ""
}

func stateSuffix(g *facts.Guest) string { return words.If(!g.Active(), " (%s)", g.State) }

func guestHas(h *facts.Host, guest, pci string) bool {
	g := guestNamed(h, guest)
	return g != nil && slices.Contains(g.Hostdevs, pci)
}

// functions returns some functions of a host, in order.
func functions(h *facts.Host, wanted func(*facts.VF) bool) []*facts.VF {
	var all []*facts.VF
	for vf := range facts.Each(h.VFs) {
		if wanted(vf) {
			all = append(all, vf)
		}
	}
	return all
}

// ofPF reports whether a function belongs to a PF.
func ofPF(pf string) func(*facts.VF) bool { return func(vf *facts.VF) bool { return vf.PF == pf } }

// unassignable returns why a function can never be assigned to a guest, in use or not; nil: it can.
func unassignable(h *facts.Host, vf *facts.VF) *Refused {
	switch {
	case vf.PCI == "":
		return refuse("only functions on a PCI bus go to guests", "function %d of %s is on no PCI bus", vf.Index, vf.PF)
	case vf.Group < 0:
		return refuse("'mpps sriov check' says what is missing: VT-d or AMD-Vi in the firmware, intel_iommu=on "+
			"iommu=pt on the kernel's command line",
			"function %d of %s (%s) is in no IOMMU group: without an IOMMU no guest can have it", vf.Index, vf.PF,
			vf.PCI)
	}
	others := facts.Map(functions(h, func(o *facts.VF) bool { return o != vf && o.Group == vf.Group && o.PCI != "" }),
		func(o *facts.VF) string { return o.PCI })
	if h.Passthrough != nil {
		group := facts.Find(h.Passthrough.Groups, func(g *facts.IOMMUGroup) bool { return g.Number == vf.Group })
		for _, d := range cmp.Or(group, &facts.IOMMUGroup{}).Devices {
			if d.PCI != vf.PCI && !d.Bridge() && !slices.Contains(others, d.PCI) {
				others = append(others, d.PCI)
			}
		}
	}
	if len(others) > 0 {
		return refuse("all devices of a group go to one guest or none: put the card into a slot with ACS ('mpps "+
			"sriov check' shows the groups)",
			"function %d of %s (%s) shares IOMMU group %d with %s", vf.Index, vf.PF, vf.PCI, vf.Group, few(others))
	}
	return nil
}

// namesHostdev reports whether a guest is defined with a function as a plain <hostdev>.
func namesHostdev(g *facts.Guest, pci string) bool {
	doc, err := domain.Parse([]byte(g.Definition))
	if err != nil {
		return false
	}
	return slices.ContainsFunc(doc.Guest().HostDevs, func(d domain.HostDev) bool { return d.PCI == pci })
}

// CheckReturned returns a *Refused if a guest runs with a function that one of the reservations gave it, otherwise nil.
func CheckReturned(h *facts.Host, gave []facts.Reservation) error {
	for r := range facts.Each(gave) {
		vf := functionOf(h, r.PCI)
		if vf == nil || r.Leaving {
			continue
		}
		if g := runsWith(h, vf); g != nil && isGuest(r, g) && slices.Contains(g.Functions, r.PCI) {
			return refuse("shut the guest down first, or take the function out of it with 'mpps sriov release "+g.Name+
				" --live'; --force goes on, and cuts it off",
				"guest %s runs with %s (%s), which it gave", g.Name, nameOf(vf), r.PCI)
		}
	}
	return nil
}
