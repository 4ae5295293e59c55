package sriov

import (
	"fmt"
	"slices"
	"strconv"

	"mpps/internal/advise/plan"
	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// Addresses lists what must be read before Changes.
func (g *Gift) Addresses() []setting.Address {
	all := []setting.Address{g.reservation().Address(), g.place(setting.Domain)}
	if g.Form == facts.ByNetwork {
		all = append(all, g.network("definition"), g.network("active"), g.network("autostart"))
	}
	for _, v := range g.values {
		all = append(all, g.attribute(v.Attribute))
	}
	if g.plugged() {
		all = append(all, g.place(setting.DomainDevice))
	}
	return all
}

// plugged reports whether the guest gets it while it runs.
func (g *Gift) plugged() bool { return g.wish.Live && g.guest.Active() }

// place is where the device stands in the guest's definition, or in what it runs with.
func (g *Gift) place(kind setting.Kind) setting.Address {
	if g.Form == facts.ByHostdev {
		return setting.Of(kind, g.Guest, "hostdev", g.PCI)
	}
	return setting.Of(kind, g.Guest, "interface", g.MAC)
}

func (g *Gift) network(what string) setting.Address {
	return setting.Of(setting.VirtNetwork, g.Network, what)
}

func (g *Gift) attribute(name string) setting.Address {
	return attribute(&facts.VF{PF: g.PF, Index: g.Index}, name)
}

// device is what stands there.
func (g *Gift) device() string {
	vlan, _ := strconv.Atoi(g.wish.asked("vlan")) // checked
	switch g.Form {
	case facts.ByHostdev:
		return "managed"
	case facts.ByNetwork:
		return domain.NetworkInterface{MAC: g.MAC, Network: g.Network, VLAN: vlan}.Value()
	}
	return domain.HostdevInterface{MAC: g.MAC, PCI: g.PCI, Managed: true, VLAN: vlan}.Value()
}

// Changes are what is changed to give the guest its function, in this order: it is reserved, so that nobody else takes
// it; set; put into the definition, and plugged in where that is asked for. The readings of the host must hold
// Addresses. stays tells which attributes are kept for whoever has the function: they are not set back.
func (g *Gift) Changes(h *facts.Host, stays func(setting.Address) bool) ([]plan.Change, error) {
	var all []plan.Change
	add := func(id, title string, a setting.Address, to string, risk goal.Risk, because string) error {
		c, err := change(h, id, title, a, setting.Exact(to), risk, because)
		if a.Kind == setting.Domain {
			if c.Needs = restart(g.guest); g.plugged() {
				c.Needs = setting.Needs{}
			}
		}
		if a.Kind == setting.VFAttr {
			c.For = g.Guest
		}
		all = append(all, c)
		return err
	}
	reservation, err := g.reserve(h)
	if err != nil {
		return nil, err
	}
	if err := add("sriov.reserve", "Whose the virtual function is", g.reservation().Address(), reservation, goal.None,
		"nobody else is given it from now on"); err != nil {
		return nil, err
	}
	if g.Form == facts.ByNetwork {
		if err := g.makePool(h, add); err != nil {
			return nil, err
		}
	}
	for _, v := range g.values {
		k := knobs[v.Attribute]
		at, asked := g.attribute(v.Attribute), g.sets(v.Attribute) || v.Attribute == "mac"
		if k.risk != goal.Security || !asked {
			k.risk = goal.None // nobody has the function yet
		}
		if found := h.Readings.At(at); !asked && (stays(at) || found.State != setting.Known || found.Value == v.Value) {
			continue // as it should be, or nothing that the driver tells
		}
		if err := add(k.id, k.title, at, v.Value, k.risk, v.because); err != nil {
			return nil, err
		}
		all[len(all)-1].Forget = !asked // a function that is made anew has it by itself
	}
	if err := add("sriov.attach", "The guest's definition has the virtual function", g.place(setting.Domain),
		g.device(), goal.GuestRestart, "asked for by name"); err != nil {
		return nil, err
	}
	if g.plugged() {
		if err := add("sriov.plug", "The running guest has the virtual function", g.place(setting.DomainDevice),
			g.device(), goal.None, "asked for with --live"); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// reserve is the file of reservations with this one in it.
func (g *Gift) reserve(h *facts.Host) (string, error) {
	mine := g.reservation()
	given := []facts.Reservation{}
	for _, r := range h.Reservations {
		if r.Address() == mine.Address() && g.Form == facts.ByNetwork {
			given = append(given, r)
		}
	}
	before := slices.Clone(given)
	for _, r := range h.Leaving {
		if r.Address() == mine.Address() {
			before = append(before, r) // it has left
		}
	}
	found := h.Readings.At(mine.Address())
	_, unread := facts.ParseReservations(mine.Address(), found.Value)
	switch {
	case found.State == setting.Unknown:
		return "", refuse("see to the file, then try again", "/%s cannot be read: %s", mine.Address().Path, found.Why)
	case found.State == setting.Absent && len(before) == 0, found.State == setting.Known && len(before) > 0 &&
		found.Value == facts.ReservationText(before):
	// somebody was given it, or gave it back, since the host was looked at
	case found.State == setting.Absent, unread == nil:
		return "", &plan.Stale{Changed: []plan.Difference{{What: mine.Address().String(),
			Then: count(len(before), "reservation"), Now: mine.Address().Brief(found)}}}
	default:
		return "", refuse("'mpps sriov check' tells what it means; 'mpps sriov release --vf' takes it away",
			"/%s stands in the way of giving away %s", mine.Address().Path, g.title())
	}
	return facts.ReservationText(append(given, mine)), nil
}

// makePool defines the network, starts it now and with libvirt.
func (g *Gift) makePool(h *facts.Host, add func(id, title string, a setting.Address, to string, risk goal.Risk,
	because string) error) error {
	if g.pool == nil {
		found := h.Readings.At(g.network("definition"))
		if found.State != setting.Absent {
			return refuse("give another name with --network", "libvirt has a network %s that is no pool of virtual "+
				"functions", g.Network)
		}
		err := add("sriov.network", "Pool of virtual functions", g.network("definition"),
			domain.NetworkPool{Name: g.Network, PF: g.PF, Managed: true}.Value(), goal.None,
			fmt.Sprintf("all functions of %s are its", g.PF))
		if err != nil {
			return err
		}
	}
	if err := add("sriov.network", "Pool of virtual functions: active", g.network("active"), "yes", goal.None,
		"libvirt hands out functions of active networks only"); err != nil {
		return err
	}
	return add("sriov.network", "Pool of virtual functions: at boot", g.network("autostart"), "yes", goal.None,
		"it comes up with libvirt, after the functions are made")
}
