package reach

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"mpps/internal/model/facts"
)

// pod is a namespace with a guest's tap0 and what else is given; its eth0 is the other end of the host's vethN.
func pod(h *facts.Host, id uint64, forward facts.Answer, devices ...facts.Device) *facts.Namespace {
	veth := fmt.Sprintf("veth%d", id)
	eth0 := facts.Device{Name: "eth0", Kind: "veth", Elsewhere: true, Beyond: &facts.Place{Device: veth}}
	h.Namespaces = append(h.Namespaces, facts.Namespace{ID: id, Devices: append(devices, eth0),
		Routing: &facts.Routing{Forward: forward, Addressed: []string{"k6t", "eth0"}, Uplinks: []string{"eth0"}}})
	h.Links = append(h.Links, facts.Link{Name: veth, Kind: "veth", Elsewhere: true})
	return &h.Namespaces[len(h.Namespaces)-1]
}

// masquerade makes the guest one of a pod whose network layer forwards, with NAT, as KubeVirt's masquerade binding.
func masquerade(h *facts.Host) {
	h.Taps, h.Guests[0].Elsewhere, h.Guests[0].Namespace = nil, true, 7
	pod(h, 7, facts.Yes, facts.Device{Name: "tap0", Kind: "tap", Master: "k6t"}, facts.Device{Name: "k6t", Kind: "bridge"})
}

// bridged makes the guest one of a pod whose bridge has both tap and eth0, as KubeVirt's bridge binding.
func bridge(h *facts.Host) {
	masquerade(h)
	h.Namespaces[0].Devices[2].Master = "k6t"
	h.Namespaces[0].Routing = &facts.Routing{Forward: facts.No}
}

// link returns the host's end of the guest's pair.
func link(h *facts.Host) *facts.Link { return &h.Links[0] }

// TestNamespaces walks paths through other network namespaces.
func TestNamespaces(t *testing.T) {
	inBridge := func(h *facts.Host) { // of the host, with a NIC
		h.Bridges = append(h.Bridges, facts.Bridge{Name: "br0", Ports: []string{"eth1", link(h).Name}})
		h.NICs[1].Master, link(h).Master = "br0", "br0"
	}
	route := func(h *facts.Host, device string) {
		h.Routing = &facts.Routing{Forward: facts.Yes, Addressed: []string{device}, Uplinks: []string{"eth1"}}
	}
	for name, c := range map[string]struct {
		edit  func(h *facts.Host)
		kinds []Kind
		nics  string
		hops  string
	}{
		"KubeVirt's bridge binding, a bridge with a NIC": {func(h *facts.Host) {
			bridge(h)
			inBridge(h)
		}, []Kind{Bridged, Namespace}, "eth1", "7:tap0 7:k6t 7:eth0 veth7 br0 eth1"},
		"KubeVirt's masquerade binding, a bridge that the host routes": {func(h *facts.Host) {
			masquerade(h)
			h.Bridges = []facts.Bridge{{Name: "cni0", Ports: []string{"veth7"}}}
			link(h).Master = "cni0"
			route(h, "cni0")
		}, []Kind{Namespace, Routed}, "eth1", "7:tap0 7:k6t 7: 7:eth0 veth7 cni0 : eth1"},
		"and forty other pods there": {func(h *facts.Host) {
			masquerade(h)
			h.Bridges = []facts.Bridge{{Name: "cni0", Ports: []string{"veth7"}}}
			link(h).Master = "cni0"
			route(h, "cni0")
			for id := range uint64(20) {
				pod(h, 100+id, facts.Yes, facts.Device{Name: "k6t", Kind: "bridge"})
				h.Links = append(h.Links, facts.Link{Name: fmt.Sprint("dead", id), Kind: "veth", Elsewhere: true,
					DeadEnd: true, Master: "cni0"})
			}
			for l := range facts.Each(h.Links) {
				l.Master = "cni0"
			}
		}, []Kind{Namespace, Routed}, "eth1", "7:tap0 7:k6t 7: 7:eth0 veth7 cni0 : eth1"},
		"a neighbour that was not read": {func(h *facts.Host) {
			bridge(h)
			h.Bridges = []facts.Bridge{{Name: "cni0", Ports: []string{"veth7", "x"}}}
			link(h).Master = "cni0"
			h.Links = append(h.Links, facts.Link{Name: "x", Kind: "veth", Elsewhere: true, Master: "cni0"})
			route(h, "cni0")
		}, []Kind{Namespace, Routed, Unresolved}, "eth1", ""},
		"Calico: a route to the veth": {func(h *facts.Host) {
			masquerade(h)
			route(h, "veth7")
		}, []Kind{Namespace, Routed}, "eth1", "7:tap0 7:k6t 7: 7:eth0 veth7 : eth1"},
		"Cilium: a program at the veth": {func(h *facts.Host) {
			masquerade(h)
			route(h, "veth7")
			link(h).Programs = []string{"tc"}
		}, []Kind{Namespace, Unresolved}, "", "7:tap0 7:k6t 7: 7:eth0 veth7"},
		"a host that does not forward": {func(h *facts.Host) {
			masquerade(h)
			h.Routing = &facts.Routing{Forward: facts.No}
		}, []Kind{Inner, Namespace}, "", ""},
		"a veth in Open vSwitch": {func(h *facts.Host) {
			bridge(h)
			link(h).Master, h.NICs[1].Master = "ovs-system", "ovs-system"
			h.Links = append(h.Links, facts.Link{Name: "ovs-system", Kind: "openvswitch"},
				facts.Link{Name: "br-int", Kind: "openvswitch"})
			h.OpenVSwitch = &facts.OpenVSwitch{Bridges: []facts.OVSBridge{ovsBridge("br-int", "system",
				facts.OVSInterface{Name: "veth7"}, facts.OVSInterface{Name: "eth1"})}}
		}, []Kind{OpenVSwitch, Namespace}, "eth1", "7:tap0 7:k6t 7:eth0 veth7 br-int eth1"},
		"Multus: a macvlan of a NIC": {func(h *facts.Host) {
			bridge(h)
			h.Namespaces[0].Devices[2] = facts.Device{Name: "net1", Kind: "macvlan", Master: "k6t", Elsewhere: true,
				Beyond: &facts.Place{Device: "eth1"}}
		}, []Kind{Namespace}, "eth1", "7:tap0 7:k6t 7:net1 eth1"},
		"a macvtap of a NIC": {func(h *facts.Host) {
			bridge(h)
			h.Namespaces[0].Devices[0] = facts.Device{Name: "tap0", Kind: "macvtap", Elsewhere: true,
				Beyond: &facts.Place{Device: "eth1"}}
		}, []Kind{Macvtap, Namespace}, "eth1", "7:tap0 eth1"},
		"a VF in the pod": {func(h *facts.Host) {
			bridge(h)
			h.VFs = []facts.VF{{PF: "eth1", PCI: "0000:41:02.0"}}
			h.Namespaces[0].Devices[2] = facts.Device{Name: "net1", Kind: "NIC", PCI: "0000:41:02.0", Master: "k6t"}
		}, []Kind{Namespace}, "eth1", "7:tap0 7:k6t 7:net1"},
		"a NIC in the pod": {func(h *facts.Host) {
			bridge(h)
			h.Namespaces[0].Devices[2] = facts.Device{Name: "net1", Kind: "NIC", PCI: "0000:42:00.0", Master: "k6t"}
		}, []Kind{Namespace}, "", "7:tap0 7:k6t 7:net1"},
		"a pod whose tap was not read": {func(h *facts.Host) {
			bridge(h)
			h.Namespaces[0].Devices, h.Namespaces[0].Cut = nil, true
		}, []Kind{Namespace, Unresolved}, "", ""},
		"a tap of the host with the name of the pod's": {func(h *facts.Host) {
			taps := h.Taps
			bridge(h)
			h.Taps, h.Namespaces[0].Devices = taps, nil
			h.Taps[0].Master = "br0"
			inBridge(h)
		}, []Kind{Namespace, Unresolved}, "", ""},
		"Kata: tc sends the tap's packets out by eth0": {func(h *facts.Host) {
			bridge(h)
			h.Namespaces[0].Devices[0].Master, h.Namespaces[0].Devices[0].Redirects = "", []string{"eth0"}
			inBridge(h)
		}, []Kind{Namespace, Unresolved}, "eth1", "7:tap0 7:eth0 veth7 br0 eth1"},
		"neutron's router between two bridges": {func(h *facts.Host) {
			router(h)
		}, []Kind{OpenVSwitch, Namespace}, "eth1", "tap0 br-int 9:qr-1 9: 9:qg-1 br-ex eth1"},
		"a router with a pair to either bridge": {func(h *facts.Host) {
			h.Taps[0].Master, h.NICs[1].Master = "br0", "br1"
			h.Bridges = []facts.Bridge{{Name: "br0", Ports: []string{"tap0", "a"}}, {Name: "br1", Ports: []string{"b", "eth1"}}}
			h.Links = []facts.Link{{Name: "a", Kind: "veth", Master: "br0", Elsewhere: true},
				{Name: "b", Kind: "veth", Master: "br1", Elsewhere: true}}
			h.Namespaces = []facts.Namespace{{ID: 9, Devices: []facts.Device{
				{Name: "in", Kind: "veth", Elsewhere: true, Beyond: &facts.Place{Device: "a"}},
				{Name: "out", Kind: "veth", Elsewhere: true, Beyond: &facts.Place{Device: "b"}}},
				Routing: &facts.Routing{Forward: facts.Yes, Addressed: []string{"in", "out"}, Uplinks: []string{"out"}}}}
		}, []Kind{Bridged, Namespace}, "eth1", "tap0 br0 a 9:in 9: 9:out b br1 eth1"},
	} {
		m := Of(host(c.edit))
		p := m.Paths[0]
		var hops []string
		for _, hop := range p.Hops {
			one := hop.Device
			switch {
			case hop.Namespace != 0:
				one = fmt.Sprintf("%d:%s", hop.Namespace, one)
			case hop.Kind == Routing:
				one = ":"
			}
			hops = append(hops, one)
		}
		if !slices.Equal(p.Kinds, c.kinds) || strings.Join(p.NICs, " ") != c.nics ||
			c.hops != "" && strings.Join(hops, " ") != c.hops {
			t.Errorf("%s: %v by %v to %v", name, p.Kinds, hops, p.NICs)
		}
		if p.Has(Unresolved) == (m.Unsure() == "") {
			t.Errorf("%s: which NICs carry its packets: %q", name, m.Unsure())
		}
	}
}

// router is a host whose guest's packets leave by a router of neutron's between two bridges of Open vSwitch.
func router(h *facts.Host) {
	h.Taps[0].Master, h.NICs[1].Master = "ovs-system", "ovs-system"
	h.Links = []facts.Link{{Name: "ovs-system", Kind: "openvswitch"}, {Name: "br-int", Kind: "openvswitch"},
		{Name: "br-ex", Kind: "openvswitch"}}
	h.OpenVSwitch = &facts.OpenVSwitch{Bridges: []facts.OVSBridge{
		ovsBridge("br-int", "system", facts.OVSInterface{Name: "tap0"}, facts.OVSInterface{Name: "qr-1", Type: "internal"}),
		ovsBridge("br-ex", "system", facts.OVSInterface{Name: "qg-1", Type: "internal"}, facts.OVSInterface{Name: "eth1"})}}
	h.Namespaces = []facts.Namespace{{ID: 9, Name: "qrouter-1", Devices: []facts.Device{
		{Name: "qr-1", Kind: "openvswitch"}, {Name: "qg-1", Kind: "openvswitch"}},
		Routing: &facts.Routing{Forward: facts.Yes, Addressed: []string{"qr-1", "qg-1"}, Uplinks: []string{"qg-1"}}}}
}

// TestFunctionInNamespace: a PF's own queues do not carry the packets of a VF that a pod has.
func TestFunctionInNamespace(t *testing.T) {
	m := Of(host(func(h *facts.Host) {
		bridge(h)
		h.VFs = []facts.VF{{PF: "eth1", PCI: "0000:41:02.0"}}
		h.Namespaces[0].Devices[2] = facts.Device{Name: "net1", Kind: "NIC", PCI: "0000:41:02.0", Master: "k6t"}
	}))
	if m.Carries("eth1") != facts.No || !m.PassesFunctions("eth1") {
		t.Errorf("eth1 carries %q, passes functions %v", m.Carries("eth1"), m.PassesFunctions("eth1"))
	}
}
