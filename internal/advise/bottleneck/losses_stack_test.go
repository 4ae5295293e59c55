package bottleneck

import (
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
