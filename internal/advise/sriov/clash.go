package sriov

import (
	"fmt"
	"strconv"

	"mpps/internal/model/facts"
)

// conflict returns why a MAC address or a VLAN must not be set on a function: another device has the address, or
// libvirt sets another value at the guest's next start. nil: no conflict.
func conflict(h *facts.Host, f *facts.VF, s Set) error {
	if g := poolGuest(h, f); g != "" && (s.Attribute == "mac" || s.Attribute == "vlan") {
		return refuse("change the guest's definition (virsh edit "+g+"), or the VLAN of the network",
			"%s of %s: guest %s has it from a pool, and libvirt sets address and VLAN of whichever function it takes "+
				"at each start", s.Attribute, nameOf(f), g)
	}
	switch s.Attribute {
	case "mac":
		if facts.NoAddress(s.Value) {
			return refuse("'mpps sriov reset "+nameOf(f)+"' takes the address back", "mac of %s: %s is no address",
				nameOf(f), s.Value)
		}
		if other := holder(h, s.Value, f); other != "" {
			return refuse("two devices with one address on a network lose each other's packets: choose another",
				"mac of %s: %s is the address of %s", nameOf(f), s.Value, other)
		}
		return definitionConflict(h, f, s, "<mac address='%s'/>", "virsh edit %[1]s, or release and assign with --mac",
			func(i *facts.Interface) string { return i.MAC })
	case "vlan":
		return definitionConflict(h, f, s, "<vlan><tag id='%s'/></vlan>",
			"mpps domain tune %[1]s --vf-vlan %[2]s --apply", func(i *facts.Interface) string {
				if i.VLAN == 0 {
					return "" // libvirt 10 leaves it; older ones set 0, and mpps-restore.service restores it
				}
				return strconv.Itoa(i.VLAN)
			})
	}
	return nil
}

// poolGuest returns the guest that runs with a function from a pool; empty: none.
func poolGuest(h *facts.Host, f *facts.VF) string {
	if g := runsWith(h, f); g != nil {
		if i := libvirtInterface(g, f); i != nil && i.Type == "network" {
			return g.Name
		}
	}
	return ""
}

// definitionConflict refuses a value if the definition of a guest with the function has another one. libvirt sets MAC
// and VLAN of an <interface type='hostdev'> at every start of the guest (src/hypervisor/virhostdev.c,
// virHostdevSetNetConfig) and restores the old ones when it ends.
func definitionConflict(h *facts.Host, f *facts.VF, s Set, element, instead string,
	defined func(*facts.Interface) string) error {
	for g := range facts.Each(h.Guests) {
		i := interfaceOf(g, f)
		if i == nil {
			continue
		}
		if says := defined(i); says != "" && says != s.Value {
			return refuse("change it there: "+fmt.Sprintf(instead, g.Name, s.Value), "%s of %s: the definition of "+
				"guest %s says "+element+", and libvirt sets that at each start of the guest", s.Attribute, nameOf(f),
				g.Name, says)
		}
	}
	return nil
}

// interfaceOf returns the <interface type='hostdev'> of a function in a guest, or nil.
func interfaceOf(g *facts.Guest, f *facts.VF) *facts.Interface {
	return facts.Find(g.Interfaces, func(i *facts.Interface) bool {
		return i.Type == "hostdev" && f.PCI != "" && i.Source == f.PCI
	})
}
