package rig

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mpps/internal/measure"
	"mpps/internal/measure/traffic"
	"mpps/internal/measure/traffic/agent"
	"mpps/internal/must"
	"mpps/internal/outcome"
)

// recorded is a recorded machine: file name → text.
func recorded(t *testing.T, files map[string]string) *Machine {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must.Do(t, os.WriteFile(name, []byte(text), 0o644))
	}
	m := must.Get(OpenMachine(dir))(t)
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func TestFlowsAreSpreadOverAddressesAndPorts(t *testing.T) {
	for _, c := range []struct{ flows, addresses int }{{1, 1}, {2, 2}, {16, 4}, {12, 4}, {7, 7}, {1000, 40},
		{65536, 256}, {65521, 65521}} {
		frame := frameOf(measure.Load{Flows: c.flows, FrameBytes: 64})
		if frame.Flows() != uint64(c.flows) || int(frame.Src.Count) != c.addresses {
			t.Errorf("%d flows: %d of %d addresses, expected %d", c.flows, frame.Flows(), frame.Src.Count, c.addresses)
		}
	}
}

func TestLanes(t *testing.T) {
	for _, c := range []struct {
		cpus, there, back []int
	}{{[]int{3, 4}, []int{3}, []int{4}}, {[]int{1, 2, 3, 4}, []int{1, 2}, []int{3, 4}},
		{[]int{1, 2, 3}, []int{1}, []int{3}}, {[]int{5}, []int{5}, []int{5}}} {
		there, back, err := lanes(measure.Load{TwoWay: true}, Options{CPUs: c.cpus})
		must.Hold(t, err == nil && slices.Equal(there.cpus, c.there) && slices.Equal(back.cpus, c.back) &&
			there.stream != back.stream, "%v: %+v and %+v, %v", c.cpus, there, back, err)
	}
	load := measure.Load{Flows: 16, FrameBytes: 64}
	there, back := lane{}.frame(load), lane{back: true}.frame(load)
	if there.Src != back.Src && there.Src.First == back.Dst.First && there.Dst.First == back.Src.First &&
		back.Src.Count == 4 {
		return
	}
	t.Errorf("there from %v to %v, back from %v to %v", there.Src, there.Dst, back.Src, back.Dst)
}

func TestMixBytes(t *testing.T) {
	if got := MixBytes(IMIX); got != 354 { // (28·64 + 16·570 + 4·1518) / 48
		t.Errorf("IMIX has %d bytes on average", got)
	}
}

func TestLineRate(t *testing.T) {
	m := recorded(t, map[string]string{"sys/class/net/eth0/speed": "10000\n", "sys/class/net/eth1/speed": "-1\n",
		"sys/class/net/v0/speed": "10000\n"})
	nic := func(name, kind, netns string) traffic.Device {
		return traffic.Device{Endpoint: traffic.Endpoint{Iface: name, Netns: netns}, Kind: kind}
	}
	small, mixed := measure.Load{FrameBytes: 64, Flows: 1}, measure.Load{FrameBytes: 354, Mix: IMIX, Flows: 1}
	for _, c := range []struct {
		device traffic.Device
		load   measure.Load
		want   float64
	}{
		{nic("eth0", "device", ""), small, 14.88e6}, {nic("eth0", "device", ""), mixed, 3.3436e6},
		{nic("eth1", "device", ""), small, 0}, {nic("eth2", "device", ""), small, 0}, {nic("v0", "veth", ""), small, 0},
		{nic("eth0", "device", "a"), small, 0},
	} {
		got, known := m.lineRate(c.device, c.load)
		if math.Abs(got-c.want) > 0.001*c.want || known != (c.want > 0) {
			t.Errorf("%s with frames of %d bytes: %g, expected %g", c.device.Endpoint, c.load.FrameBytes, got, c.want)
		}
	}
	for rate, warned := range map[float64]bool{0: false, 14e6: false, 15e6: true} {
		p := &Path{setup: setup{machines: machines{m}}}
		small.Rate = rate
		if p.warnLineRate(nic("eth0", "device", ""), small); len(p.Warnings) > 0 != warned {
			t.Errorf("at %g: warnings %v", rate, p.Warnings)
		}
	}
}

func TestCheckLoad(t *testing.T) {
	good := measure.Load{FrameBytes: 64, Flows: 1, Duration: 1, Repeat: 1}
	must.Try(t, CheckLoad(good))
	for name, spoil := range map[string]func(*measure.Load){
		"no flow":         func(l *measure.Load) { l.Flows = 0 },
		"too many flows":  func(l *measure.Load) { l.Flows = MaxFlows + 1 },
		"a negative rate": func(l *measure.Load) { l.Rate = -1 },
		"a rate of 10G":   func(l *measure.Load) { l.Rate = 1e10 },
		"no time":         func(l *measure.Load) { l.Duration = 0 },
		"no trial":        func(l *measure.Load) { l.Repeat = 0 },
		"a runt":          func(l *measure.Load) { l.FrameBytes = 63 },
		"a giant":         func(l *measure.Load) { l.FrameBytes = 1519 },
		"its own mix":     func(l *measure.Load) { l.Mix = "mine" },
	} {
		load := good
		spoil(&load)
		var e *outcome.Fault
		if err := CheckLoad(load); !errors.As(err, &e) || e.Code != 64 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMachineIsReadBelowItsRoot(t *testing.T) {
	m := recorded(t, map[string]string{
		"proc/stat":             "cpu 0\ncpu0 10 0 20 30 0 0 40 0 0 0\n",
		"proc/net/softnet_stat": "0000000a 00000002 00000001\n0000000f 00000001 00000000\n",
	})
	times, err := m.cpuTimes(t.Context())
	must.Hold(t, err == nil && times.CPU[0].SoftIRQ == 40 && !times.Taken.IsZero(), "%+v, %v", times, err)
	counters, err := m.counters(t.Context()) // no namespace was added: no interface is looked at
	must.Hold(t, err == nil && len(counters) == 3 &&
		counters[measure.Counter{Where: "host", Name: "softnet.dropped"}] == 3 &&
		counters[measure.Counter{Where: "host", Name: "softnet.processed"}] == 25, "%+v, %v", counters, err)
	must.Fail(recorded(t, map[string]string{"proc/net/softnet_stat": "what\n"}).counters(t.Context()))(t,
		"nonsense was read as counters")
}

func TestFindNIC(t *testing.T) {
	info := agent.Info{Links: []agent.Link{
		{Name: "lo", Addrs: []string{"127.0.0.1/8"}},
		{Name: "eth0", Addrs: []string{"10.50.0.2/24", "fe80::1/64"}},
		{Name: "eth1", Addrs: []string{"192.0.2.2/24", "not an address"}},
	}}
	for _, c := range []struct{ address, nic, want string }{
		{"10.50.0.2:7878", "", "eth0"},
		{"10.50.0.2:7878", "eth1", "eth1"},
		{"[fe80::1]:7878", "", "eth0"},
		{"[::ffff:192.0.2.2]:7878", "", "eth1"},
		{"10.50.0.3:7878", "", ""},
		{"guest:7878", "", ""},
		{"10.50.0.2:7878", "eth9", ""},
	} {
		l, err := findNIC(info, AgentOptions{Address: c.address, NIC: c.nic})
		must.Hold(t, l.Name == c.want && (err == nil) == (c.want != ""),
			"%s %q: %q, %v; expected %q", c.address, c.nic, l.Name, err, c.want)
	}
}

func TestHighMAC(t *testing.T) {
	mac := highMAC(1, 2, 3)
	must.Hold(t, len(mac) == 6 && mac[0]&1 == 0 && mac[0]&2 != 0,
		"%v is not a locally administered unicast address", mac)
}

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
	}{
		{fmt.Errorf("x: %w", traffic.ErrFrame), 64},
		{fmt.Errorf("x: %w", traffic.ErrConfig), 64},
		{&traffic.UnsupportedError{What: "XDP", Answer: traffic.No, Err: os.ErrInvalid}, 1},
		{fmt.Errorf("x: %w", os.ErrPermission), 1},
	} {
		var e *outcome.Fault
		err := explain(c.err)
		must.Hold(t, errors.As(err, &e) && e.Code == c.code && errors.Is(err, c.err), "%v became %v", c.err, err)
	}
}

func TestCatchUp(t *testing.T) {
	for rate, want := range map[float64]time.Duration{
		0: 0, 1: 100 * time.Millisecond, 20_000: 3200 * time.Microsecond, 10e6: 250 * time.Microsecond,
	} {
		must.Equal(t, catchUp(rate), want, "%g frames a second", rate)
	}
}

func TestNotesAreMadeOnce(t *testing.T) {
	var s setup
	warn := s.warnAs("generator")
	for _, text := range []string{"refused 10 of 20", "refused 7 of 20", "no XDP here"} {
		warn(note(text))
	}
	must.Hold(t, len(s.Warnings) == 2 && s.Warnings[0].Code == "generator-note" && s.Warnings[1].Text == "no XDP here",
		"%+v", s.Warnings)
}

// TestARP: a reply as a Linux host sent it, and what is written is read back.
func TestARP(t *testing.T) {
	frame := must.Get(hex.DecodeString("fe6d7000010a" + "525400000a01" + "0806" + "0001" + "0800" + "06" + "04" +
		"0002" + "525400000a01" + "c61200fe" + "fe6d7000010a" + "00000000"))(t)
	a, ok := parseARP(frame)
	must.Hold(t, ok && a.op == arpReply && a.from.String() == "52:54:00:00:0a:01" &&
		a.sender.String() == "198.18.0.254" && a.of.String() == "0.0.0.0", "%+v, %v", a, ok)
	to := must.Get(net.ParseMAC("fe:6d:70:00:01:0a"))(t)
	for _, op := range []uint16{arpRequest, arpReply} {
		a.op, a.of = op, netip.MustParseAddr("198.19.0.1")
		b := arpFrame(to, a)
		if got, ok := parseARP(b); !ok || len(b) != 60 || got.op != op || got.sender != a.sender || got.of != a.of ||
			got.from.String() != a.from.String() {
			t.Errorf("%+v, %v in %d bytes", got, ok, len(b))
		}
	}
	from := func(mac string) []byte {
		return slices.Concat(frame[:22], []byte(must.Get(net.ParseMAC(mac))(t)), frame[28:])
	}
	for _, refused := range [][]byte{nil, frame[:41], append(append([]byte{}, frame[:12]...), make([]byte, 48)...),
		from("ff:ff:ff:ff:ff:ff"), from("01:00:5e:00:00:01"), from("00:00:00:00:00:00")} {
		if a, ok := parseARP(refused); ok {
			t.Errorf("%x was taken for %+v", refused, a)
		}
	}
}

func TestConditions(t *testing.T) {
	const stat = "cpu 1 2 3\ncpu0 10 0 10 10 0 0 0 0 0 0\ncpu1 10 0 10 10 0 0 0 0 0 0\n"
	m := recorded(t, map[string]string{
		"proc/stat": stat,
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor":                   "performance\n",
		"sys/devices/system/cpu/cpu1/cpufreq/scaling_governor":                   "powersave\n",
		"sys/devices/system/cpu/cpufreq/policy0/scaling_governor":                "not a CPU's\n",
		"sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count":       "2\n",
		"sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count":       "3\n",
		"sys/devices/system/cpu/cpu1/thermal_throttle/package_throttle_count":    "4\n",
		"sys/devices/system/clocksource/clocksource0/current_clocksource":        "tsc\n",
		"sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_max_time_ms": "99\n",
	})
	c, err := m.Conditions(t.Context(), time.Millisecond)
	must.Do(t, err)
	nine := uint64(9)
	must.NoDiff(t, cmp.Diff(measure.Conditions{CPUs: 2, Governors: map[string]int{"performance": 1, "powersave": 1},
		Throttled: &nine, Clocksource: "tsc"}, c), "difference")
	// A machine that tells nothing but its CPU times.
	c, err = recorded(t, map[string]string{"proc/stat": stat}).Conditions(t.Context(), time.Millisecond)
	must.Hold(t, err == nil && c.CPUs == 2 && c.Throttled == nil && len(c.Governors) == 0 && c.Clocksource == "",
		"%+v, %v", c, err)
	must.Fail(recorded(t, nil).Conditions(t.Context(), time.Millisecond))(t, "a machine without CPU times was accepted")
	bad := recorded(t, map[string]string{"proc/stat": stat,
		"sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": "many\n"})
	must.Fail(bad.Conditions(t.Context(), time.Millisecond))(t, "a count of \"many\" was accepted")
}

// TestReach: an agent answers with the secret; an open port, one with another secret and nobody do not.
func TestReach(t *testing.T) {
	secret := []byte("0123456789abcdef")
	s := must.Get(agent.Listen("", "127.0.0.1:0", agent.Options{Version: "v", Secret: secret}))(t)
	served := make(chan error, 1)
	go func() { served <- s.Serve(t.Context()) }()
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), <-served); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	open := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	go func() {
		for {
			c, err := open.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("SSH-2.0-OpenSSH_9.6\r\n"))
			c.Close()
		}
	}()
	t.Cleanup(func() { open.Close() })
	gone := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	gone.Close()
	for name, c := range map[string]struct {
		o    AgentOptions
		want bool
	}{
		"an agent":       {AgentOptions{Address: s.Addr(), Secret: secret}, true},
		"another secret": {AgentOptions{Address: s.Addr(), Secret: []byte("fedcba9876543210")}, false},
		"no secret":      {AgentOptions{Address: s.Addr()}, false},
		"no such NIC":    {AgentOptions{Address: s.Addr(), Secret: secret, NIC: "eth99"}, false},
		"an open port":   {AgentOptions{Address: open.Addr().String(), Secret: secret}, false},
		"nobody":         {AgentOptions{Address: gone.Addr().String()}, false},
		"not an address": {AgentOptions{Address: "guest"}, false},
	} {
		c.o.Version = "v"
		if err := Reach(t.Context(), c.o); (err == nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCheckEnds: interfaces must be there, and bridges be bridges.
func TestCheckEnds(t *testing.T) {
	must.Try(t, CheckEnd(traffic.Endpoint{Iface: "lo"}))
	for _, e := range []traffic.Endpoint{{Iface: "mppsnone0"}, {Netns: "mpps-none", Iface: "lo"}} {
		must.Refuse(t, CheckEnd(e), "%s was taken for an end", e)
	}
	for _, name := range []string{"lo", "mppsnone0"} {
		must.Refuse(t, CheckBridge(name), "%s was taken for a bridge", name)
	}
}

// TestFastest: agents that send take pktgen with clones only where XDP frames are not to be had and all of them have
// it, and a slow choice is said.
func TestFastest(t *testing.T) {
	of := func(kernel, driver traffic.Answer, pktgen bool) *far {
		return &far{addr: "a:1", info: agent.Info{Live: string(kernel), Pktgen: pktgen},
			nic: agent.Link{Name: "eth0", Kind: "ixgbevf", Live: string(driver)}}
	}
	for name, c := range map[string]struct {
		asked traffic.Method
		fars  []*far
		want  traffic.Method
		clone int
		warns bool
	}{
		"XDP":                 {Fastest, []*far{of(traffic.Yes, traffic.Yes, true)}, traffic.Auto, 0, false},
		"a function's driver": {Fastest, []*far{of(traffic.Yes, traffic.No, true)}, traffic.Pktgen, clones, false},
		"an old kernel":       {Fastest, []*far{of(traffic.No, traffic.Unknown, true)}, traffic.Pktgen, clones, false},
		"no pktgen":           {Fastest, []*far{of(traffic.Yes, traffic.No, false)}, traffic.Auto, 0, true},
		"one of two without pktgen": {Fastest, []*far{of(traffic.Yes, traffic.No, true), of(traffic.Yes,
			traffic.Yes, false)}, traffic.Auto, 0, true},
		"one of two needs it, all have": {Fastest, []*far{of(traffic.Yes, traffic.No, true), of(traffic.Yes,
			traffic.Yes, true)}, traffic.Pktgen, clones, false},
		"somebody chose": {traffic.AFPacket, []*far{of(traffic.Yes, traffic.Yes, true)}, traffic.AFPacket, 0, false},
	} {
		p := &Path{}
		o := p.fastest(Options{Generator: c.asked}, c.fars)
		must.Hold(t, o.Generator == c.want && o.Clone == c.clone && (len(p.Warnings) > 0) == c.warns,
			"%s: %s with %d clones, warnings %+v", name, o.Generator, o.Clone, p.Warnings)
	}
}

// TestDivided: senders for several agents have their own streams and share the rate; CPUs are shared only if there
// are too few.
func TestDivided(t *testing.T) {
	for _, c := range []struct {
		cpus []int
		n    int
		want string
	}{
		{[]int{4, 5, 6, 7}, 2, "[4 5]@0 [6 7]@2 "}, {[]int{4, 5, 6}, 2, "[4]@0 [5 6]@1 "},
		{[]int{4, 5}, 3, "[4]@0 [4]@1 [5]@2 "}, {[]int{4, 5}, 1, "[4 5]@0 "},
	} {
		lanes, err := divided(c.cpus, c.n)
		got, share := "", 0.0
		for _, l := range lanes {
			got += fmt.Sprintf("%v@%d ", l.cpus, l.stream)
			share += l.share
		}
		if err != nil || got != c.want || c.n > 1 && (share < 0.999 || share > 1.001) {
			t.Errorf("%v for %d: %s, shares sum up to %g, %v; expected %s", c.cpus, c.n, got, share, err, c.want)
		}
	}
	if lanes, err := divided(nil, 2); err != nil || len(lanes) != 2 || slices.Contains([]int{len(lanes[0].cpus),
		len(lanes[1].cpus)}, 0) {
		t.Errorf("no CPUs given: %+v, %v", lanes, err)
	}
}
