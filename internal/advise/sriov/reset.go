package sriov

import (
	"fmt"
	"slices"

	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// inUse returns who uses a function now, in words; empty: nobody.
func inUse(h *facts.Host, f *facts.VF) string {
	switch g := runsWith(h, f); {
	case g != nil:
		return "guest " + g.Name + " runs with it"
	case f.Elsewhere:
		return f.Holder + " has its interface"
	case f.Holder != "":
		return f.Holder + " has it open"
	case f.HostUse != "":
		return fmt.Sprintf("the host uses its interface %s (%s)", f.NIC, f.HostUse)
	}
	return ""
}

// OfGuest returns the functions that a guest is defined or runs with.
func OfGuest(h *facts.Host, name string) ([]*facts.VF, error) {
	g := guestNamed(h, name)
	if g == nil {
		return nil, refuse("'virsh list --all' names them", "there is no guest %s here", name)
	}
	all := functions(h, func(f *facts.VF) bool { return f.PCI != "" && slices.Contains(g.Hostdevs, f.PCI) })
	if len(all) == 0 {
		return nil, refuse("'mpps sriov list' shows who has which", "guest %s has no virtual function", name)
	}
	return all, nil
}

// FreeOf returns the functions of a PF that nobody uses, no definition names, and no reservation has.
func FreeOf(h *facts.Host, pf string) ([]*facts.VF, error) {
	has := functions(h, ofPF(pf))
	all := slices.DeleteFunc(slices.Clone(has), func(f *facts.VF) bool {
		named := slices.ContainsFunc(h.Guests, func(g facts.Guest) bool {
			return f.PCI != "" && slices.Contains(g.Hostdevs, f.PCI)
		})
		return named || reservationOf(h, f) != nil || inUse(h, f) != ""
	})
	switch {
	case len(has) == 0:
		return nil, refuse("'mpps sriov list' shows which NIC has some", "%s has no virtual functions here", pf)
	case len(all) == 0:
		return nil, refuse("'mpps sriov list' shows who has which", "none of the %d virtual functions of %s is free",
			len(has), pf)
	}
	return all, nil
}

// PlanReset plans the attributes of new functions, and that mpps keeps none of the old ones. kept reports whether it
// keeps an attribute now. A function in use is refused: its guest would lose its network. The readings of the host must
// have Attributes.
func PlanReset(h *facts.Host, functions []*facts.VF, kept func(setting.Address) bool) ([]plan.Change, error) {
	c := &changes{h: h}
	for _, f := range functions {
		if who := inUse(h, f); who != "" {
			return nil, refuse("shut the guest down or end the process first; 'mpps sriov set' changes single "+
				"attributes while it runs", "%s is not reset: %s", nameOf(f), who)
		}
		if err := resetOne(c, f, kept); err != nil {
			return nil, err
		}
	}
	return c.result()
}

func resetOne(all *changes, f *facts.VF, kept func(setting.Address) bool) error {
	h := all.h
	p, _ := port(h, f)
	fresh := facts.VFDefaults(p.Driver)
	now := *f
	for _, s := range inOrder(f, sets(values(f))) {
		a := attribute(f, s.Attribute)
		found := h.Readings.At(a)
		value, known := fresh[s.Attribute]
		because := "a new function has it so"
		switch {
		case found.State != setting.Known:
			continue // the driver does not tell it
		case s.Attribute == "mac" && (facts.NoAddress(found.Value) || hasOwnMAC(h, f) && !kept(a)):
			value, because = found.Value, "its driver on the host has chosen it"
		case !known:
			value, because = found.Value, "what a new function of "+p.Driver+" has is not known: left as it is"
		}
		if value != found.Value {
			if err := p.Check(now, s.Attribute, value); err != nil {
				return refuse(refusedAdvice(p, s), "%s of %s: %v", s.Attribute, nameOf(f), err)
			}
			now = with(now, Set{s.Attribute, value})
		} else if !kept(a) {
			continue
		}
		k := knobs[s.Attribute]
		c := all.add(k.id, k.title, a, setting.Exact(value), k.risk, because)
		c.Forget = true
		if r := reservationOf(h, f); r != nil && kept(a) {
			c.Warning = fmt.Sprintf("it was given to guest %s, which has it so at its next start", r.Guest)
		}
	}
	return nil
}

// hasOwnMAC reports whether an unused function has a MAC address from its driver on the host: it is bound to it, and no
// guest has that address.
func hasOwnMAC(h *facts.Host, f *facts.VF) bool {
	return f.Driver != "" && !facts.PassesThrough(f.Driver) && !hasOthersMAC(h, f, nil)
}
