package sriov

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// Return is what to release.
type Return struct {
	Guest string // empty: whoever has VF
	VF    string // a name that Find accepts; empty: the only one of the guest, or the one with MAC
	MAC   string
	Live  bool // unplug it from the running guest too
}

// Returned is one function, or interface on a pool, to release.
type Returned struct {
	Guest   string   `json:"guest"`
	Form    string   `json:"form"`
	PF      string   `json:"pf,omitempty"`
	Index   int      `json:"index"` // −1: of a pool
	PCI     string   `json:"pci,omitempty"`
	Network string   `json:"network,omitempty"`
	MAC     string   `json:"mac,omitempty"`
	Left    []string `json:"left"` // what happens later

	guest       *facts.Guest // nil: no longer defined
	vf          *facts.VF    // nil: of a pool, or gone
	reservation *facts.Reservation
	defined     bool // the definition has it
	runs        bool // the guest runs with it
	live        bool // unplug it
}

// ChooseReturn finds the function to release.
func ChooseReturn(h *facts.Host, w Return) (*Returned, error) {
	all := holdings(h, w.Guest)
	var vf *facts.VF
	if w.VF != "" {
		var err error
		if vf, err = w.find(h, all); err != nil {
			return nil, err
		}
		if w.Guest == "" {
			all = nil
			for _, g := range holders(h, vf.PCI) {
				all = append(all, holdings(h, g)...)
			}
		}
	}
	if w.Guest != "" && guestNamed(h, w.Guest) == nil && len(all) == 0 {
		return nil, refuse("'mpps sriov list' shows who has which", "there is no guest %s, and no virtual function "+
			"is reserved for it", w.Guest)
	}
	all = slices.DeleteFunc(all, func(r *Returned) bool {
		return vf != nil && r.PCI != vf.PCI || w.MAC != "" && !strings.EqualFold(r.MAC, w.MAC)
	})
	switch {
	case len(all) == 1:
		one := all[0]
		if g := one.guest; g != nil && g.Job != "" {
			return nil, refuse("wait until it is done", "libvirt is busy with guest %s: %s", g.Name, g.Job)
		}
		one.live = w.Live && one.runs
		if one.runs && !one.live && !one.defined && one.reservation == nil {
			return nil, refuse("--live takes it out of the running guest", "guest %s runs with %s, and its "+
				"definition does not have it", one.Guest, one.title())
		}
		return one, nil
	case len(all) > 1:
		names := facts.Map(all, func(r *Returned) string { return r.title() + " of " + r.Guest })
		return nil, refuse("say which one: --vf or --mac", "%d virtual functions are meant: %s", len(all), few(names))
	case vf != nil && w.Guest == "":
		return nil, refuse("'mpps sriov reset' sets what it may do back", "%s is nobody's", nameOf(vf))
	case vf != nil:
		return nil, refuse("'mpps sriov list' shows who has which", "guest %s does not have %s", w.Guest, nameOf(vf))
	}
	return nil, refuse("'mpps sriov list' shows who has which", "guest %s has no virtual function%s", w.Guest,
		strings.TrimSuffix(" with address "+w.MAC, " with address "))
}

// find returns the named function. A number alone means the one with that number that the guest has.
func (w Return) find(h *facts.Host, all []*Returned) (*facts.VF, error) {
	name := w.VF
	if strings.Trim(name, "0123456789") == "" {
		pf := ""
		for _, r := range all {
			if fmt.Sprint(r.Index) == name {
				if pf != "" && pf != r.PF {
					return nil, refuse("name it as PF/N", "function %s: guest %s has one of %s and one of %s", name,
						w.Guest, pf, r.PF)
				}
				pf = r.PF
			}
		}
		if pf == "" {
			return nil, refuse(howNamed, "function %s: of which card is not said", name)
		}
		name = pf + "/" + name
	}
	vf, _, err := Find(h, []string{name})
	return vf, err
}

// holders returns the guests that have a function: defined, running or reserved.
func holders(h *facts.Host, pci string) []string {
	var all []string
	for _, g := range h.Guests {
		if pci != "" && slices.Contains(g.Hostdevs, pci) {
			all = append(all, g.Name)
		}
	}
	for _, r := range slices.Concat(h.Reservations, h.Leaving) {
		if pci != "" && r.PCI == pci && !slices.Contains(all, r.Guest) {
			all = append(all, r.Guest)
		}
	}
	return all
}

// holdings returns all functions and interfaces on pools that a guest has.
func holdings(h *facts.Host, guest string) []*Returned {
	g := guestNamed(h, guest)
	var all []*Returned
	find := func(pci, network, mac string) *Returned {
		for _, r := range all {
			if pci != "" && r.PCI == pci || network != "" && r.Network == network && r.MAC == mac {
				return r
			}
		}
		r := &Returned{Guest: guest, Index: -1, PCI: pci, Network: network, MAC: mac, guest: g, Form: facts.ByHostdev}
		if vf := functionOf(h, pci); vf != nil {
			r.vf, r.PF, r.Index = vf, vf.PF, vf.Index
		}
		all = append(all, r)
		return r
	}
	if g != nil {
		for _, nic := range g.Interfaces {
			switch {
			case nic.Type == "hostdev" && functionOf(h, nic.Source) != nil:
				r := find(nic.Source, "", nic.MAC)
				r.Form, r.defined = facts.ByInterface, g.Definition != ""
			case nic.Type == "network" && h.Pool(nic.Source) != nil:
				r := find("", nic.Source, nic.MAC)
				r.Form, r.defined, r.runs = facts.ByNetwork, g.Definition != "", nic.Function != ""
				r.PF = h.Pool(nic.Source).PF
			}
		}
		for _, nic := range g.Plugged {
			switch {
			case nic.Type == "hostdev" && functionOf(h, nic.Source) != nil:
				find(nic.Source, "", nic.MAC).Form = facts.ByInterface
			case nic.Type == "network" && h.Pool(nic.Source) != nil:
				r := find("", nic.Source, nic.MAC)
				r.Form, r.runs, r.PF = facts.ByNetwork, true, h.Pool(nic.Source).PF
			}
		}
		for _, pci := range g.Hostdevs {
			vf := functionOf(h, pci)
			if vf == nil || throughPool(g, pci) {
				continue // not a VF, or one that libvirt took from a pool for this run
			}
			r := find(pci, "", "")
			r.runs = slices.Contains(g.Functions, pci)
			r.defined = r.defined || r.Form == facts.ByHostdev && namesHostdev(g, pci)
		}
	}
	for _, res := range slices.Concat(h.Reservations, h.Leaving) {
		if res.Guest != guest && (g == nil || g.UUID == "" || res.UUID != g.UUID) {
			continue
		}
		r := find(res.PCI, res.Network, res.MAC)
		r.reservation = &res
		r.PF, r.Index, r.MAC = res.PF, res.Index, res.MAC
		if !r.defined && !r.runs {
			r.Form = res.Form
		}
	}
	return all
}

// throughPool reports whether a running guest has a function from a pool.
func throughPool(g *facts.Guest, pci string) bool {
	return slices.ContainsFunc(g.NICs(), func(nic facts.Interface) bool {
		return nic.Type == "network" && nic.Function == pci
	})
}

// title names it in messages.
func (r *Returned) title() string {
	switch {
	case r.Network != "":
		return "the interface " + r.MAC + " of pool " + r.Network
	case r.vf != nil:
		return fmt.Sprintf("%s/%d (%s)", r.PF, r.Index, r.PCI)
	}
	return r.PCI + ", which is not there any more"
}

// deviceAddress is the address of the device in the definition (setting.Domain) or the running guest (DomainDevice).
func (r *Returned) deviceAddress(kind setting.Kind) setting.Address {
	return deviceAddress(kind, r.Guest, r.Form, r.PCI, r.MAC)
}

// reservationAddress is the address of its reservation file.
func (r *Returned) reservationAddress() setting.Address {
	return facts.Reservation{PCI: r.PCI, Network: r.Network}.Address()
}

// Addresses returns what must be read before Changes.
func (r *Returned) Addresses() []setting.Address {
	all := []setting.Address{r.reservationAddress()}
	if r.guest != nil {
		all = append(all, r.deviceAddress(setting.Domain))
		if r.live {
			all = append(all, r.deviceAddress(setting.DomainDevice))
		}
	}
	if r.vf != nil && r.Network == "" {
		all = append(all, Attributes(r.vf)...)
	}
	return all
}

// Changes returns the changes that release it, in this order: unplug it if requested; remove it from the definition;
// reset its attributes, except those that stays reports as kept for whoever has the function; drop the reservation.
func (r *Returned) Changes(h *facts.Host, stays func(setting.Address) bool) ([]plan.Change, error) {
	c := &changes{h: h}
	if r.live {
		c.add("sriov.unplug", "The running guest has the virtual function", r.deviceAddress(setting.DomainDevice),
			setting.NotThere(), goal.Connectivity, "asked for with --live")
	}
	if r.defined {
		detach := c.add("sriov.attach", "The guest's definition has the virtual function",
			r.deviceAddress(setting.Domain), setting.NotThere(), goal.GuestRestart, "asked for by name")
		if r.runs && !r.live {
			detach.Needs = restart(r.guest)
		}
	}
	if r.vf != nil && r.Network == "" {
		r.resetAttributes(c, stays)
	}
	if r.reservation != nil {
		want := setting.NotThere()
		others := facts.Where(h.Reservations, func(o facts.Reservation) bool {
			return o.Address() == r.reservationAddress() && o != *r.reservation
		})
		because := "it is nobody's from now on"
		switch {
		case len(others) > 0:
			want = setting.Exact(facts.ReservationText(others))
		case r.runs && !r.live && r.Network == "":
			leaving := *r.reservation
			leaving.Leaving = true
			want, because = setting.Exact(facts.ReservationText([]facts.Reservation{leaving})),
				"it is nobody's once guest "+r.Guest+" has ended"
		}
		c.add("sriov.reserve", "Whose the virtual function is", r.reservationAddress(), want, goal.None, because)
	}
	return c.result()
}

// resetAttributes plans the attributes of a new function, and that mpps no longer keeps the old ones. While the guest
// runs with the function they stay as they are: the guest would lose its address.
func (r *Returned) resetAttributes(c *changes, stays func(setting.Address) bool) {
	runs := r.runs && !r.live
	var fresh map[string]string
	if nic := nicOf(c.h, r.PF); nic != nil {
		fresh = facts.VFDefaults(nic.Driver)
	}
	for _, name := range facts.VFAttributes {
		a := attribute(r.vf, name)
		found, to := c.h.Readings.At(a), fresh[name]
		if found.State != setting.Known || stays(a) {
			continue
		}
		// A MAC address other than the guest's was chosen by the host's driver or put back by libvirt.
		others := name == "mac" && (facts.NoAddress(found.Value) || r.MAC != "" &&
			!strings.EqualFold(found.Value, r.MAC))
		if runs || to == "" || others {
			to = found.Value
		}
		because := words.Either(runs, "guest "+r.Guest+" runs with it: set back when it has ended",
			"as a function has it that was just made")
		c.add(knobs[name].id, knobs[name].title, a, setting.Exact(to), goal.None, because).Forget = true
	}
}

// Later returns what happens once the guest has ended; nothing if there is nothing to wait for. watched reports whether
// mpps-restore.service will run then.
func (r *Returned) Later(watched bool) []string {
	if !r.runs || r.live {
		return nil
	}
	text := fmt.Sprintf("guest %s runs with %s until it is shut down or restarted", r.Guest, r.title())
	switch {
	case r.vf == nil || r.Network != "":
	case watched:
		text += "; then mpps-restore.service sets the function back"
	default:
		text += fmt.Sprintf("; then 'mpps sriov reset %s' sets the function back, or the next assign does: "+
			"mpps-restore.service does not run, since it has nothing else to do", nameOf(r.vf))
	}
	return []string{text}
}
