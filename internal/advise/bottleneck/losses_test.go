package bottleneck

import (
	"math"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// TestReasons: what is not left to another rule is said in words, also for reasons that came later.
func TestReasons(t *testing.T) {
	t.Parallel()
	for name, m := range dropReasons {
		must.Hold(t, (m.what == "" || m.do == "") != (m.place == ""),
			"%s: expected another rule's place, or what it means and what to do", name)
	}
	for _, c := range []struct {
		name, function string
		benign         bool
		stage          string
	}{
		{"SKB_DROP_REASON_IP_RPFILTER", "ip_rcv_finish_core", false, ""},
		{"NOT_SPECIFIED", "br_dev_queue_push_xmit", false, "bridge"},
		{"NOT_SPECIFIED", "br_multicast_rcv", false, "bridge"},
		{"NOT_SPECIFIED", "napi_consume_skb", true, ""},
		{"OTHERHOST", "ip_rcv_core", true, ""},
		{"TCP_OLD_DATA", "tcp_data_queue", true, ""},
		{"MADE_UP_YESTERDAY", "some_function", false, ""},
		{"REASON_131073", "ovs_vport_receive", false, ""},
	} {
		if m := meaningOf(c.name, c.function); m.benign != c.benign || m.stage != c.stage || m.what == "" || m.do == "" {
			t.Errorf("%s in %s: found %+v, expected benign %t at stage %q", c.name, c.function, m, c.benign, c.stage)
		}
	}
}

// TestSharesAtFilters: a filter's drops are a share of what reached it in its direction.
func TestSharesAtFilters(t *testing.T) {
	t.Parallel()
	const came = 60_000
	for _, c := range []struct {
		name     string
		device   facts.DeviceLoad
		sites    []facts.DropSite
		share    float64
		expected string
	}{
		{"egress, with few packets back", facts.DeviceLoad{RxPackets: 50, TxPackets: came * 0.6}, []facts.DropSite{
			{Reason: "TC_EGRESS", Symbol: "__dev_queue_xmit", Device: "p", Packets: came * 0.4}}, 0.4, "egress"},
		{"egress, by counters alone", facts.DeviceLoad{RxPackets: 50, TxPackets: came * 0.88}, nil, 0.12, "egress"},
		{"egress, beside as many that come in", facts.DeviceLoad{RxPackets: came, TxPackets: came * 0.97},
			[]facts.DropSite{{Reason: "TC_EGRESS", Symbol: "__dev_queue_xmit", Device: "p", Packets: came * 0.03}}, 0.03,
			"egress"},
		{"ingress", facts.DeviceLoad{RxPackets: came, TxPackets: 100}, []facts.DropSite{{Reason: "TC_INGRESS",
			Symbol: "__netif_receive_skb_core", Device: "p", Packets: came * 0.4}}, 0.4, "ingress"},
		{"ingress, by counters alone", facts.DeviceLoad{RxPackets: came, TxPackets: 100}, nil, 0.4, "ingress"},
	} {
		d := c.device
		d.Name, d.Kind = "p", "veth"
		d.Qdisc = []facts.QdiscLoad{{Kind: "clsact", Parent: "ingress", Drops: uint64(c.share * came)}}
		p := newPath(&facts.Host{}, &facts.Load{Seconds: 3, Devices: []facts.DeviceLoad{d}, Drops: c.sites})
		found := p.lossesAt(atFilter)
		if len(found) != 1 || math.Abs(found[0].share-c.share) > 0.005 {
			t.Errorf("%s: found %+v, expected one with %.2f", c.name, found, c.share)
		}
	}
}

// TestRankedByGain: of several faults that one comes first which brings most packets back.
func TestRankedByGain(t *testing.T) {
	t.Parallel()
	rule := func(share float64) suspect {
		return suspect{kind: DroppedByRule, share: share, strength: 0.85, keys: []string{"a"}}
	}
	filter := func(share float64) suspect {
		return suspect{kind: Policer, share: share, strength: 0.88, keys: []string{"b"}}
	}
	tap := func(share float64) suspect {
		return suspect{kind: GuestCPU, share: share, strength: 0.85, keys: []string{"c"}}
	}
	ring := func(share float64) suspect {
		return suspect{kind: RxRing, share: share, strength: 0.85, keys: []string{"d"}}
	}
	buffer := func(share float64) suspect {
		return suspect{kind: SocketBuffer, share: share, strength: 0.76, keys: []string{"e"}}
	}
	for _, c := range []struct {
		name  string
		chain []suspect // in path order
		first Kind
	}{
		{"a large and then a small share", []suspect{rule(0.7), filter(0.12)}, DroppedByRule},
		{"a small and then a large share", []suspect{rule(0.12), filter(0.7)}, Policer},
		{"a share, then a guest that takes only so much", []suspect{rule(0.7), tap(0.2)}, GuestCPU},
		{"a ring, then a guest that takes only so much", []suspect{ring(0.6), tap(0.3)}, GuestCPU},
		{"a share, then a buffer that is too short for bursts", []suspect{rule(0.33), buffer(0.06)}, DroppedByRule},
		{"a small share, then a buffer that loses most", []suspect{rule(0.06), buffer(0.6)}, SocketBuffer},
		{"a ring, then a small share", []suspect{ring(0.6), rule(0.1)}, RxRing},
	} {
		left := 1e6
		p := &path{l: &facts.Load{}, packets: left, seconds: 1}
		for i := range c.chain {
			c.chain[i].lost = left * c.chain[i].share
			left -= c.chain[i].lost
		}
		if order := p.rank(c.chain); len(order) != len(c.chain) || order[0].kind != c.first {
			t.Errorf("%s: found %s first of %d, expected %s", c.name, order[0].kind, len(order), c.first)
		}
	}
}

// TestSmallPort: a port is judged by its own packets, however many pass by others.
func TestSmallPort(t *testing.T) {
	t.Parallel()
	s := newScene(1)
	s.offered, s.taken = 200e3, 200e3
	s.flow()
	s.l.Devices = append(s.l.Devices, facts.DeviceLoad{Name: "vnet7", Kind: "tap", Guest: "vm7", SpeedMbps: -1,
		TxPackets: s.count(80), Counters: map[string]uint64{"tx_dropped": s.count(720)}})
	if d := Find(s.h, s.l); d.Bottleneck == nil || d.Bottleneck.Object != "vnet7" {
		t.Errorf("alone: %s", d.Why)
	}
	s.dropFor("IP_RPFILTER", "ip_rcv_finish_core", "eth0", 0.5)
	d := Find(s.h, s.l)
	must.Hold(t, d.Bottleneck != nil && d.Bottleneck.Reason == "IP_RPFILTER" &&
		d.Bottleneck.Function == "ip_rcv_finish_core" && d.Next != nil && d.Next.Object == "vnet7",
		"beside a larger fault: %s; next %+v", d.Why, d.Next)
	s.l.Devices = append(s.l.Devices, facts.DeviceLoad{Name: "vnet8", Kind: "tap", Guest: "vm8", SpeedMbps: -1,
		TxPackets: s.count(70), Counters: map[string]uint64{"tx_dropped": s.count(500)}})
	if d := Find(s.h, s.l); len(d.Besides) != 1 || d.Besides[0].Object != "vnet8" {
		t.Errorf("two such ports beside it: %+v", d.Besides)
	}
}

// TestSlow: TCP at 1 Mbit/s is traffic, though GSO makes its packets few; a keyboard's echo is none.
func TestSlow(t *testing.T) {
	t.Parallel()
	load := func(packets, bytes uint64) *facts.Load {
		return &facts.Load{Seconds: 5, Devices: []facts.DeviceLoad{{Name: "eth0", Kind: "nic", RxPackets: packets,
			RxBytes: bytes, SpeedMbps: -1, Qdisc: []facts.QdiscLoad{{Kind: "tbf", Parent: "root", RateBps: 1e6,
				Bytes: bytes, Packets: packets, Backlog: 4, Overlimits: 200}}}}}
	}
	if d := Find(&facts.Host{}, load(100, 620_000)); d.Bottleneck == nil || d.Bottleneck.Kind != RateLimit {
		t.Errorf("1 Mbit/s: %s", d.Why)
	}
	if d := Find(&facts.Host{}, load(100, 9_000)); d.Bottleneck != nil {
		t.Errorf("20 small packets a second: %s", d.Why)
	}
}

// TestCompiler: ticks that count a program's time as softirqs are refuted by the profile, and a full CPU that keeps up
// with its packets is no limit.
func TestCompiler(t *testing.T) {
	t.Parallel()
	for _, profiled := range []bool{true, false} {
		s := newScene(2)
		s.offered, s.taken = 100e3, 100e3
		s.flow()
		s.cpu(1, facts.CPULoad{User: 0.12, Softirq: 0.86})
		if profiled {
			s.profileOf(1, map[string]float64{"driver": 0.03, "bridge": 0.02, "other": 0.05})
		} else {
			s.l.Profile = nil
		}
		if d := Find(s.h, s.l); d.Bottleneck != nil {
			t.Errorf("profiled %t: %s", profiled, d.Why)
		}
		s.l.Threads = append(s.l.Threads, facts.ThreadLoad{TID: 16, Comm: "ksoftirqd/1", Role: "ksoftirqd", CPU: 1,
			VCPU: -1, Queue: -1, Ran: 0.5, Waited: 0.4})
		if d := Find(s.h, s.l); (d.Bottleneck == nil) != profiled {
			t.Errorf("profiled %t, and a starved ksoftirqd: %s", profiled, d.Why)
		}
	}
}

// TestElsewhere: what other namespaces lose is nobody's loss here, nor are copies that nobody wanted.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	s := newScene(3)
	s.l.Softnet[2].Dropped = s.l.Softnet[2].Processed / 2
	if d := Find(s.h, s.l); d.Bottleneck != nil {
		t.Errorf("the backlog drops packets, none of a watched namespace: %s", d.Why)
	}
	s.l.Drops = []facts.DropSite{{Reason: "OTHERHOST", Symbol: "ip_rcv_core", Device: "br0", Packets: s.count(1e5)},
		{Reason: "NOT_SPECIFIED", Symbol: "sk_stream_kill_queues", Device: "eth0", Packets: s.count(1e5)},
		{Reason: "SOCKET_RCVBUFF", Symbol: "udp_queue_rcv_one_skb", Packets: s.count(1e5)}}
	if d := Find(s.h, s.l); d.Bottleneck != nil {
		t.Errorf("copies are dropped, and every packet arrives: %s", d.Why)
	}
	s.dropFor("OTHERHOST", "ip_rcv_core", "eth0", 0.8)
	if b := Find(s.h, s.l).Bottleneck; b == nil || b.Reason != "OTHERHOST" {
		t.Errorf("packets for others, which do not arrive: %+v", b)
	}
}

// TestEmulatedSure: where a NIC is of an emulated model its QEMU is named with a confidence above 90 %, not the full
// queue before it.
func TestEmulatedSure(t *testing.T) {
	t.Parallel()
	for _, model := range []string{"e1000", "rtl8139", "e1000e", "pcnet"} {
		s := newScene(4)
		s.offered, s.taken = 40e3, 14e3
		s.flow()
		s.l.Threads = s.l.Threads[queues:]
		s.h.Guests[0].Interfaces[0].Model = model
		for i := range s.l.Threads {
			if t := &s.l.Threads[i]; t.Role == "emulator" {
				t.Ran = 0.6
			}
		}
		b := Find(s.h, s.l).Bottleneck
		if b == nil || b.Kind != NoVhost || b.Confidence <= 0.9 {
			t.Errorf("%s: found %+v, expected %s with more than 0.9", model, b, NoVhost)
		}
	}
}

// TestXDPInsideAnEnd: a program on the only device of a namespace is a receiver if it takes everything, and else one
// that drops packets.
func TestXDPInsideAnEnd(t *testing.T) {
	t.Parallel()
	for dropped, lossy := range map[uint64]bool{0: false, 60_000: true, 99_900: false} {
		p := newPath(&facts.Host{}, &facts.Load{Seconds: 3, Devices: []facts.DeviceLoad{{Name: "eth0", Kind: "veth",
			Netns: "end", XDP: "theirs", RxPackets: 100_000,
			Counters: map[string]uint64{"rx_queue_0_xdp_drops": dropped}}}})
		if found := p.lossesAt(atKernel); (len(found) == 1) != lossy {
			t.Errorf("%d of 100000 dropped: found %+v, expected a loss: %t", dropped, found, lossy)
		}
	}
}

// TestSharedDevice: what a macvlan takes at its lower device is not missing.
func TestSharedDevice(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		d := Find(&facts.Host{}, &facts.Load{Seconds: 3, Method: facts.ByTracepoints, Local: []facts.LocalLoad{{}},
			Devices: []facts.DeviceLoad{{Name: "eth0", Kind: "nic", RxPackets: 60_000, RxBytes: 4e6, Shared: shared}}})
		if named := d.Bottleneck != nil; named == shared {
			t.Errorf("shared %t: %s", shared, d.Why)
		}
	}
}

// TestClashes: what tracking drops since connections clash is no full table.
func TestClashes(t *testing.T) {
	t.Parallel()
	for clashed, object := range map[float64]string{0: "table of connections", 0.6: "NAT"} {
		s := newScene(4)
		s.dropFor("NETFILTER_DROP", "nf_hook_slow", "eth0", 0.6)
		clashes := s.count(s.offered * clashed)
		s.l.Tracked = []facts.TrackLoad{{Entries: 20, Max: 262144, Dropped: s.l.Drops[0].Packets - clashes,
			Clashes: clashes}}
		if d := Find(s.h, s.l); d.Bottleneck == nil || d.Bottleneck.Object != object {
			t.Errorf("%.1f clash: %s", clashed, d.Why)
		}
	}
}

// TestFewByARule: a rule is named once it drops 1 % of the packets, with low confidence below 5 %.
func TestFewByARule(t *testing.T) {
	t.Parallel()
	for share, named := range map[float64]bool{0.005: false, 0.03: true, 0.3: true} {
		s := newScene(3)
		s.dropFor("NETFILTER_DROP", "nf_hook_slow", "eth0", share)
		d := Find(s.h, s.l)
		if is := d.Bottleneck != nil && d.Bottleneck.Kind == DroppedByRule; is != named ||
			is && share < 0.05 && d.Bottleneck.Confidence > 0.6 {
			t.Errorf("%.3f: %s", share, d.Why)
		}
	}
}

// TestFullReceiveQueues: windows that close hold a path back only where a receive queue stays full.
func TestFullReceiveQueues(t *testing.T) {
	t.Parallel()
	full := []facts.LosingSocket{{Port: 5001, Queued: 0.9}}
	for _, c := range []struct {
		closed float64 // each second
		full   []facts.LosingSocket
		named  bool
	}{{8, full, true}, {8, nil, false}, {0.1, full, false}} {
		s := newScene(2)
		s.receive(3e3, 3e3, 0)
		s.l.Drops = nil
		s.l.Sockets = facts.SocketLoad{WindowsClosed: s.count(c.closed), Full: c.full}
		if d := Find(s.h, s.l); (d.Bottleneck != nil) != c.named {
			t.Errorf("%.1f closed each second, %d full: %s", c.closed, len(c.full), d.Why)
		}
	}
}

// TestFloodedCopies: what a bridge floods to a second receiver, which does not want it, is not lost there; what nobody
// else gets is.
func TestFloodedCopies(t *testing.T) {
	t.Parallel()
	for _, flooded := range []bool{false, true} {
		l := &facts.Load{Seconds: 3, Method: facts.ByTracepoints, Local: []facts.LocalLoad{{}, {Netns: "b"}},
			Devices: []facts.DeviceLoad{
				{Name: "nic0", Kind: "nic", RxPackets: 15_000, RxBytes: 1e6},
				{Name: "portb", Kind: "veth", TxPackets: 15_000, TxBytes: 1e6},
				{Name: "eth0", Kind: "veth", Netns: "b", RxPackets: 15_000, RxBytes: 1e6}},
			Drops: []facts.DropSite{{Reason: "OTHERHOST", Symbol: "ip_rcv_core", Device: "eth0", Netns: "b",
				Packets: 15_000}}}
		if flooded {
			l.Devices = append(l.Devices, facts.DeviceLoad{Name: "porta", Kind: "veth", TxPackets: 13_000, TxBytes: 1e6})
		}
		if d := Find(&facts.Host{}, l); (d.Bottleneck == nil) != flooded {
			t.Errorf("flooded %t: %s", flooded, d.Why)
		}
	}
}

// TestNeverRead: on a path without traffic a TCP connection that nobody reads is named, and nothing beside traffic.
func TestNeverRead(t *testing.T) {
	t.Parallel()
	for pps, kind := range map[float64]Kind{10: Socket, 1e6: ""} {
		for _, unread := range []bool{true, false} {
			s := newScene(1)
			s.offered, s.taken = pps, pps
			s.flow()
			s.l.Sockets.Full = []facts.LosingSocket{{Port: 5001, Queued: 0.97, PID: 7, Comm: "server", Unread: unread}}
			b := Find(s.h, s.l).Bottleneck
			if named := b != nil; named != (unread && kind != "") ||
				named && (b.Kind != kind || b.Object != "server (7), port 5001") {
				t.Errorf("%g packets per second, unread %v: %+v", pps, unread, b)
			}
		}
	}
}

// TestNarrowSocket: a receive buffer that a program asked for holds back the connection that carries most of what
// passes, and is not named for one that carries little.
func TestNarrowSocket(t *testing.T) {
	t.Parallel()
	for bits, named := range map[float64]bool{4e8: true, 1e6: false} {
		s := newScene(1)
		s.l.Sockets.Narrow = []facts.LosingSocket{{Port: 5001, PID: 7, Comm: "server", Buffer: 4608, RTT: 2e-5,
			Received: s.count(bits / 8)}}
		b := Find(s.h, s.l).Bottleneck
		if (b != nil && b.Kind == SocketBuffer) != named || named && b.Object != "server (7), port 5001" {
			t.Errorf("%g bits per second: %+v", bits, b)
		}
	}
}
