package sriov

import (
	"crypto/sha256"
	"fmt"
	"net"
	"slices"
	"strings"

	"mpps/internal/model/facts"
)

// setMAC chooses the MAC address: the requested one, or one in libvirt's range (52:54:00) derived from the guest's
// UUID. A guest that gets a function again thus gets the same address, and its system the same interface name.
func (g *Gift) setMAC(h *facts.Host) error {
	f := &facts.VF{PF: g.PF, Index: g.Index, PCI: g.PCI}
	if g.request.MAC == "" {
		for n := 0; ; n++ {
			sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d", g.UUID, g.Guest, n))
			g.MAC = fmt.Sprintf("52:54:00:%02x:%02x:%02x", sum[0], sum[1], sum[2])
			if holder(h, g.MAC, f) == "" {
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
	if who := holder(h, g.MAC, f); who != "" {
		return refuse("take another, or leave --mac out: one is made up", "MAC address %s is in use: %s has it", g.MAC,
			who)
	}
	if mac[0]&2 == 0 {
		g.note("global-mac", g.MAC+" is in the range of a maker of cards: nobody else on the network may have it",
			"locally administered ones begin with 52:54:00, as those of libvirt")
	}
	return nil
}

// holder returns who on the host has a MAC address besides a function, in words; empty: nobody. A guest is named before
// a function, which it may have its address by. Interfaces of the guest
// that has the function do not count: the two halves of a failover pair have the same address.
func holder(h *facts.Host, mac string, f *facts.VF) string {
	same := func(other string) bool { return strings.EqualFold(other, mac) }
	for n := range facts.Each(h.NICs) {
		if same(n.MAC) && n.Name != f.NIC && (f.PCI == "" || n.PCI != f.PCI) {
			return "NIC " + n.Name
		}
	}
	for b := range facts.Each(h.Bridges) {
		if same(b.MAC) {
			return "bridge " + b.Name
		}
	}
	for g := range facts.Each(h.Guests) {
		has := slices.ContainsFunc(g.NICs(), func(i facts.Interface) bool { return same(i.MAC) })
		if has && (f.Guest == "" || g.Name != f.Guest) && interfaceOf(g, f) == nil {
			return "guest " + g.Name
		}
	}
	for _, r := range h.Reservations {
		if same(r.MAC) && (f.PCI == "" || r.PCI != f.PCI) {
			return "guest " + r.Guest + " (reserved)"
		}
	}
	for other := range facts.Each(h.VFs) {
		if same(other.MAC) && (other.PF != f.PF || other.Index != f.Index) {
			return "virtual function " + nameOf(other)
		}
	}
	return ""
}
