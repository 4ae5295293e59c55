package facts

import "slices"

// Role is what a machine is to a tool that tunes KVM hosts, as far as its guests tell.
type Role string

// The roles. Only a RoleHost can be called well tuned: elsewhere no guest's path was judged.
const (
	RoleHost   Role = "host"          // guests run
	RoleIdle   Role = "idle"          // it has guests, none of which runs
	RoleEmpty  Role = "no-guests"     // KVM is loaded, and there are no guests
	RoleNoKVM  Role = "no-kvm"        // there are no guests, and KVM was not found
	RoleUnseen Role = "guests-unseen" // no guest was seen running, and not all could be read, or taps are nobody's
	RoleGuest  Role = "guest"         // a virtual machine that has no guests itself
	RoleXen    Role = "xen"           // Xen's control domain
	RoleArch   Role = "architecture"  // a host of an architecture that mpps has no rules for
)

// Role returns what the machine is.
func (h *Host) Role() Role {
	switch {
	case h.KVM.XenDom0:
		return RoleXen
	case !h.hasRules():
		return RoleArch
	case slices.ContainsFunc(h.Guests, func(g Guest) bool { return g.Active() }):
		return RoleHost
	case len(h.Guests) > 0 && len(h.StrangeTaps()) > 0:
		return RoleUnseen
	case len(h.Guests) > 0:
		return RoleIdle
	case h.Virtual != "":
		return RoleGuest
	case h.guestsUnseen(), len(h.StrangeTaps()) > 0:
		return RoleUnseen
	case h.KVM.Loaded:
		return RoleEmpty
	}
	return RoleNoKVM
}

// Declined reports whether nothing at all is judged on a machine of this role.
func (r Role) Declined() bool { return r == RoleXen || r == RoleArch }

// guestsUnseen reports whether there may be guests that mpps could not see.
func (h *Host) guestsUnseen() bool {
	return !h.AsRoot || slices.ContainsFunc(h.Unseen, func(u Unseen) bool {
		return u.Part == UnseenGuests || u.Part == UnseenDefinition || u.Part == UnseenMachines
	})
}

// StrangeTaps returns the taps that are up and belong to no guest that was found: guests of another virtual machine
// monitor than QEMU, or a daemon's.
func (h *Host) StrangeTaps() (names []string) {
	for _, t := range h.Taps {
		if t.Up && t.Guest == "" && !t.Elsewhere {
			names = append(names, t.Name)
		}
	}
	return names
}

// Why says in a sentence why no guest's path is judged on a machine of this role; empty where it is.
func (r Role) Why() string {
	switch r {
	case RoleIdle:
		return "none of this host's guests runs"
	case RoleEmpty:
		return "not a KVM host with guests yet: KVM is loaded, and there are no guests"
	case RoleNoKVM:
		return "not a KVM host with guests yet: neither KVM nor guests were found"
	case RoleXen:
		return "Xen's control domain: its guests are not KVM's, and nothing is judged"
	case RoleArch:
		return "mpps has no rules for hosts of this architecture: nothing is judged"
	case RoleGuest:
		return "a virtual machine without guests of its own: judged as a guest, from inside"
	case RoleUnseen:
		return "no guest was seen running, and there may be some: not everything could be read, or taps belong to " +
			"processes that mpps does not know"
	}
	return ""
}
