package reach

import (
	"slices"
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// host returns a host with NICs eth0 and eth1 that forwards nothing, and a running guest with a NIC on tap0.
func host(edit func(h *facts.Host)) *facts.Host {
	h := &facts.Host{
		NICs: []facts.NIC{{Name: "eth0", Up: true, Management: "default route"}, {Name: "eth1", Up: true}},
		Taps: []facts.Tap{{Name: "tap0", Type: "tap"}},
		Guests: []facts.Guest{{Name: "vm1", State: "running",
			Interfaces: []facts.Interface{{MAC: "m", Type: "bridge", Tap: "tap0"}}}},
		Routing: &facts.Routing{Forward: facts.No},
	}
	edit(h)
	return h
}

// TestPaths walks the paths of hosts that exist.
func TestPaths(t *testing.T) {
	for name, c := range map[string]struct {
		edit  func(h *facts.Host)
		kinds []Kind
		nics  string
		hops  string
	}{
		"bridge": {func(h *facts.Host) {
			h.Taps[0].Master, h.NICs[1].Master = "br0", "br0"
			h.Bridges = []facts.Bridge{{Name: "br0", Ports: []string{"eth1", "tap0"}}}
		}, []Kind{Bridged}, "eth1", "tap0 br0 eth1"},
		"bridge with the host's address and a container beside the guest": {func(h *facts.Host) {
			h.Taps[0].Master, h.NICs[1].Master = "br0", "br0"
			h.Bridges = []facts.Bridge{{Name: "br0", Ports: []string{"eth1", "tap0", "veth0"}}}
			h.Links = []facts.Link{{Name: "veth0", Kind: "veth", Master: "br0", Elsewhere: true}}
			h.Routing = &facts.Routing{Forward: facts.Yes, Addressed: []string{"br0"}, Uplinks: []string{"br0"}}
		}, []Kind{Bridged}, "eth1", "tap0 br0 eth1"},
		"Proxmox's firewall bridge": {func(h *facts.Host) {
			h.Taps[0].Master, h.NICs[1].Master = "fwbr100i0", "vmbr0"
			h.Bridges = []facts.Bridge{{Name: "fwbr100i0", Ports: []string{"tap0", "fwln100i0"}},
				{Name: "vmbr0", Ports: []string{"eth1", "fwpr100p0"}}}
			h.Links = []facts.Link{{Name: "fwln100i0", Kind: "veth", Master: "fwbr100i0", Peer: "fwpr100p0"},
				{Name: "fwpr100p0", Kind: "veth", Master: "vmbr0", Peer: "fwln100i0"}}
		}, []Kind{Bridged}, "eth1", "tap0 fwbr100i0 fwln100i0 fwpr100p0 vmbr0 eth1"},
		"two bridges with two links, of which one is a spare": {func(h *facts.Host) {
			h.Taps[0].Master, h.NICs[1].Master = "br0", "br1"
			h.Bridges = []facts.Bridge{{Name: "br0", Ports: []string{"tap0", "v0", "v2"}},
				{Name: "br1", Ports: []string{"v1", "eth1", "v3"}}}
			h.Links = []facts.Link{{Name: "v0", Kind: "veth", Master: "br0", Peer: "v1"},
				{Name: "v1", Kind: "veth", Master: "br1", Peer: "v0"},
				{Name: "v2", Kind: "veth", Master: "br0", Peer: "v3"},
				{Name: "v3", Kind: "veth", Master: "br1", Peer: "v2"}}
		}, []Kind{Bridged}, "eth1", "tap0 br0 v0 v1 v2 v3 br1 eth1"},
		"a veth with both ends in the guest's bridge": {func(h *facts.Host) {
			h.Taps[0].Master, h.NICs[1].Master = "br0", "br0"
			h.Bridges = []facts.Bridge{{Name: "br0", Ports: []string{"eth1", "tap0", "v0", "v1"}}}
			h.Links = []facts.Link{{Name: "v0", Kind: "veth", Master: "br0", Peer: "v1"},
				{Name: "v1", Kind: "veth", Master: "br0", Peer: "v0"}}
		}, []Kind{Bridged}, "eth1", "tap0 br0 eth1"},
		"a tap that tc redirects to a pod's veth, as Kata does": {func(h *facts.Host) {
			h.Taps[0].Redirects = []string{"eth9"}
			h.Links = []facts.Link{{Name: "eth9", Kind: "veth", Elsewhere: true}}
			h.Routing = &facts.Routing{Forward: facts.Yes, Addressed: []string{"eth9"}, Uplinks: []string{"eth9"}}
		}, []Kind{Namespace, Unresolved}, "", "tap0 eth9"},
		"a port of a bridge that has representors as ports too": {func(h *facts.Host) {
			h.Taps[0].Master, h.NICs[1].Master = "br0", "br0"
			h.Bridges = []facts.Bridge{{Name: "br0", Ports: []string{"tap0", "eth1", "rep0"}}}
			h.NICs = append(h.NICs, facts.NIC{Name: "rep0", SwitchID: "a", PortName: "pf0vf0", Master: "br0"})
		}, []Kind{Bridged}, "eth1", "tap0 br0 eth1"},
		"a tap that tc redirects to a NIC": {func(h *facts.Host) {
			h.Taps[0].Redirects = []string{"eth1"}
		}, []Kind{Unresolved}, "eth1", "tap0 eth1"},
		"a port of a bridge that tc redirects to a NIC, but maybe not all of it": {func(h *facts.Host) {
			h.Taps[0].Master, h.NICs[0].Master, h.Taps[0].Redirects = "br0", "br0", []string{"eth1"}
			h.Bridges = []facts.Bridge{{Name: "br0", Ports: []string{"tap0", "eth0"}}}
		}, []Kind{Unresolved}, "eth0 eth1", "tap0 eth1 br0 eth0"},
		"a port of a bridge that an ifb polices": {func(h *facts.Host) {
			h.Taps[0].Master, h.NICs[1].Master, h.Taps[0].Redirects = "br0", "br0", []string{"ifb0"}
			h.Bridges = []facts.Bridge{{Name: "br0", Ports: []string{"tap0", "eth1"}}}
			h.Links = []facts.Link{{Name: "ifb0", Kind: "ifb"}}
		}, []Kind{Bridged}, "eth1", "tap0 ifb0 br0 eth1"},
		"a tap that an ifb polices, and the host routes": {func(h *facts.Host) {
			h.Taps[0].Redirects = []string{"ifb0"}
			h.Links = []facts.Link{{Name: "ifb0", Kind: "ifb"}}
			h.Routing = &facts.Routing{Forward: facts.Yes, Uplinks: []string{"eth0"}}
		}, []Kind{Routed}, "eth0", "tap0 ifb0  eth0"},
		"a tap that a BPF program sees, and the host may route": {func(h *facts.Host) {
			h.Taps[0].Classifiers = []string{"bpf"}
			h.Routing = &facts.Routing{Forward: facts.Yes, Uplinks: []string{"eth0"}}
		}, []Kind{Unresolved}, "", "tap0"},
		"a tap that an XDP program sees, and the host may route": {func(h *facts.Host) {
			h.Taps[0].XDP = true
			h.Routing = &facts.Routing{Forward: facts.Yes, Uplinks: []string{"eth0"}}
		}, []Kind{Unresolved}, "", "tap0"},
		"a port of a bridge that BPF programs see": {func(h *facts.Host) {
			h.Taps[0].Master, h.NICs[1].Master = "br0", "br0"
			h.Taps[0].XDP, h.Taps[0].Classifiers = true, []string{"bpf"}
			h.Bridges = []facts.Bridge{{Name: "br0", Ports: []string{"tap0", "eth1"}}}
		}, []Kind{Bridged}, "eth1", "tap0 br0 eth1"},
		"a tap in a VRF that the host routes": {func(h *facts.Host) {
			h.Taps[0].Master = "vrf-red"
			h.Links = []facts.Link{{Name: "vrf-red", Kind: "vrf"}}
			h.Routing = &facts.Routing{Forward: facts.Yes, Uplinks: []string{"eth0"}}
		}, []Kind{Routed}, "eth0", "tap0  eth0"},
		"a pair to a bridge that the host routes": {func(h *facts.Host) {
			twoBridges(h)
			h.Routing = &facts.Routing{Forward: facts.Yes, Addressed: []string{"br1"}, Uplinks: []string{"eth0"}}
		}, []Kind{Routed}, "eth0", "tap0 br0 v0 v1 br1  eth0"},
		"pairs over two bridges to one that the host routes": {func(h *facts.Host) {
			twoBridges(h)
			h.Bridges = append(h.Bridges, facts.Bridge{Name: "br2", Ports: []string{"v3"}})
			h.Bridges[1].Ports = append(h.Bridges[1].Ports, "v2")
			h.Links = append(h.Links, facts.Link{Name: "v2", Kind: "veth", Master: "br1", Peer: "v3"},
				facts.Link{Name: "v3", Kind: "veth", Master: "br2", Peer: "v2"})
			h.Routing = &facts.Routing{Forward: facts.Yes, Addressed: []string{"br2"}, Uplinks: []string{"eth0"}}
		}, []Kind{Routed}, "eth0", "tap0 br0 v0 v1 br1 v2 v3 br2  eth0"},
		"a pair to a bridge that the host has an address on and forwards nothing of": {func(h *facts.Host) {
			twoBridges(h)
			h.Routing = &facts.Routing{Forward: facts.No, Addressed: []string{"br1"}, Uplinks: []string{"eth0"}}
		}, []Kind{Inner}, "", "tap0 br0"},
		"a pair to a bridge that the host routes, beside a NIC": {func(h *facts.Host) {
			twoBridges(h)
			h.NICs[1].Master, h.Bridges[0].Ports = "br0", append(h.Bridges[0].Ports, "eth1")
			h.Routing = &facts.Routing{Forward: facts.Yes, Addressed: []string{"br1"}, Uplinks: []string{"eth0"}}
		}, []Kind{Bridged}, "eth1", "tap0 br0 eth1"},
		"a pair whose other end has the host's address, beside a NIC": {func(h *facts.Host) {
			h.Taps[0].Master, h.NICs[1].Master = "br0", "br0"
			h.Bridges = []facts.Bridge{{Name: "br0", Ports: []string{"tap0", "v0", "eth1"}}}
			h.Links = []facts.Link{{Name: "v0", Kind: "veth", Master: "br0", Peer: "v1"},
				{Name: "v1", Kind: "veth", Peer: "v0"}}
			h.Routing = &facts.Routing{Forward: facts.Yes, Addressed: []string{"v1"}, Uplinks: []string{"eth0"}}
		}, []Kind{Bridged}, "eth1", "tap0 br0 eth1"},
		"a pair whose other end has no address, at a bridge that the host routes": {func(h *facts.Host) {
			h.Taps[0].Master = "br0"
			h.Bridges = []facts.Bridge{{Name: "br0", Ports: []string{"tap0", "v0"}}}
			h.Links = []facts.Link{{Name: "v0", Kind: "veth", Master: "br0", Peer: "v1"},
				{Name: "v1", Kind: "veth", Peer: "v0"}}
			h.Routing = &facts.Routing{Forward: facts.Yes, Addressed: []string{"br0"}, Uplinks: []string{"eth0"}}
		}, []Kind{Routed}, "eth0", "tap0 br0  eth0"},
		"a pair whose other end has the host's address": {func(h *facts.Host) {
			h.Taps[0].Master = "br0"
			h.Bridges = []facts.Bridge{{Name: "br0", Ports: []string{"tap0", "v0"}}}
			h.Links = []facts.Link{{Name: "v0", Kind: "veth", Master: "br0", Peer: "v1"},
				{Name: "v1", Kind: "veth", Peer: "v0"}}
			h.Routing = &facts.Routing{Forward: facts.Yes, Addressed: []string{"v1"}, Uplinks: []string{"eth0"}}
		}, []Kind{Routed}, "eth0", "tap0 br0 v0 v1  eth0"},
		"an isolated network that a VPN has a tap in": {func(h *facts.Host) {
			h.Taps[0].Master = "br0"
			h.Taps = append(h.Taps, facts.Tap{Name: "vpn0", Type: "tap", Master: "br0", Up: true})
			h.Bridges = []facts.Bridge{{Name: "br0", Ports: []string{"tap0", "vpn0"}}}
		}, []Kind{Unresolved}, "", "tap0 br0"},
		"an isolated network of two guests, with a tap that is left over": {func(h *facts.Host) {
			h.Taps[0].Master, h.Taps[0].Up = "br0", true
			h.Taps = append(h.Taps, facts.Tap{Name: "tap1", Type: "tap", Master: "br0", Up: true},
				facts.Tap{Name: "tap2", Type: "tap", Master: "br0"})
			h.Guests = append(h.Guests, facts.Guest{Name: "vm2", State: "running",
				Interfaces: []facts.Interface{{MAC: "n", Type: "bridge", Tap: "tap1"}}})
			h.Bridges = []facts.Bridge{{Name: "br0", Ports: []string{"tap0", "tap1", "tap2"}}}
		}, []Kind{Inner}, "", "tap0 br0"},
		"ipvtap": {func(h *facts.Host) {
			h.Taps, h.Links = nil, []facts.Link{{Name: "tap0", Kind: "ipvtap", Lower: "eth1"}}
		}, []Kind{Macvtap}, "eth1", "tap0 eth1"},
		"VLAN on a bond of two": {func(h *facts.Host) {
			h.Taps[0].Master, h.NICs[0].Master, h.NICs[1].Master = "br5", "bond0", "bond0"
			h.Bridges = []facts.Bridge{{Name: "br5", Ports: []string{"bond0.5", "tap0"}}}
			h.Tunnels = []facts.Tunnel{{Name: "bond0", Type: "bond", Lower: "eth0,eth1"},
				{Name: "bond0.5", Type: "vlan", Lower: "bond0", Master: "br5"}}
		}, []Kind{Bridged}, "eth0 eth1", ""},
		"team": {func(h *facts.Host) {
			h.Taps[0].Master, h.NICs[1].Master = "br0", "team0"
			h.Bridges = []facts.Bridge{{Name: "br0", Ports: []string{"team0", "tap0"}}}
			h.Links = []facts.Link{{Name: "team0", Kind: "team", Master: "br0"}}
		}, []Kind{Bridged}, "eth1", ""},
		"NAT network of libvirt": {func(h *facts.Host) {
			h.Taps[0].Master, h.Guests[0].Interfaces[0].Type = "virbr0", "network"
			h.Bridges = []facts.Bridge{{Name: "virbr0", Ports: []string{"tap0"}}}
			h.Routing = &facts.Routing{Forward: facts.Yes, Addressed: []string{"virbr0", "eth0"},
				Uplinks: []string{"eth0"}}
		}, []Kind{Routed}, "eth0", "tap0 virbr0  eth0"},
		"routed by its own tap, as Calico does": {func(h *facts.Host) {
			h.Routing = &facts.Routing{Forward: facts.Yes, Uplinks: []string{"eth0"}}
		}, []Kind{Routed}, "eth0", ""},
		"isolated network": {func(h *facts.Host) {
			h.Taps[0].Master = "virbr1"
			h.Bridges = []facts.Bridge{{Name: "virbr1", Ports: []string{"tap0"}}}
			h.Routing = &facts.Routing{Forward: facts.Yes, Uplinks: []string{"eth0"}}
		}, []Kind{Inner}, "", ""},
		"a bridge that leads nowhere, in a snapshot without routes": {func(h *facts.Host) {
			h.Taps[0].Master = "virbr0"
			h.Bridges = []facts.Bridge{{Name: "virbr0", Ports: []string{"tap0"}}}
			h.Routing = nil
		}, []Kind{Unresolved}, "", ""},
		"EVPN: VXLAN without dev": {func(h *facts.Host) {
			h.Taps[0].Master = "br100"
			h.Bridges = []facts.Bridge{{Name: "br100", Ports: []string{"vxlan100", "tap0"}}}
			h.Tunnels = []facts.Tunnel{{Name: "vxlan100", Type: "vxlan", Master: "br100",
				Underlay: []string{"eth0", "eth1"}}}
		}, []Kind{Bridged}, "eth0 eth1", ""},
		"VXLAN of which no route is known": {func(h *facts.Host) {
			h.Taps[0].Master = "br100"
			h.Bridges = []facts.Bridge{{Name: "br100", Ports: []string{"vxlan100", "tap0"}}}
			h.Tunnels = []facts.Tunnel{{Name: "vxlan100", Type: "vxlan", Master: "br100"}}
		}, []Kind{Unresolved}, "", ""},
		"Open vSwitch": {func(h *facts.Host) {
			h.Taps[0].Master, h.NICs[1].Master = "ovs-system", "ovs-system"
			h.Links = []facts.Link{{Name: "ovs-system", Kind: "openvswitch"}, {Name: "br-ex", Kind: "openvswitch"}}
		}, []Kind{OpenVSwitch}, "eth1", "tap0 ovs-system eth1"},
		"hybrid plug of nova": {func(h *facts.Host) {
			h.Taps[0].Master, h.NICs[1].Master = "qbr1", "ovs-system"
			h.Bridges = []facts.Bridge{{Name: "qbr1", Ports: []string{"tap0", "qvb1"}}}
			h.Links = []facts.Link{{Name: "ovs-system", Kind: "openvswitch"},
				{Name: "qvb1", Kind: "veth", Master: "qbr1", Peer: "qvo1"},
				{Name: "qvo1", Kind: "veth", Master: "ovs-system", Peer: "qvb1"}}
		}, []Kind{OpenVSwitch}, "eth1", "tap0 qbr1 qvb1 qvo1 ovs-system eth1"},
		"OVN: Geneve below an internal port": {func(h *facts.Host) {
			h.Taps[0].Master, h.NICs[1].Master = "ovs-system", "ovs-system"
			h.Links = []facts.Link{{Name: "ovs-system", Kind: "openvswitch"}, {Name: "br-ex", Kind: "openvswitch"}}
			h.Tunnels = []facts.Tunnel{{Name: "genev_sys_6081", Type: "geneve", Master: "ovs-system", External: true,
				Underlay: []string{"br-ex"}}}
		}, []Kind{OpenVSwitch}, "eth1", ""},
		"macvtap on a VLAN": {func(h *facts.Host) {
			h.Taps[0] = facts.Tap{Name: "tap0", Type: "macvtap", Lower: "eth1.7", Mode: "bridge"}
			h.Tunnels = []facts.Tunnel{{Name: "eth1.7", Type: "vlan", Lower: "eth1"}}
		}, []Kind{Macvtap}, "eth1", "tap0 eth1.7 eth1"},
		"macvtap of a definition": {func(h *facts.Host) {
			h.Guests[0].State, h.Taps = "shut off", nil
			h.Guests[0].Interfaces = []facts.Interface{{MAC: "m", Type: "direct", Source: "eth1", Mode: "bridge"}}
		}, []Kind{Macvtap}, "eth1", ""},
		"passt": {func(h *facts.Host) {
			h.Guests[0].Interfaces = []facts.Interface{{MAC: "m", Type: "user", Backend: "passt"}}
		}, []Kind{UserMode}, "", ""},
		"a pod": {func(h *facts.Host) { h.Guests[0].Elsewhere, h.Taps = true, nil }, []Kind{Namespace, Unresolved}, "", ""},
		"a bridge whose only way out is a router's namespace": {func(h *facts.Host) {
			h.Taps[0].Master = "br0"
			h.Bridges = []facts.Bridge{{Name: "br0", Ports: []string{"tap0", "veth0"}}}
			h.Links = []facts.Link{{Name: "veth0", Kind: "veth", Master: "br0", Elsewhere: true}}
		}, []Kind{Namespace, Unresolved}, "", ""},
		"vhost-user": {func(h *facts.Host) {
			h.Guests[0].Interfaces = []facts.Interface{{MAC: "m", Type: "vhostuser"}}
		}, []Kind{PolledUnseen}, "", ""},
		"a VLAN whose device is in another namespace": {func(h *facts.Host) {
			h.Taps[0].Master = "br0"
			h.Bridges = []facts.Bridge{{Name: "br0", Ports: []string{"tap0", "up.5"}}}
			h.Tunnels = []facts.Tunnel{{Name: "up.5", Type: "vlan", Master: "br0", Elsewhere: true}}
		}, []Kind{Namespace, Unresolved}, "", ""},
		"a macvtap whose device is in another namespace": {func(h *facts.Host) {
			h.Taps[0] = facts.Tap{Name: "tap0", Type: "macvtap", Elsewhere: true}
		}, []Kind{Namespace, Unresolved}, "", ""},
		"a port of a kind that nobody here has heard of": {func(h *facts.Host) {
			h.Taps[0].Master = "br0"
			h.Bridges = []facts.Bridge{{Name: "br0", Ports: []string{"tap0", "new0"}}}
			h.Links = []facts.Link{{Name: "new0", Kind: "brandnew", Master: "br0"}}
		}, []Kind{Unresolved}, "", ""},
		"NAT by WireGuard and by a NIC": {func(h *facts.Host) {
			h.Taps[0].Master = "virbr0"
			h.Bridges = []facts.Bridge{{Name: "virbr0", Ports: []string{"tap0"}}}
			h.Links = []facts.Link{{Name: "wg0", Kind: "wireguard"}}
			h.Routing = &facts.Routing{Forward: facts.Yes, Addressed: []string{"virbr0"}, Uplinks: []string{"eth0", "wg0"}}
		}, []Kind{Routed, Unresolved}, "eth0", ""},
		"GRE of layer 3 by a NIC": {func(h *facts.Host) {
			h.Taps[0].Master = "virbr0"
			h.Bridges = []facts.Bridge{{Name: "virbr0", Ports: []string{"tap0"}}}
			h.Links = []facts.Link{{Name: "gre1", Kind: "gre", Underlay: []string{"eth1"}}}
			h.Routing = &facts.Routing{Forward: facts.Yes, Addressed: []string{"virbr0"}, Uplinks: []string{"gre1"}}
		}, []Kind{Routed}, "eth1", ""},
		"a tap of Open vSwitch's datapath in a process": {func(h *facts.Host) {
			h.Guests[0].Interfaces[0].VirtualPort = "openvswitch"
		}, []Kind{Unresolved}, "", ""},
		"bridges of Open vSwitch with a patch and a tunnel": {func(h *facts.Host) {
			h.Taps[0].Master, h.NICs[0].Master = "ovs-system", "ovs-system"
			h.Tunnels = []facts.Tunnel{{Name: "vxlan_sys_4789", Type: "vxlan", Master: "ovs-system", External: true,
				Underlay: []string{"eth1"}}}
			h.Links = []facts.Link{{Name: "ovs-system", Kind: "openvswitch"}, {Name: "br-int", Kind: "openvswitch"},
				{Name: "br-tun", Kind: "openvswitch"}, {Name: "br-ex", Kind: "openvswitch"}}
			h.OpenVSwitch = &facts.OpenVSwitch{Bridges: []facts.OVSBridge{
				ovsBridge("br-int", "system", facts.OVSInterface{Name: "tap0"}, patch("pt", "pi")),
				ovsBridge("br-tun", "system", patch("pi", "pt"), facts.OVSInterface{Name: "vx0", Type: "vxlan"}),
				ovsBridge("br-ex", "system", facts.OVSInterface{Name: "eth0"})}}
		}, []Kind{OpenVSwitch}, "eth1", "tap0 br-int br-tun vxlan_sys_4789 eth1"},
		"a bond of Open vSwitch": {func(h *facts.Host) {
			h.Taps[0].Master, h.NICs[0].Master, h.NICs[1].Master = "ovs-system", "ovs-system", "ovs-system"
			h.Links = []facts.Link{{Name: "ovs-system", Kind: "openvswitch"}, {Name: "br0", Kind: "openvswitch"}}
			b := ovsBridge("br0", "system", facts.OVSInterface{Name: "tap0"})
			b.Ports = append(b.Ports, facts.OVSPort{Name: "bond0", BondMode: "balance-slb",
				Interfaces: []facts.OVSInterface{{Name: "eth0"}, {Name: "eth1"}}})
			h.OpenVSwitch = &facts.OpenVSwitch{Bridges: []facts.OVSBridge{b}}
		}, []Kind{OpenVSwitch}, "eth0 eth1", "tap0 br0 eth0 eth1"},
		"a tap on Open vSwitch's polling datapath": {func(h *facts.Host) {
			h.Guests[0].Interfaces[0].VirtualPort = "openvswitch"
			h.Taps[0].Master = "br0"
			h.OpenVSwitch = &facts.OpenVSwitch{Bridges: []facts.OVSBridge{
				ovsBridge("br0", facts.UserDatapath, facts.OVSInterface{Name: "tap0"})}}
		}, []Kind{PolledUnseen}, "", "tap0 br0"},
		"a bridge of Open vSwitch with nothing but guests": {func(h *facts.Host) {
			h.Taps[0].Master = "ovs-system"
			h.Routing = &facts.Routing{Forward: facts.Yes}
			h.OpenVSwitch = &facts.OpenVSwitch{Bridges: []facts.OVSBridge{
				ovsBridge("br0", "system", facts.OVSInterface{Name: "tap0"})}}
		}, []Kind{Inner, OpenVSwitch}, "", "tap0 br0"},
		"a bridge of Open vSwitch whose own port the host routes": {func(h *facts.Host) {
			h.Taps[0].Master = "ovs-system"
			h.Routing = &facts.Routing{Forward: facts.Yes, Addressed: []string{"br0"}, Uplinks: []string{"eth1"}}
			h.OpenVSwitch = &facts.OpenVSwitch{Bridges: []facts.OVSBridge{
				ovsBridge("br0", "system", facts.OVSInterface{Name: "tap0"})}}
		}, []Kind{OpenVSwitch, Routed}, "eth1", "tap0 br0  eth1"},
		"a bridge of another guest at Open vSwitch": {func(h *facts.Host) {
			h.Taps[0].Master, h.NICs[1].Master = "ovs-system", "ovs-system"
			h.Taps = append(h.Taps, facts.Tap{Name: "tap1", Type: "tap", Master: "qbr2"})
			h.Bridges = []facts.Bridge{{Name: "qbr2", Ports: []string{"qvb2", "tap1"}}}
			h.Links = []facts.Link{{Name: "ovs-system", Kind: "openvswitch"}, {Name: "br0", Kind: "openvswitch"},
				{Name: "qvb2", Kind: "veth", Master: "qbr2", Peer: "qvo2"},
				{Name: "qvo2", Kind: "veth", Master: "ovs-system", Peer: "qvb2"}}
			h.OpenVSwitch = &facts.OpenVSwitch{Bridges: []facts.OVSBridge{ovsBridge("br0", "system",
				facts.OVSInterface{Name: "qvo2"}, facts.OVSInterface{Name: "tap0"}, facts.OVSInterface{Name: "eth1"})}}
		}, []Kind{OpenVSwitch}, "eth1", "tap0 br0 eth1"},
		"a guest that is off, on a fake bridge of Open vSwitch": {func(h *facts.Host) {
			h.Guests[0].Interfaces[0].Tap, h.Guests[0].Interfaces[0].Source = "", "v20"
			h.NICs[1].Master = "ovs-system"
			h.Links = []facts.Link{{Name: "ovs-system", Kind: "openvswitch"}, {Name: "br0", Kind: "openvswitch"},
				{Name: "v20", Kind: "openvswitch"}}
			b := ovsBridge("br0", "system", facts.OVSInterface{Name: "eth1"})
			b.Ports = append(b.Ports, facts.OVSPort{Name: "v20", Tag: 20, Fake: true,
				Interfaces: []facts.OVSInterface{{Name: "v20", Type: "internal"}}})
			h.OpenVSwitch = &facts.OpenVSwitch{Bridges: []facts.OVSBridge{b}}
		}, []Kind{OpenVSwitch}, "eth1", "v20 br0 eth1"},
		"a port of Open vSwitch that its database does not have": {func(h *facts.Host) {
			h.Taps[0].Master, h.NICs[1].Master = "ovs-system", "ovs-system"
			h.Links = []facts.Link{{Name: "ovs-system", Kind: "openvswitch"}}
			h.OpenVSwitch = &facts.OpenVSwitch{Bridges: []facts.OVSBridge{
				ovsBridge("br0", "system", facts.OVSInterface{Name: "eth1"})}}
		}, []Kind{OpenVSwitch, Unresolved}, "", "tap0 ovs-system"},
		"a representor is not the wire": {func(h *facts.Host) {
			h.NICs[1].PortName, h.NICs[1].SwitchID = "pf0vf3", "a1"
			h.Taps[0].Master, h.NICs[1].Master = "br0", "br0"
			h.Bridges = []facts.Bridge{{Name: "br0", Ports: []string{"eth1", "tap0"}}}
		}, []Kind{Inner}, "", ""},
	} {
		p := Of(host(c.edit)).Paths[0]
		hops := facts.Map(p.Hops, func(hop Hop) string { return hop.Device })
		if !slices.Equal(p.Kinds, c.kinds) || strings.Join(p.NICs, " ") != c.nics ||
			c.hops != "" && strings.Join(hops, " ") != c.hops {
			t.Errorf("%s: %v by %v to %v", name, p.Kinds, hops, p.NICs)
		}
	}
}

// twoBridges puts the guest into a bridge that a pair connects to another one.
func twoBridges(h *facts.Host) {
	h.Taps[0].Master = "br0"
	h.Bridges = []facts.Bridge{{Name: "br0", Ports: []string{"tap0", "v0"}}, {Name: "br1", Ports: []string{"v1"}}}
	h.Links = []facts.Link{{Name: "v0", Kind: "veth", Master: "br0", Peer: "v1"},
		{Name: "v1", Kind: "veth", Master: "br1", Peer: "v0"}}
}

func ovsBridge(name, datapath string, interfaces ...facts.OVSInterface) facts.OVSBridge {
	b := facts.OVSBridge{Name: name, Datapath: datapath}
	for _, i := range append(interfaces, facts.OVSInterface{Name: name, Type: "internal"}) {
		b.Ports = append(b.Ports, facts.OVSPort{Name: i.Name, Interfaces: []facts.OVSInterface{i}})
	}
	return b
}

func patch(name, peer string) facts.OVSInterface {
	return facts.OVSInterface{Name: name, Type: "patch", Options: map[string]string{"peer": peer}}
}

// TestCarries asks whether a NIC that is on no path carries guests' packets.
func TestCarries(t *testing.T) {
	bridge := func(h *facts.Host) {
		h.Taps[0].Master, h.NICs[1].Master = "br0", "br0"
		h.Bridges = []facts.Bridge{{Name: "br0", Ports: []string{"eth1", "tap0"}}}
	}
	for name, c := range map[string]struct {
		edit func(h *facts.Host)
		eth0 facts.Answer
	}{
		"the only path is known": {bridge, facts.No},
		"another guest is a pod's": {func(h *facts.Host) {
			bridge(h)
			h.Guests = append(h.Guests, facts.Guest{Name: "vm2", State: "running", Elsewhere: true,
				Interfaces: []facts.Interface{{MAC: "n"}}})
		}, ""},
		"its bridge also leads into a tunnel whose way is not known": {func(h *facts.Host) {
			bridge(h)
			h.Bridges[0].Ports = append(h.Bridges[0].Ports, "vxlan1")
			h.Tunnels = []facts.Tunnel{{Name: "vxlan1", Type: "vxlan", Master: "br0"}}
		}, ""},
		"another guest has passt": {func(h *facts.Host) {
			bridge(h)
			h.Guests = append(h.Guests, facts.Guest{Name: "vm2", State: "running",
				Interfaces: []facts.Interface{{MAC: "n", Type: "user", Backend: "passt"}}})
		}, ""},
		"libvirt's guests are not to be seen": {func(h *facts.Host) {
			bridge(h)
			h.Unseen = []facts.Unseen{facts.GuestsUnseen("virsh is not installed")}
		}, ""},
		"a guest that is off has a network of libvirt": {func(h *facts.Host) {
			bridge(h)
			h.Guests = append(h.Guests, facts.Guest{Name: "vm2", State: "shut off",
				Interfaces: []facts.Interface{{MAC: "n", Type: "network", Source: "default"}}})
		}, ""},
	} {
		if m := Of(host(c.edit)); m.Carries("eth0") != c.eth0 || m.Carries("eth1") != facts.Yes {
			t.Errorf("%s: eth0 %q, eth1 %q", name, m.Carries("eth0"), m.Carries("eth1"))
		}
	}
	m := Of(host(func(h *facts.Host) { h.Guests = nil }))
	must.Hold(t, m.Carries("eth0") == facts.No && m.Carries("eth1") == facts.Yes,
		"without guests the NIC that is not the operator's way in may get to carry them")
}

// TestDeclined asks which devices are on paths that are not judged.
func TestDeclined(t *testing.T) {
	m := Of(host(func(h *facts.Host) {
		h.Taps[0].Master, h.NICs[0].Master = "br-dpdk", "br-dpdk"
		h.OpenVSwitch = &facts.OpenVSwitch{Bridges: []facts.OVSBridge{{Name: "br-dpdk", Datapath: facts.UserDatapath,
			Ports: []facts.OVSPort{{Name: "tap0", Interfaces: []facts.OVSInterface{{Name: "tap0"}}},
				{Name: "eth0", Interfaces: []facts.OVSInterface{{Name: "eth0"}}}}}}}
	}))
	for _, device := range []string{"tap0", "br-dpdk", "eth0"} {
		if !slices.Equal(m.Declined(device), []Kind{PolledUnseen}) {
			t.Errorf("%s: %v", device, m.Declined(device))
		}
	}
	must.Hold(t, m.Declined("eth1") == nil && !m.JudgesAny(), "eth1 is on no path, and the only path is not judged")
}
