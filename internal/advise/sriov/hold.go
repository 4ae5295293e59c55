package sriov

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
)

// Holder says who has a function, or is to have it; empty where nobody does and it can be given away.
func Holder(h *facts.Host, vf *facts.VF) string {
	var by []string
	for i := range h.Guests {
		g := &h.Guests[i]
		if vf.PCI != "" && slices.Contains(g.Hostdevs, vf.PCI) {
			by = append(by, "guest "+g.Name+how(g))
		}
	}
	for _, r := range h.Reservations {
		if r.PCI != vf.PCI || r.PCI == "" || guestHas(h, r.Guest, r.PCI) {
			continue
		}
		if guestNamed(h, r.Guest) == nil {
			by = append(by, fmt.Sprintf("guest %s, which is not defined any more (reserved)", r.Guest))
		} else {
			by = append(by, "guest "+r.Guest+" (reserved)")
		}
	}
	if len(by) > 0 {
		return strings.Join(by, " and ")
	}
	if p := h.PoolOf(vf); p != nil {
		return "pool " + p.Network
	}
	return foreign(vf)
}

// foreign says who has a function that is no guest of libvirt and no pool.
func foreign(vf *facts.VF) string {
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

func how(g *facts.Guest) string {
	if g.Active() {
		return ""
	}
	return " (" + g.State + ")"
}

func guestHas(h *facts.Host, guest, pci string) bool {
	g := guestNamed(h, guest)
	return g != nil && slices.Contains(g.Hostdevs, pci)
}

// functions are those of a physical function, in their order.
func functions(h *facts.Host, pf string) []*facts.VF {
	var all []*facts.VF
	for i := range h.VFs {
		if h.VFs[i].PF == pf {
			all = append(all, &h.VFs[i])
		}
	}
	return all
}

// unfit says why a function cannot be given to a guest whoever has it; nil where it can.
func unfit(h *facts.Host, vf *facts.VF) *Refused {
	switch {
	case vf.PCI == "":
		return refuse("only functions on a PCI bus go to guests", "function %d of %s is on no PCI bus", vf.Index, vf.PF)
	case vf.Group < 0:
		return refuse("'mpps sriov check' says what is missing: VT-d or AMD-Vi in the firmware, intel_iommu=on "+
			"iommu=pt on the kernel's command line",
			"function %d of %s (%s) is in no IOMMU group: without an IOMMU no guest can have it", vf.Index, vf.PF,
			vf.PCI)
	}
	var others []string
	for i := range h.VFs {
		if o := &h.VFs[i]; o != vf && o.Group == vf.Group && o.PCI != "" {
			others = append(others, o.PCI)
		}
	}
	if h.Passthrough != nil {
		for _, g := range h.Passthrough.Groups {
			if g.Number != vf.Group {
				continue
			}
			for _, d := range g.Devices {
				if d.PCI != vf.PCI && !d.Bridge() && !slices.Contains(others, d.PCI) {
					others = append(others, d.PCI)
				}
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

// namesHostdev reports whether a guest's definition has a function as a plain <hostdev>.
func namesHostdev(g *facts.Guest, pci string) bool {
	doc, err := domain.Parse([]byte(g.Definition))
	if err != nil {
		return false
	}
	return slices.ContainsFunc(doc.Guest().HostDevs, func(d domain.HostDev) bool { return d.PCI == pci })
}

// InHand is a *Refused where a guest runs with a function that was given to it; nil where none does.
func InHand(h *facts.Host, gave []facts.Reservation) error {
	for i := range gave {
		r := &gave[i]
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
