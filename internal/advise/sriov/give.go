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
	"mpps/internal/words"
)

// Addresses returns what must be read before Changes.
func (g *Gift) Addresses() []setting.Address {
	all := []setting.Address{g.reservation().Address(), g.deviceAddress(setting.Domain)}
	if g.Form == facts.ByNetwork {
		all = append(all, g.networkAddress("definition"), g.networkAddress("active"), g.networkAddress("autostart"))
	}
	for _, v := range g.values {
		all = append(all, g.attribute(v.Attribute))
	}
	if g.plugs() {
		all = append(all, g.deviceAddress(setting.DomainDevice))
	}
	return all
}

// plugs reports whether the function is plugged into the running guest.
func (g *Gift) plugs() bool { return g.request.Live && g.guest.Active() }

// deviceAddress is the address of the device in the definition (setting.Domain) or the running guest (DomainDevice).
func (g *Gift) deviceAddress(kind setting.Kind) setting.Address {
	return deviceAddress(kind, g.Guest, g.Form, g.PCI, g.MAC)
}

func deviceAddress(kind setting.Kind, guest, form, pci, mac string) setting.Address {
	return words.Either(form == facts.ByHostdev, setting.Of(kind, guest, "hostdev", pci),
		setting.Of(kind, guest, "interface", mac))
}

func (g *Gift) networkAddress(what string) setting.Address {
	return setting.Of(setting.VirtNetwork, g.Network, what)
}

func (g *Gift) attribute(name string) setting.Address {
	return attribute(&facts.VF{PF: g.PF, Index: g.Index}, name)
}

// device is the value at deviceAddress.
func (g *Gift) device() string {
	vlan, _ := strconv.Atoi(g.request.requested("vlan")) // checked
	switch g.Form {
	case facts.ByHostdev:
		return "managed"
	case facts.ByNetwork:
		return domain.NetworkInterface{Network: g.Network, VLAN: vlan}.Value()
	}
	return domain.HostdevInterface{PCI: g.PCI, Managed: true, VLAN: vlan}.Value()
}

// Changes returns the changes that assign the function, in this order: reserve it, so that nobody else takes it; set
// its attributes; add it to the definition; plug it in if requested. The readings of the host must have Addresses.
// stays reports whether an attribute is kept for whoever has the function: those are not reset.
func (g *Gift) Changes(h *facts.Host, stays func(setting.Address) bool) ([]plan.Change, error) {
	reservation, err := g.reservationText(h)
	if err != nil {
		return nil, err
	}
	c := &changes{h: h}
	c.add("sriov.reserve", "Whose the virtual function is", g.reservation().Address(), setting.Exact(reservation),
		goal.None, "nobody else is given it from now on")
	if g.Form == facts.ByNetwork {
		if err := g.makePool(c); err != nil {
			return nil, err
		}
	}
	for _, v := range g.values {
		k := knobs[v.Attribute]
		at, asked := g.attribute(v.Attribute), g.setsItself(v.Attribute) || v.Attribute == "mac"
		if k.risk != goal.Security || !asked {
			k.risk = goal.None // nobody has the function yet
		}
		if found := h.Readings.At(at); !asked && (stays(at) || found.State != setting.Known || found.Value == v.Value) {
			continue // as it should be, or not reported by the driver
		}
		set := c.add(k.id, k.title, at, setting.Exact(v.Value), k.risk, v.because)
		set.For, set.Forget = g.Guest, !asked // a new function has the others by itself
	}
	attach := c.add("sriov.attach", "The guest's definition has the virtual function", g.deviceAddress(setting.Domain),
		setting.Exact(g.device()), goal.GuestRestart, "asked for by name")
	if !g.plugs() {
		attach.Needs = restart(g.guest)
		return c.result()
	}
	c.add("sriov.plug", "The running guest has the virtual function", g.deviceAddress(setting.DomainDevice),
		setting.Exact(g.device()), goal.None, "asked for with --live")
	return c.result()
}

// reservationText is the contents of the reservation file with this gift added.
func (g *Gift) reservationText(h *facts.Host) (string, error) {
	mine := g.reservation()
	same := func(r facts.Reservation) bool { return r.Address() == mine.Address() }
	given := facts.Where(h.Reservations, func(r facts.Reservation) bool { return same(r) && g.Form == facts.ByNetwork })
	before := slices.Concat(given, facts.Where(h.Leaving, same))
	found := h.Readings.At(mine.Address())
	_, unread := facts.ParseReservations(mine.Address(), found.Value)
	switch {
	case found.State == setting.Unknown:
		return "", refuse("see to the file, then try again", "/%s cannot be read: %s", mine.Address().Path, found.Why)
	case found.State == setting.Absent && len(before) == 0, found.State == setting.Known && len(before) > 0 &&
		found.Value == facts.ReservationText(before):
	case found.State == setting.Absent, unread == nil: // assigned or released since the host was inspected
		return "", &plan.Stale{Changed: []plan.Difference{{What: mine.Address().String(),
			Then: words.Count(len(before), "reservation"), Now: mine.Address().Brief(found)}}}
	default:
		return "", refuse("'mpps sriov check' tells what it means; 'mpps sriov release --vf' takes it away",
			"/%s stands in the way of giving away %s", mine.Address().Path, g.title())
	}
	return facts.ReservationText(append(given, mine)), nil
}

// makePool defines the network if needed, starts it, and has libvirt start it at boot.
func (g *Gift) makePool(c *changes) error {
	if g.pool == nil {
		if c.h.Readings.At(g.networkAddress("definition")).State != setting.Absent {
			return refuse("give another name with --network", "libvirt has a network %s that is no pool of virtual "+
				"functions", g.Network)
		}
		c.add("sriov.network", "Pool of virtual functions", g.networkAddress("definition"),
			setting.Exact(domain.NetworkPool{Name: g.Network, PF: g.PF, Managed: true}.Value()), goal.None,
			fmt.Sprintf("all functions of %s are its", g.PF))
	}
	c.add("sriov.network", "Pool of virtual functions: active", g.networkAddress("active"), setting.Exact("yes"),
		goal.None, "libvirt hands out functions of active networks only")
	c.add("sriov.network", "Pool of virtual functions: at boot", g.networkAddress("autostart"), setting.Exact("yes"),
		goal.None, "it comes up with libvirt, after the functions are made")
	return nil
}
