package report

import (
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/reach"
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
		if s := stationOf(h, reach.Hop{Device: bridge, Kind: "openvswitch"}); s.Text != want || s.Kind != "OVS" {
			t.Errorf("%s: %q, expected %q", bridge, s.Text, want)
		}
	}
}
