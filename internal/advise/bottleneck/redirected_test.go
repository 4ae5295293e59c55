package bottleneck

import (
	"testing"

	"mpps/internal/model/facts"
)

// TestRedirected has an XDP program on a NIC whose packets no other device sends, and a tap's that fail.
func TestRedirected(t *testing.T) {
	t.Parallel()
	thread := facts.ThreadLoad{PID: 9, TID: 9, Comm: "cpumap/1/map:16", Role: "napi", CPU: 1, Ran: 0.01, Waited: 0.95}
	hog := facts.ThreadLoad{PID: 8, TID: 8, Comm: "hog", Role: "other", CPU: 1, Ran: 0.94, Policy: "fifo"}
	refused := facts.DropSite{Reason: "XDP", Symbol: facts.XDPRedirect, Device: "nic0", Packets: 60_000}
	generic := facts.DropSite{Reason: "XDP", Symbol: "do_xdp_generic", Device: "nic0", Packets: 60_000}
	for name, c := range map[string]struct {
		redirected uint64
		threads    []facts.ThreadLoad
		drops      []facts.DropSite
		kind       Kind
		lost       float64
	}{
		"to an AF_XDP socket":                     {redirected: 60_000},
		"to nobody":                               {kind: Unaccounted, lost: 60_000},
		"to a CPU that another program keeps":     {60_000, []facts.ThreadLoad{thread, hog}, nil, CPUHog, 60_000},
		"to a CPU, and nothing tells of it":       {60_000, []facts.ThreadLoad{{Comm: thread.Comm, Role: "napi"}}, nil, Unaccounted, 60_000},
		"in vain, of a driver that does not tell": {0, nil, []facts.DropSite{refused}, Dropped, 60_000},
		"in vain, in generic mode":                {0, nil, []facts.DropSite{generic, refused}, Dropped, 60_000},
	} {
		d := Find(&facts.Host{}, &facts.Load{Seconds: 3, Method: facts.ByTracepoints, Threads: c.threads,
			CPUs: []facts.CPULoad{{CPU: 1, User: 0.99, Idle: 0.01}}, Local: []facts.LocalLoad{{}}, Drops: c.drops,
			Devices: []facts.DeviceLoad{{Name: "nic0", Kind: "nic", XDP: "somebodys", RxPackets: 60_000, RxBytes: 4e6,
				Counters: map[string]uint64{"rx_queue_0_xdp_redirect": c.redirected}}}})
		b := d.Bottleneck
		if b == nil {
			b = &Bottleneck{}
		}
		if lost := b.LostShare * 60_000; b.Kind != c.kind || lost != c.lost || d.Next != nil {
			t.Errorf("%s: found %+v, then %+v, expected %q", name, b, d.Next, c.kind)
		}
	}
}

// TestFullPeer has a veth whose other end's receive queue is full, since another program keeps the CPU of its NAPI
// thread.
func TestFullPeer(t *testing.T) {
	t.Parallel()
	d := Find(&facts.Host{}, &facts.Load{Seconds: 3, Method: facts.ByTracepoints,
		CPUs: []facts.CPULoad{{CPU: 1, User: 0.99, Idle: 0.01}},
		Threads: []facts.ThreadLoad{{PID: 9, TID: 9, Comm: "napi/eth0-8345", Role: "napi", CPU: 1, Ran: 0.01,
			Waited: 0.95, Devices: []string{"eth0"}},
			{PID: 8, TID: 8, Comm: "hog", Role: "other", CPU: 1, Ran: 0.94}},
		Devices: []facts.DeviceLoad{{Name: "nic0", Kind: "veth", RxPackets: 60_000},
			{Name: "port", Kind: "veth", TxPackets: 20_000, Counters: map[string]uint64{"tx_dropped": 40_000}},
			{Name: "eth0", Netns: "end", Kind: "veth", RxPackets: 20_000}},
		Drops: []facts.DropSite{{Reason: "NOT_SPECIFIED", Symbol: "veth_xmit", Device: "eth0", Netns: "end",
			Packets: 39_000}}})
	if b := d.Bottleneck; b == nil || b.Kind != CPUHog || b.LostShare < 0.6 || d.Next != nil && d.Next.LostShare > 0 {
		t.Errorf("found %+v, then %+v", b, d.Next)
	}
}

// TestMirrored has a filter that copies what comes to an ifb with a short queue, and one that sends it there.
func TestMirrored(t *testing.T) {
	t.Parallel()
	for out, kind := range map[uint64]Kind{60_000: "", 20_000: RateLimit} {
		d := Find(&facts.Host{}, &facts.Load{Seconds: 3, Method: facts.ByTracepoints, Local: []facts.LocalLoad{{}},
			Devices: []facts.DeviceLoad{{Name: "nic0", Kind: "veth", RxPackets: 60_000, RxBytes: 4e6},
				{Name: "port", Kind: "veth", TxPackets: out, TxBytes: 64 * out},
				{Name: "ifb0", Kind: "other", RxPackets: 20_000, Qdisc: []facts.QdiscLoad{{Kind: "tbf", RateBps: 4e6,
					Bytes: 1.5e6, Packets: 20_000, Drops: 40_000, Overlimits: 40_000}}}}})
		if b := d.Bottleneck; b == nil && kind != "" || b != nil && b.Kind != kind {
			t.Errorf("%d leave: found %+v, expected %q", out, b, kind)
		}
	}
}

// TestRouteProgram has an eBPF program of a route drop a quarter of what comes by a device, or of what leaves by it.
func TestRouteProgram(t *testing.T) {
	t.Parallel()
	for _, device := range []string{"nic0", "port"} {
		d := Find(&facts.Host{}, &facts.Load{Seconds: 3, Method: facts.ByTracepoints, Local: []facts.LocalLoad{{}},
			Devices: []facts.DeviceLoad{{Name: "nic0", Kind: "veth", RxPackets: 60_000},
				{Name: "port", Kind: "veth", TxPackets: 45_000}},
			Drops: []facts.DropSite{{Reason: "NOT_SPECIFIED", Symbol: "run_lwt_bpf.isra.0", Device: device,
				Packets: 15_000}}})
		if b := d.Bottleneck; b == nil || b.Kind != Dropped || b.LostShare != 0.25 {
			t.Errorf("at %s: found %+v", device, b)
		}
	}
}
