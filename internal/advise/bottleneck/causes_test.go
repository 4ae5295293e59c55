package bottleneck

import (
	"math"
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// hop is a namespace with two veths of 30,000 packets each way, in 3 s.
func hop() *facts.Load {
	d := func(name string) facts.DeviceLoad {
		return facts.DeviceLoad{Name: name, Kind: "veth", Netns: "hop", RxPackets: 30_000, TxPackets: 30_000}
	}
	return &facts.Load{Seconds: 3, Method: facts.ByTracepoints, Devices: []facts.DeviceLoad{d("in"), d("out")},
		Local: []facts.LocalLoad{{Netns: "hop"}}}
}

func TestNamedCauses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		plant func(*facts.Load)
		kind  Kind
		share float64
		says  string
	}{
		{"a rule, of packets that came by a device that sends as many", func(l *facts.Load) {
			l.Devices[1].RxPackets = 50_000
			l.Drops = []facts.DropSite{{Reason: "NETFILTER_DROP", Symbol: "nft_do_chain", Device: "out", Netns: "hop",
				Way: "in", Packets: 20_000}}
		}, DroppedByRule, 0.4, "that came by out in hop"},
		{"a rule, of packets that should leave", func(l *facts.Load) {
			l.Devices[1].RxPackets = 90_000
			l.Drops = []facts.DropSite{{Reason: "NETFILTER_DROP", Symbol: "nft_do_chain", Device: "out", Netns: "hop",
				Way: "out", Packets: 20_000}}
		}, DroppedByRule, 0.4, "that should leave by out in hop"},
		{"a next hop that nobody answers for, by three names", func(l *facts.Load) {
			l.Devices[1].TxPackets = 10_000
			l.Drops = []facts.DropSite{
				{Reason: "NEIGH_QUEUEFULL", Symbol: "__neigh_event_send", Device: "out", Netns: "hop", Packets: 18_000},
				{Reason: "NEIGH_FAILED", Symbol: "neigh_invalidate", Device: "out", Netns: "hop", Packets: 1_500},
				{Reason: "QUEUE_PURGE", Symbol: "neigh_invalidate", Device: "out", Netns: "hop", Packets: 500}}
		}, NextHop, 2.0 / 3, "should leave by out"},
		{"a loop of routes", func(l *facts.Load) {
			l.Devices[0] = facts.DeviceLoad{Name: "in", Kind: "veth", Netns: "hop", RxPackets: 96_000, TxPackets: 93_000}
			l.Devices[1] = facts.DeviceLoad{Name: "out", Kind: "veth", Netns: "hop"}
			l.Drops = []facts.DropSite{{Reason: "IP_INHDR", Symbol: "ip_forward", Device: "in", Netns: "hop",
				Packets: 3_000}}
		}, Dropped, 1, "round and round"},
		{"a sender with a short time to live, and answers to all others", func(l *facts.Load) {
			l.Drops = []facts.DropSite{{Reason: "IP_INHDR", Symbol: "ip_forward", Device: "in", Netns: "hop",
				Packets: 3_000}}
		}, Dropped, 0.1, "IP header is invalid, or their time to live ends"},
		{"a rule that takes the little that there is", func(l *facts.Load) {
			l.Devices[0] = facts.DeviceLoad{Name: "in", Kind: "veth", Netns: "hop", RxPackets: 150}
			l.Devices[1] = facts.DeviceLoad{Name: "out", Kind: "veth", Netns: "hop"}
			l.Drops = []facts.DropSite{{Reason: "NETFILTER_DROP", Symbol: "nft_do_chain", Device: "in", Netns: "hop",
				Way: "in", Packets: 150}}
		}, DroppedByRule, 1, "100 %"},
		{"one socket of many, which nobody reads", func(l *facts.Load) {
			l.Sockets = facts.SocketLoad{UDPIn: 60_000, ReceiveBuffer: 120, Queued: 0.99, Losing: []facts.LosingSocket{
				{Port: 77, Drops: 120, Queued: 0.99, PID: 5, Comm: "logger", Waits: "anon_pipe_write"}}}
		}, Socket, 0.002, "until somebody reads from a pipe"},
		{"a macvtap that nobody has open", func(l *facts.Load) {
			l.Devices = append(l.Devices, facts.DeviceLoad{Name: "mt0", Kind: "tap", Macvtap: true, Netns: "hop",
				RxPackets: 30_000})
			l.Drops = []facts.DropSite{{Reason: "IP_INADDRERRORS", Symbol: "ip_error", Device: "mt0", Netns: "hop",
				Packets: 30_000}}
		}, GuestDown, 1, "no program has it open"},
		{"a macvtap whose program reads a tenth", func(l *facts.Load) {
			l.Devices = append(l.Devices, facts.DeviceLoad{Name: "mt0", Kind: "tap", Macvtap: true, Netns: "hop",
				RxPackets: 20_000, Counters: map[string]uint64{"rx_dropped": 18_000}, Held: []int{7}})
		}, TapReader, 0.9, "the program that has it open sleeps"},
		{"a tap whose program has been stopped", func(l *facts.Load) {
			l.Devices = append(l.Devices, facts.DeviceLoad{Name: "tap0", Kind: "tap", Netns: "hop", Held: []int{7},
				HeldWaits: "do_signal_stop", Counters: map[string]uint64{"tx_dropped": 18_000}})
		}, TapReader, 1, "it waits to be continued (SIGCONT)"},
		{"a queue of netfilter that no program reads", func(l *facts.Load) {
			l.Drops = []facts.DropSite{{Reason: "NOT_SPECIFIED", Symbol: "nf_queue", Device: "in", Netns: "hop",
				Packets: 15_000}}
		}, Dropped, 0.5, "NFQUEUE"},
		{"a raw socket whose program does not read", func(l *facts.Load) {
			l.Drops = []facts.DropSite{{Reason: "IP_NOPROTO", Symbol: "ip_local_deliver_finish", Device: "in",
				Netns: "hop", Packets: 15_000}}
			l.Devices[0].RxBytes, l.Devices[1].TxPackets = 3e6, 15_000
			l.Sockets.Raw = []facts.LosingSocket{{Netns: "hop", Port: 89, Drops: 14_900, PID: 7, Comm: "ospfd"}}
		}, Socket, 0.5, "protocol 89"},
		{"fragments without the others of their packets", func(l *facts.Load) {
			l.Devices[0].RxBytes, l.Devices[1].TxPackets = 3e6, 0
			l.Stack = []facts.StackLoad{{Netns: "hop", Counters: map[string]uint64{"Ip.ReasmReqds": 30_000}}}
		}, Dropped, 0.5, "fragments are missing"},
		{"a reader of bursts that hardly gets its CPU", func(l *facts.Load) {
			l.CPUs = []facts.CPULoad{{CPU: 0, User: 1}}
			l.Threads = []facts.ThreadLoad{{PID: 7, TID: 7, Comm: "reader", Role: "other", Ran: 0.05, Waited: 0.5},
				{PID: 8, TID: 8, Comm: "compile", Role: "other", Ran: 0.9}}
			l.Sockets = facts.SocketLoad{UDPIn: 10_000, ReceiveBuffer: 10_000, Queued: 0.9,
				Losing: []facts.LosingSocket{{Port: 9, Drops: 10_000, Queued: 0.9, PID: 7, Comm: "reader"}}}
		}, CPUHog, 0.5, "reader (7) waits 50 % of the time for CPU 0"},
	} {
		l := hop()
		c.plant(l)
		b := Find(&facts.Host{}, l).Bottleneck
		if b == nil || b.Kind != c.kind || math.Abs(b.LostShare-c.share) > 0.01 || !strings.Contains(b.Say, c.says) {
			t.Errorf("%s: found %+v, expected %s, %s, %q in it", c.name, b, c.kind, percent(c.share), c.says)
		}
	}
}

// TestNothingLost: what the kernel counts as dropped or received is no loss of a path.
func TestNothingLost(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(*facts.Load){
		"fragments became packets": func(l *facts.Load) {
			l.Devices[0].RxBytes, l.Devices[1].TxPackets, l.Local[0].Received = 3e6, 0, 30_000
			l.Stack = []facts.StackLoad{{Netns: "hop", Counters: map[string]uint64{"Ip.ReasmReqds": 45_000,
				"Ip.ReasmOKs": 15_000}}}
		},
		"a socket is closed before all was read": func(l *facts.Load) {
			l.Drops = []facts.DropSite{{Reason: "QUEUE_PURGE", Symbol: "sk_stream_kill_queues", Netns: "hop",
				Packets: 900}}
		},
		"a bridge keeps copies of broadcasts for a host without an address": func(l *facts.Load) {
			l.Devices = append(l.Devices, facts.DeviceLoad{Name: "br0", Kind: "bridge", Netns: "hop", RxPackets: 1000})
			l.Drops = []facts.DropSite{{Reason: "IP_INADDRERRORS", Symbol: "ip_error", Device: "br0", Netns: "hop",
				Packets: 1000}}
			l.Stack = []facts.StackLoad{{Netns: "hop", Counters: map[string]uint64{"Ip.InAddrErrors": 1000}}}
		},
		"a tenth is broadcasts that nobody takes": func(l *facts.Load) {
			l.Devices[0].RxPackets, l.Devices[0].RxBytes = 36_000, 3e6
			l.Drops = []facts.DropSite{{Reason: "NOT_SPECIFIED", Symbol: "__udp4_lib_rcv", Device: "in", Netns: "hop",
				Packets: 6_000}}
		},
	} {
		l := hop()
		plant(l)
		if d := Find(&facts.Host{}, l); d.Bottleneck != nil {
			t.Errorf("%s: %s", name, d.Why)
		}
	}
}

// TestCostOfOthers: a profile's time in rules is not the path's where a CPU's packets are of namespaces that nobody
// watches.
func TestCostOfOthers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		processed uint64
		kind      Kind
	}{
		{"its own packets", 60_000, NetfilterRules},
		{"those of others", 3_000_000, ""},
	} {
		l := hop()
		l.CPUs = []facts.CPULoad{{CPU: 0, Softirq: 0.95, Idle: 0.01}, {CPU: 1, Idle: 0.9}}
		l.Softnet = []facts.Softnet{{CPU: 0, Processed: c.processed, Squeezed: 300}}
		l.Profile = []facts.ProfileEntry{{CPU: 0, Stage: "netfilter", Symbol: "nft_do_chain", Share: 0.8, Samples: 800},
			{CPU: 0, Stage: "driver", Symbol: "veth_xmit", Share: 0.15, Samples: 150}}
		var kind Kind
		h := &facts.Host{Netfilter: facts.Netfilter{Rules: []facts.RuleSet{{Tool: "nft", Rules: 900}}}}
		if b := Find(h, l).Bottleneck; b != nil && b.Stage == "netfilter" {
			kind = b.Kind
		}
		must.Equal(t, kind, c.kind, "%s", c.name)
	}
}
