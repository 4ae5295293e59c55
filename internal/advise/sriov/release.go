package sriov

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// Return is what is to be taken back.
type Return struct {
	Guest string // empty: whoever has VF
	VF    string // as Find takes it; empty: the only one that the guest has, or by MAC
	MAC   string
	Live  bool // also out of a guest that runs with it
}

// Returned is one function, or interface of a pool, that is taken back.
type Returned struct {
	Guest   string   `json:"guest"`
	Form    string   `json:"form"`
	PF      string   `json:"pf,omitempty"`
	Index   int      `json:"index"` // −1: of a pool
	PCI     string   `json:"pci,omitempty"`
	Network string   `json:"network,omitempty"`
	MAC     string   `json:"mac,omitempty"`
	Left    []string `json:"left"` // what happens later

	guest       *facts.Guest // nil: not defined any more
	vf          *facts.VF    // nil: of a pool, or not there any more
	reservation *facts.Reservation
	defined     bool // stands in the definition
	runs        bool // the guest runs with it
	live        bool
}

// Take finds what is to be taken back.
func Take(h *facts.Host, w Return) (*Returned, error) {
	all := held(h, w.Guest)
	var vf *facts.VF
	if w.VF != "" {
		var err error
		if vf, err = w.find(h, all); err != nil {
			return nil, err
		}
		if w.Guest == "" {
			all = nil
			for _, g := range holders(h, vf.PCI) {
				all = append(all, held(h, g)...)
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
		var names []string
		for _, r := range all {
			names = append(names, r.title()+" of "+r.Guest)
		}
		return nil, refuse("say which one: --vf or --mac", "%d virtual functions are meant: %s", len(all), few(names))
	case vf != nil && w.Guest == "":
		return nil, refuse("'mpps sriov reset' sets what it may do back", "%s is nobody's", nameOf(vf))
	case vf != nil:
		return nil, refuse("'mpps sriov list' shows who has which", "guest %s does not have %s", w.Guest, nameOf(vf))
	}
	return nil, refuse("'mpps sriov list' shows who has which", "guest %s has no virtual function%s", w.Guest,
		strings.TrimSuffix(" with address "+w.MAC, " with address "))
}

// find is the function that is named. A number alone is one on the card of which the guest has one.
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

// holders are the guests that have a function, by definition, running, or reserved.
func holders(h *facts.Host, pci string) []string {
	var all []string
	add := func(name string) {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	for i := range h.Guests {
		if pci != "" && slices.Contains(h.Guests[i].Hostdevs, pci) {
			add(h.Guests[i].Name)
		}
	}
	for _, r := range slices.Concat(h.Reservations, h.Leaving) {
		if pci != "" && r.PCI == pci {
			add(r.Guest)
		}
	}
	return all
}

// held is everything of the kind that a guest has: functions and interfaces of pools.
func held(h *facts.Host, guest string) []*Returned {
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
				continue // no virtual function; or one that libvirt chose for this start
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
		network := res.Network
		r := find(res.PCI, network, res.MAC)
		r.reservation = &res
		r.PF, r.Index, r.MAC = res.PF, res.Index, res.MAC
		if !r.defined && !r.runs {
			r.Form = res.Form
		}
	}
	return all
}

// throughPool reports whether a running guest has a function through a pool.
func throughPool(g *facts.Guest, pci string) bool {
	return slices.ContainsFunc(g.Interfaces, func(nic facts.Interface) bool {
		return nic.Type == "network" &&
			nic.Function == pci
	}) ||
		slices.ContainsFunc(g.Plugged, func(nic facts.Interface) bool {
			return nic.Type == "network" &&
				nic.Function == pci
		})
}

// title is what it is called in messages.
func (r *Returned) title() string {
	switch {
	case r.Network != "":
		return "the interface " + r.MAC + " of pool " + r.Network
	case r.vf != nil:
		return fmt.Sprintf("%s/%d (%s)", r.PF, r.Index, r.PCI)
	}
	return r.PCI + ", which is not there any more"
}

// place is where it stands in the definition, or in what the guest runs with.
func (r *Returned) place(kind setting.Kind) setting.Address {
	if r.Form == facts.ByHostdev {
		return setting.Of(kind, r.Guest, "hostdev", r.PCI)
	}
	return setting.Of(kind, r.Guest, "interface", r.MAC)
}

// file is where its reservation stands.
func (r *Returned) file() setting.Address {
	return facts.Reservation{PCI: r.PCI, Network: r.Network}.Address()
}

// Addresses lists what must be read before Changes.
func (r *Returned) Addresses() []setting.Address {
	all := []setting.Address{r.file()}
	if r.guest != nil {
		all = append(all, r.place(setting.Domain))
		if r.live {
			all = append(all, r.place(setting.DomainDevice))
		}
	}
	if r.vf != nil && r.Network == "" {
		for _, name := range facts.VFAttributes {
			all = append(all, attribute(r.vf, name))
		}
	}
	return all
}

// Changes are what is changed to take it back: it is taken out of the running guest where that is asked for, and out of
// the definition; nobody's values stay on it; and it is nobody's, last.
//
// stays tells which attributes are kept for whoever has the function: they stay.
func (r *Returned) Changes(h *facts.Host, stays func(setting.Address) bool) ([]plan.Change, error) {
	var all []plan.Change
	add := func(forget bool, id, title string, a setting.Address, want setting.Want, risk goal.Risk,
		because string) error {
		c, err := change(h, id, title, a, want, risk, because)
		c.Forget = forget
		all = append(all, c)
		return err
	}
	if r.live {
		if err := add(false, "sriov.unplug", "The running guest has the virtual function",
			r.place(setting.DomainDevice), setting.NotThere(), goal.Connectivity, "asked for with --live"); err != nil {
			return nil, err
		}
	}
	if r.defined {
		if err := add(false, "sriov.attach", "The guest's definition has the virtual function", r.place(setting.Domain),
			setting.NotThere(), goal.GuestRestart, "asked for by name"); err != nil {
			return nil, err
		}
		if r.runs && !r.live {
			all[len(all)-1].Needs = restart(r.guest)
		}
	}
	if r.vf != nil && r.Network == "" {
		if err := r.clear(h, stays, add); err != nil {
			return nil, err
		}
	}
	if r.reservation != nil {
		want := setting.NotThere()
		var others []facts.Reservation
		for _, o := range h.Reservations {
			if o.Address() == r.file() && o != *r.reservation {
				others = append(others, o)
			}
		}
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
		if err := add(false, "sriov.reserve", "Whose the virtual function is", r.file(), want, goal.None,
			because); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// clear has the function as one that was just made, and nothing set again of what it had. While the guest runs with it
// it stays as it is: the guest would lose its address.
func (r *Returned) clear(h *facts.Host, stays func(setting.Address) bool,
	add func(forget bool, id, title string, a setting.Address, want setting.Want, risk goal.Risk,
		because string) error) error {
	runs := r.runs && !r.live
	nic := nicOf(h, r.PF)
	var fresh map[string]string
	if nic != nil {
		fresh = facts.VFFresh(nic.Driver)
	}
	for _, name := range facts.VFAttributes {
		a := attribute(r.vf, name)
		found, to := h.Readings.At(a), fresh[name]
		if found.State != setting.Known || stays(a) {
			continue
		}
		// An address that is not the guest's is one that the host's driver has chosen, or libvirt has put back.
		others := name == "mac" && (facts.NoAddress(found.Value) || r.MAC != "" &&
			!strings.EqualFold(found.Value, r.MAC))
		if runs || to == "" || others {
			to = found.Value
		}
		because := "as a function has it that was just made"
		if runs {
			because = "guest " + r.Guest + " runs with it: set back when it has ended"
		}
		if err := add(true, knobs[name].id, knobs[name].title, a, setting.Exact(to), goal.None, because); err != nil {
			return err
		}
	}
	return nil
}

// Later says what happens once the guest has ended; nothing where there is nothing to wait for. watched tells that
// mpps-restore.service runs then.
func (r *Returned) Later(watched bool) []string {
	if !r.runs || r.live {
		return nil
	}
	text := fmt.Sprintf("guest %s runs with %s until it is shut down or started anew", r.Guest, r.title())
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
