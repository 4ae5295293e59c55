package sriov

import (
	"crypto/sha256"
	"fmt"
	"net"
	"strings"

	"mpps/internal/model/facts"
)

// setMAC chooses the MAC address: the requested one, or one in libvirt's range (52:54:00) derived from the guest's
// UUID. A guest that gets a function again thus gets the same address, and its system the same interface name.
func (g *Gift) setMAC(h *facts.Host) error {
	if g.request.MAC == "" {
		for n := 0; ; n++ {
			sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d", g.UUID, g.Guest, n))
			g.MAC = fmt.Sprintf("52:54:00:%02x:%02x:%02x", sum[0], sum[1], sum[2])
			if MACHolder(h, g.MAC, g.PCI) == "" {
				return nil
			}
		}
	}
	mac, err := net.ParseMAC(g.request.MAC)
	switch {
	case err == nil && len(mac) == 6 && mac[0]&1 != 0:
		return refuse("leave --mac out: one is made up", "%s is the address of a group: expected that of one device, "+
			"such as 52:54:00:00:00:01", mac)
	case err != nil || len(mac) != 6 || facts.NoAddress(mac.String()):
		return refuse("leave --mac out: one is made up", "expected the address of one device, such as "+
			"52:54:00:00:00:01, found %q", g.request.MAC)
	}
	g.MAC = mac.String()
	if who := MACHolder(h, g.MAC, g.PCI); who != "" {
		return refuse("take another, or leave --mac out: one is made up", "MAC address %s is in use: %s has it", g.MAC,
			who)
	}
	if mac[0]&2 == 0 {
		g.note("global-mac", g.MAC+" is in the range of a maker of cards: nobody else on the network may have it",
			"locally administered ones begin with 52:54:00, as those of libvirt")
	}
	return nil
}

// MACHolder returns who on the host has a MAC address, in words; empty: nobody. The function with the PCI address pci
// does not count: it is to get the MAC address.
func MACHolder(h *facts.Host, mac, pci string) string {
	same := func(other string) bool { return strings.EqualFold(other, mac) }
	for g := range facts.Each(h.Guests) {
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
