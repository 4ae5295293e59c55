package sriov

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// inUse is who has a function now, for people; empty where nobody has.
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

// OfGuest are the functions that a guest's definition names or it runs with.
func OfGuest(h *facts.Host, name string) ([]*facts.VF, error) {
	g := guestNamed(h, name)
	if g == nil {
		return nil, &Refused{"there is no guest " + name + " here", "'virsh list --all' names them"}
	}
	var all []*facts.VF
	for i := range h.VFs {
		if f := &h.VFs[i]; f.PCI != "" && slices.Contains(g.Hostdevs, f.PCI) {
			all = append(all, f)
		}
	}
	if len(all) == 0 {
		return nil, &Refused{"guest " + name + " has no virtual function", "'mpps sriov list' shows who has which"}
	}
	return all, nil
}

// FreeOf are the functions of a physical one that nobody has, that no definition names, and that were given to nobody.
func FreeOf(h *facts.Host, pf string) ([]*facts.VF, error) {
	var all []*facts.VF
	has := 0
	for i := range h.VFs {
		f := &h.VFs[i]
		if f.PF != pf {
			continue
		}
		has++
		named := slices.ContainsFunc(h.Guests, func(g facts.Guest) bool {
			return f.PCI != "" &&
				slices.Contains(g.Hostdevs, f.PCI)
		})
		if !named && givenTo(h, f) == nil && inUse(h, f) == "" {
			all = append(all, f)
		}
	}
	switch {
	case has == 0:
		return nil, &Refused{pf + " has no virtual functions here", "'mpps sriov list' shows which NIC has some"}
	case len(all) == 0:
		return nil, &Refused{fmt.Sprintf("none of the %d virtual functions of %s is free", has, pf),
			"'mpps sriov list' shows who has which"}
	}
	return all, nil
}

// PlanReset plans that functions have what new ones have, and that mpps keeps nothing of them. kept tells which
// attributes it keeps now. A function that somebody has is refused: its guest would lose its network in the middle of
// its work. Readings of Attributes must be there.
func PlanReset(h *facts.Host, functions []*facts.VF, kept func(setting.Address) bool) ([]plan.Change, error) {
	var all []plan.Change
	for _, f := range functions {
		if who := inUse(h, f); who != "" {
			return nil, &Refused{fmt.Sprintf("%s is not reset: %s", nameOf(f), who), "shut the guest down or end the " +
				"process first; 'mpps sriov set' changes single attributes while it runs"}
		}
		changes, err := resetOne(h, f, kept)
		if err != nil {
			return nil, err
		}
		all = append(all, changes...)
	}
	return all, nil
}

func resetOne(h *facts.Host, f *facts.VF, kept func(setting.Address) bool) ([]plan.Change, error) {
	p, _ := port(h, f)
	fresh := facts.VFFresh(p.Driver)
	now := *f
	var all []plan.Change
	for _, s := range inOrder(f, sets(values(f))) {
		a := attribute(f, s.Attribute)
		found := h.Readings.At(a)
		value, known := fresh[s.Attribute]
		because := "a new function has it so"
		switch {
		case found.State != setting.Known:
			continue // the driver does not tell it
		case s.Attribute == "mac" && (facts.NoAddress(found.Value) || ownAddress(h, f) && !kept(a)):
			value, because = found.Value, "its driver on the host has chosen it"
		case !known:
			value, because = found.Value, "what a new function of "+p.Driver+" has is not known: left as it is"
		}
		if value != found.Value {
			if err := p.Refuses(now, s.Attribute, value); err != nil {
				return nil, &Refused{fmt.Sprintf("%s of %s: %v", s.Attribute, nameOf(f), err), refusedAdvice(p, s)}
			}
			now = with(now, Set{s.Attribute, value})
		} else if !kept(a) {
			continue
		}
		k := knobs[s.Attribute]
		c, err := change(h, k.id, k.title, a, setting.Exact(value), k.risk, because)
		if err != nil {
			return nil, err
		}
		c.Forget = true
		if r := givenTo(h, f); r != nil && kept(a) {
			c.Warning = fmt.Sprintf("it was given to guest %s, which has it so at its next start", r.Guest)
		}
		all = append(all, c)
	}
	return all, nil
}

// ownAddress reports whether a function that nobody has is bound to its driver on the host, and has no address that a
// guest has: then its driver has told one of its own.
func ownAddress(h *facts.Host, f *facts.VF) bool {
	return f.Driver != "" && !facts.PassesThrough(f.Driver) && !othersAddress(h, f, nil)
}

// Names are functions for people: "ens1/0, ens1/3".
func Names(functions []*facts.VF) string {
	var all []string
	for _, f := range functions {
		all = append(all, nameOf(f))
	}
	return strings.Join(all, ", ")
}
