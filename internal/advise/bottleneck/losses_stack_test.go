package bottleneck

import (
	"strings"
	"testing"

	"mpps/internal/model/facts"
)

// A router drops what does not fit with the device still that of arrival: the share is of what came in by it, not of
// the few ICMP messages that it sends back.
func TestShareOfForwarded(t *testing.T) {
	l := &facts.Load{Seconds: 1, Method: facts.ByTracepoints,
		Devices: []facts.DeviceLoad{{Name: "eth0", Kind: "nic", RxPackets: 30000, TxPackets: 10},
			{Name: "vnet0", Kind: "tap", TxPackets: 20000, RxPackets: 10}},
		Drops: []facts.DropSite{{Reason: "PKT_TOO_BIG", Symbol: "ip_forward", Device: "eth0", Packets: 10000}},
		Stack: []facts.StackLoad{{Counters: map[string]uint64{"Ip.FragFails": 10000}}},
	}
	for _, drops := range [][]facts.DropSite{l.Drops, nil} {
		if l.Drops = drops; drops == nil {
			l.Method = facts.ByCounters
		}
		p := newPath(&facts.Host{}, l)
		if len(p.losses) != 1 || p.losses[0].packets != 10000 || p.losses[0].share < 0.33 || p.losses[0].share > 0.34 {
			t.Errorf("%s: %+v, expected one loss of a third", l.Method, p.losses)
		}
	}
}

// By counters alone nothing tells what a route refuses: the routes themselves are named.
func TestRefusingRoutes(t *testing.T) {
	h := &facts.Host{Routing: &facts.Routing{Refusing: []string{"blackhole 10.1.0.0/16"}}}
	l := &facts.Load{Seconds: 1, Method: facts.ByCounters, Local: []facts.LocalLoad{{}},
		Devices: []facts.DeviceLoad{{Name: "eth0", Kind: "nic", RxPackets: 30000, RxBytes: 3e6},
			{Name: "vnet0", Kind: "tap", TxPackets: 10000, TxBytes: 1e6}}}
	if d := Find(h, l); d.Bottleneck == nil || d.Bottleneck.Kind != Unaccounted ||
		!strings.Contains(d.Bottleneck.Say, h.Routing.Refusing[0]) {
		t.Errorf("found %+v, expected packets that are missing, and the route", d.Bottleneck)
	}
	l.Local[0].Apart = 0.7 // the counters are no closer than that
	if d := Find(h, l); d.Bottleneck != nil {
		t.Errorf("found %+v in counters that were read 0.7 of 1 s apart", d.Bottleneck)
	}
}
