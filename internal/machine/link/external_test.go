package link

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// TestOnlyWayOut asks where an external tunnel's packets leave on hosts with one way out and with several.
func TestOnlyWayOut(t *testing.T) {
	routing := func(uplinks string, addressed ...string) *facts.Routing {
		return &facts.Routing{Uplinks: strings.Fields(uplinks), Addressed: addressed}
	}
	for name, c := range map[string]struct {
		host facts.Host
		way  string
	}{
		"a NIC": {facts.Host{Routing: routing("eth0", "eth0")}, "eth0"},
		"Cilium beside libvirt": {facts.Host{
			Routing: routing("eth0 cilium_host", "eth0", "cilium_host", "virbr0", "lxc1"),
			Bridges: []facts.Bridge{{Name: "virbr0", Ports: []string{"vnet0"}}},
			Taps:    []facts.Tap{{Name: "vnet0", Type: "tap"}},
			Links: []facts.Link{{Name: "cilium_host", Kind: "veth", Peer: "cilium_net"},
				{Name: "lxc1", Kind: "veth", Elsewhere: true}}}, "eth0"},
		"a bridge over a bond": {facts.Host{Routing: routing("br0", "br0"), Bridges: []facts.Bridge{{Name: "br0",
			Ports: []string{"bond0", "vnet0"}}},
			Tunnels: []facts.Tunnel{{Name: "bond0", Type: "bond", Lower: "eth0,eth1"}},
			Taps:    []facts.Tap{{Name: "vnet0", Type: "tap"}}}, "br0"},
		"a second NIC": {facts.Host{Routing: routing("eth0", "eth0", "eth1")}, ""},
		"WireGuard": {facts.Host{Routing: routing("eth0 wg0"),
			Links: []facts.Link{{Name: "wg0", Kind: "wireguard"}}}, ""},
		"a router in a container": {facts.Host{Routing: routing("eth0 veth0"),
			Links: []facts.Link{{Name: "veth0", Kind: "veth", Elsewhere: true}}}, ""},
		"a tunnel besides": {facts.Host{Routing: routing("eth0 flannel.1"), Tunnels: []facts.Tunnel{{Name: "flannel.1",
			Type: "vxlan", Lower: "eth0"}}}, ""},
		"routes that were not read": {facts.Host{}, ""},
	} {
		h := c.host
		h.Tunnels = append(h.Tunnels, facts.Tunnel{Name: "g", Type: "geneve", External: true},
			facts.Tunnel{Name: "known", Type: "geneve", External: true, Underlay: []string{"eth7"}},
			facts.Tunnel{Name: "plain", Type: "geneve"})
		h.Links = append(h.Links, facts.Link{Name: "gre0", Kind: "gre", External: true})
		addOnlyWay(&h)
		of := h.Tunnels[len(h.Tunnels)-3:]
		must.Hold(t, strings.Join(of[0].Underlay, " ") == c.way && slices.Equal(of[1].Underlay, []string{"eth7"}) &&
			of[2].Underlay == nil && strings.Join(h.Links[len(h.Links)-1].Underlay, " ") == c.way,
			"%s: %v, %v, expected %q", name, of, h.Links, c.way)
	}
}

// TestEncapsulation reads routes that give their packets a remote end.
func TestEncapsulation(t *testing.T) {
	message := func(device uint32, kind uint16, to string) []byte {
		inner, outer := netlink.NewAttributeEncoder(), netlink.NewAttributeEncoder()
		inner.Uint64(1, 7) // LWTUNNEL_IP_ID
		inner.Bytes(encapIPDst, netip.MustParseAddr(to).AsSlice())
		encap := must.Get(inner.Encode())(t)
		outer.Uint32(unix.RTA_OIF, device)
		outer.Bytes(unix.RTA_ENCAP, encap)
		outer.Uint16(unix.RTA_ENCAP_TYPE, kind)
		attributes := must.Get(outer.Encode())(t)
		return append(make([]byte, unix.SizeofRtMsg), attributes...)
	}
	for want, kind := range map[string]uint16{"192.0.2.7": encapIP, "2001:db8::7": encapIP6} {
		if device, to := encapsulation(message(5, kind, want)); device != 5 || to.String() != want {
			t.Errorf("found %s by %d, expected %s", to, device, want)
		}
	}
	if _, to := encapsulation(message(5, 1, "192.0.2.7")); to.IsValid() { // MPLS
		t.Errorf("of another type: found %s", to)
	}
	cut := message(5, encapIP, "192.0.2.7")
	for n := range cut {
		encapsulation(cut[:n]) // no panic
	}
	binary.NativeEndian.PutUint16(cut[unix.SizeofRtMsg:], 3)
	encapsulation(cut)
}
