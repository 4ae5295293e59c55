package bottleneck

import (
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// TestRefused has devices that do not take packets, as they were recorded: the reason that the kernel gives comes
// before the device's own counter of the same packets.
func TestRefused(t *testing.T) {
	t.Parallel()
	in := facts.DeviceLoad{Name: "nic0", Kind: "veth", RxPackets: 60_000, RxBytes: 4e6}
	out := func(kind string, dropped uint64, qdisc ...facts.QdiscLoad) facts.DeviceLoad {
		return facts.DeviceLoad{Name: "out", Kind: kind, Qdisc: qdisc,
			Counters: map[string]uint64{"tx_dropped": dropped}}
	}
	xdp := func(refused, dropped uint64) facts.DeviceLoad {
		d := in
		d.XDP, d.Counters = "theirs", map[string]uint64{"rx_dropped": refused, "rx_queue_0_drops": refused,
			"rx_queue_0_xdp_drops": dropped}
		return d
	}
	fifo := facts.QdiscLoad{Kind: "pfifo_fast", Parent: "root", Packets: 60_000}
	at := func(reason, function string) []facts.DropSite {
		return []facts.DropSite{{Reason: reason, Symbol: function, Device: "out", Packets: 59_900}}
	}
	for name, c := range map[string]struct {
		devices []facts.DeviceLoad
		drops   []facts.DropSite
		kind    Kind
		object  string
		say     string
	}{
		"XDP redirects to a bridge": {[]facts.DeviceLoad{xdp(60_000, 0)}, nil, Dropped, "nic0", "takes no XDP frames"},
		"XDP drops some and redirects the rest in vain": {[]facts.DeviceLoad{xdp(42_000, 18_000), out("veth", 0)}, nil,
			Dropped, "nic0", "takes no XDP frames"},
		"XDP in generic mode redirects in vain": {[]facts.DeviceLoad{in}, []facts.DropSite{{Reason: "XDP",
			Symbol: "do_xdp_generic", Device: "nic0", Packets: 59_900}}, Dropped, "nic0", "could not pass them on"},
		"a tap's filter": {[]facts.DeviceLoad{in, out("tap", 60_000, fifo)}, at("TAP_TXFILTER", "tun_net_xmit"),
			Dropped, "out", "filter"},
		"a tap's full queue": {[]facts.DeviceLoad{in, out("tap", 60_000, fifo)}, at("FULL_RING", "tun_net_xmit"),
			GuestDown, "out", "no packets"},
		"a tap that nobody has open": {[]facts.DeviceLoad{in, out("tap", 60_000, fifo)},
			at("DEV_READY", "tun_net_xmit"), GuestDown, "out", "no packets"},
		"a device that is down": {[]facts.DeviceLoad{in, out("veth", 60_000)}, at("QDISC_DROP", "__dev_queue_xmit"),
			Dropped, "out", "not up"},
		"the other end's MTU": {[]facts.DeviceLoad{in, out("veth", 60_000)}, at("NOT_SPECIFIED", "__dev_forward_skb2"),
			Dropped, "out", "MTU"},
		"a veth without a reason": {[]facts.DeviceLoad{in, out("veth", 60_000)}, nil, DeviceDrops, "out",
			"drops 100 %"},
	} {
		b := Find(&facts.Host{}, &facts.Load{Seconds: 3, Method: facts.ByTracepoints, Devices: c.devices,
			Drops: c.drops, Local: []facts.LocalLoad{{}}}).Bottleneck
		must.Hold(t, b != nil && b.Kind == c.kind && b.Object == c.object && strings.Contains(b.Say, c.say),
			"%s: found %+v, expected %s at %s: %q", name, b, c.kind, c.object, c.say)
	}
}

// TestStuck has a connection whose long segments are lost, and paths as idle on which nothing hangs.
func TestStuck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason, function string
		came, lost       uint64
		named            bool
	}{
		"a bridge port's MTU":  {"NOT_SPECIFIED", "br_dev_queue_push_xmit", 3, 3, true},
		"a router's":           {"PKT_TOO_BIG", "ip_forward", 4, 2, true},
		"one packet":           {"PKT_TOO_BIG", "ip_forward", 1, 1, false},
		"few of many":          {"PKT_TOO_BIG", "ip_forward", 90, 3, false},
		"for another reason":   {"NETFILTER_DROP", "nf_hook_slow", 3, 3, false},
		"what nobody asks for": {"OTHERHOST", "ip_rcv_core", 3, 3, false},
	} {
		b := Find(&facts.Host{}, &facts.Load{Seconds: 3, Method: facts.ByTracepoints, Devices: []facts.DeviceLoad{
			{Name: "nic0", Kind: "nic", RxPackets: c.came, RxBytes: c.came * 1500}}, Drops: []facts.DropSite{
			{Reason: c.reason, Symbol: c.function, Device: "nic0", Packets: c.lost}}}).Bottleneck
		if named := b != nil && b.Kind == Dropped; named != c.named {
			t.Errorf("%s: found %+v, expected an answer: %t", name, b, c.named)
		}
	}
}

// TestPacketSockets has a namespace whose network layer refuses all that comes: it has copies where a packet socket is
// what the namespace is for.
func TestPacketSockets(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		taking []facts.LosingSocket
		kind   Kind
	}{
		"a router":                  {nil, NotForwarded},
		"a capture on a bridge":     {[]facts.LosingSocket{{Netns: "bridge", Drops: 30_000}}, NotForwarded},
		"a socket of elsewhere":     {[]facts.LosingSocket{{Netns: "x", Drops: 40_000}}, NotForwarded},
		"a socket that is not read": {[]facts.LosingSocket{{Netns: "end", Drops: 40_000, PID: 7, Comm: "ids"}}, Socket},
		"a socket that takes all":   {[]facts.LosingSocket{{Netns: "end"}}, ""},
	} {
		d := Find(&facts.Host{}, &facts.Load{Seconds: 3, Method: facts.ByTracepoints,
			Local: []facts.LocalLoad{{Netns: "end"}},
			Devices: []facts.DeviceLoad{{Name: "eth0", Netns: "end", Kind: "veth", RxPackets: 60_000, RxBytes: 4e6},
				{Name: "in", Netns: "bridge", Kind: "veth", RxPackets: 60_000, RxBytes: 4e6},
				{Name: "out", Netns: "bridge", Kind: "veth", TxPackets: 60_000, TxBytes: 4e6}},
			Sockets: facts.SocketLoad{PacketDrops: 40_000, Taking: c.taking},
			Stack:   []facts.StackLoad{{Netns: "end", Counters: map[string]uint64{"Ip.InAddrErrors": 60_000}}},
			Drops: []facts.DropSite{{Reason: "IP_INADDRERRORS", Symbol: "ip_error", Device: "eth0", Netns: "end",
				Packets: 60_000}}})
		if b := d.Bottleneck; b == nil && c.kind != "" || b != nil && b.Kind != c.kind {
			t.Errorf("%s: found %+v, expected %q", name, b, c.kind)
		}
	}
}

// TestMeasuredIn has a namespace whose network layer refuses all that comes by its only device: they are copies where
// mpps receives there, and not where it is merely busy.
func TestMeasuredIn(t *testing.T) {
	t.Parallel()
	for held, kind := range map[int]Kind{0: NoRoute, 7: ""} {
		d := Find(&facts.Host{}, &facts.Load{Seconds: 3, Method: facts.ByTracepoints,
			Local:   []facts.LocalLoad{{Netns: "end"}},
			Threads: []facts.ThreadLoad{{PID: 7, TID: 7, Comm: "mpps", Role: "mpps", Ran: 0.5}},
			Devices: []facts.DeviceLoad{{Name: "eth0", Netns: "end", Kind: "veth", RxPackets: 60_000, RxBytes: 4e6,
				Held: []int{held}}},
			Stack: []facts.StackLoad{{Netns: "end", Counters: map[string]uint64{"Ip.InAddrErrors": 60_000}}},
			Drops: []facts.DropSite{{Reason: "IP_INNOROUTES", Symbol: "ip_error", Device: "eth0", Netns: "end",
				Packets: 60_000}}})
		if b := d.Bottleneck; b == nil && kind != "" || b != nil && b.Kind != kind {
			t.Errorf("held by %d: found %+v, expected %q", held, b, kind)
		}
	}
}
