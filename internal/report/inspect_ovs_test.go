package report

import (
	"io"
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/reach"
	"mpps/internal/must"
)

func TestOVSStation(t *testing.T) {
	h := &facts.Host{
		Links: []facts.Link{{Name: "br-int", Kind: "openvswitch"}, {Name: "br-x", Kind: "openvswitch"}},
		OpenVSwitch: &facts.OpenVSwitch{
			Bridges: []facts.OVSBridge{{Name: "br-int", Ports: []facts.OVSPort{
				{Interfaces: []facts.OVSInterface{{Name: "tap0", PolicingRate: 1000}}},
				{Interfaces: []facts.OVSInterface{{Name: "patch-tun", Type: "patch"}}},
				{Interfaces: []facts.OVSInterface{{Name: "eth0"}, {Name: "eth1"}}},
			}}},
			Datapaths: []facts.KernelDatapath{{Name: "ovs-system", Flows: 17, Masks: 1, Missed: 20, Lost: 3}},
		},
	}
	for bridge, want := range map[string]string{
		"br-int": "3 ports, patched by patch-tun, 1 bond, 1 port with a policer, " +
			"datapath ovs-system: 17 flows, 1 mask, 3 of 20 upcalls lost",
		"br-x": "",
	} {
		if s := stationOf(devicesOf(h), reach.Hop{Device: bridge, Kind: "openvswitch"}); s.Text != want || s.Kind != "OVS" {
			t.Errorf("%s: %q, expected %q", bridge, s.Text, want)
		}
	}
}

// TestOVNDrawn: a chassis without guests is drawn with its switch, and its tunnel by the port, not by the device.
func TestOVNDrawn(t *testing.T) {
	port := func(i facts.OVSInterface) facts.OVSPort {
		return facts.OVSPort{Name: i.Name, Interfaces: []facts.OVSInterface{i}}
	}
	h := &facts.Host{
		NICs: []facts.NIC{{Name: "eth0"}, {Name: "eth1", Master: facts.OVSDatapath}},
		Links: []facts.Link{{Name: facts.OVSDatapath, Kind: "openvswitch"}, {Name: "br-int", Kind: "openvswitch"},
			{Name: "br-ex", Kind: "openvswitch"}},
		Tunnels: []facts.Tunnel{{Name: "genev_sys_6081", Type: "geneve", Master: facts.OVSDatapath,
			Underlay: []string{"eth0"}, TxQueues: 1}},
		Stack: map[string]uint64{"nf_conntrack.entries": 12},
		OpenVSwitch: &facts.OpenVSwitch{
			OVN: &facts.OVN{Chassis: "hv1", Bridge: "br-int", EncapType: "geneve", EncapIP: "192.0.2.7", Zones: 3,
				Mappings: map[string]string{"physnet1": "br-ex"}},
			Bridges: []facts.OVSBridge{
				{Name: "br-ex", Ports: []facts.OVSPort{port(facts.OVSInterface{Name: "eth1"})}},
				{Name: "br-int", Ports: []facts.OVSPort{
					port(facts.OVSInterface{Name: "ovn-hv2-0", Type: "geneve",
						Options: map[string]string{"remote_ip": "192.0.2.8", "csum": "true"}}),
					port(facts.OVSInterface{Name: "pod0", IfaceID: true, Installed: true}),
					port(facts.OVSInterface{Name: "pod1", IfaceID: true})}}},
		},
	}
	draw := func() string {
		var text strings.Builder
		out := NewPrinter(&text, io.Discard, Options{})
		must.Do(t, out.View(func(x *Text) { Inspect(x, h, false) }))
		return strings.Join(strings.Fields(text.String()), " ")
	}
	drawn := draw()
	must.Contain(t, drawn, "OVN chassis hv1, geneve from 192.0.2.7; 1 tunnel over eth0; physnet1 by br-ex; 3 conntrack zones; 12 connections",
		"geneve ovn-hv2-0 to 192.0.2.8 with checksum, over eth0, by genev_sys_6081",
		"OVS br-int 3 ports, 1 port without OVN's flows yet", "OVS br-ex 1 port")
	// Whatever has no answer is said to have none.
	h.Tunnels, h.OpenVSwitch.OVN.EncapIP = nil, ""
	if drawn = draw(); !strings.Contains(drawn, "from an unknown address; no tunnel;") {
		t.Error(drawn)
	}
}
