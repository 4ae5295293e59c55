package sriov

import (
	"crypto/sha256"
	"fmt"
	"net"
	"strings"

	"mpps/internal/model/facts"
)

// address gives the guest's NIC its MAC address: the one that is asked for, or one in libvirt's range (52:54:00) that
// is made of the guest's UUID, so that a guest that is given a function again has the same, and its system the same
// name for it.
func (g *Gift) address(h *facts.Host) error {
	if g.wish.MAC == "" {
		for n := 0; ; n++ {
			sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d", g.UUID, g.Guest, n))
			g.MAC = fmt.Sprintf("52:54:00:%02x:%02x:%02x", sum[0], sum[1], sum[2])
			if MACUser(h, g.MAC, g.PCI) == "" {
				return nil
			}
		}
	}
	mac, err := net.ParseMAC(g.wish.MAC)
	switch {
	case err == nil && len(mac) == 6 && mac[0]&1 != 0:
		return refuse("leave --mac out: one is made up", "%s is the address of a group: expected that of one device, "+
			"such as 52:54:00:00:00:01", mac)
	case err != nil || len(mac) != 6 || facts.NoAddress(mac.String()):
		return refuse("leave --mac out: one is made up", "expected the address of one device, such as "+
			"52:54:00:00:00:01, found %q", g.wish.MAC)
	}
	g.MAC = mac.String()
	if who := MACUser(h, g.MAC, g.PCI); who != "" {
		return refuse("take another, or leave --mac out: one is made up", "MAC address %s is in use: %s has it", g.MAC,
			who)
	}
	if mac[0]&2 == 0 {
		g.note("global-mac", g.MAC+" is in the range of a maker of cards: nobody else on the network may have it",
			"locally administered ones begin with 52:54:00, as those of libvirt")
	}
	return nil
}

// MACUser says who on a host has a MAC address; empty where nobody does. A function that is to get it, by its PCI
// address, does not count.
func MACUser(h *facts.Host, mac, pci string) string {
	same := func(other string) bool { return strings.EqualFold(other, mac) }
	for i := range h.Guests {
		g := &h.Guests[i]
		for _, nic := range g.NICs() {
			if same(nic.MAC) {
				return "guest " + g.Name
			}
		}
	}
	for _, r := range h.Reservations {
		if same(r.MAC) && (r.PCI != pci || pci == "") {
			return "guest " + r.Guest + " (reserved)"
		}
	}
	for i := range h.VFs {
		if vf := &h.VFs[i]; same(vf.MAC) && vf.PCI != pci {
			return fmt.Sprintf("function %d of %s", vf.Index, vf.PF)
		}
	}
	for i := range h.NICs {
		if n := &h.NICs[i]; same(n.MAC) && !(pci != "" && n.PCI == pci) {
			return n.Name
		}
	}
	for _, b := range h.Bridges {
		if same(b.MAC) {
			return b.Name
		}
	}
	return ""
}
