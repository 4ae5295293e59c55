package rig

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

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
		if err != nil || !slices.Equal(there.cpus, c.there) || !slices.Equal(back.cpus, c.back) ||
			there.stream == back.stream {
			t.Errorf("%v: %+v and %+v, %v", c.cpus, there, back, err)
		}
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
		"no flow":          func(l *measure.Load) { l.Flows = 0 },
		"too many flows":   func(l *measure.Load) { l.Flows = MaxFlows + 1 },
		"a negative rate":  func(l *measure.Load) { l.Rate = -1 },
		"a rate of 10G":    func(l *measure.Load) { l.Rate = 1e10 },
		"no time":          func(l *measure.Load) { l.Duration = 0 },
		"no trial":         func(l *measure.Load) { l.Repeat = 0 },
		"a runt":           func(l *measure.Load) { l.FrameBytes = 63 },
		"a giant":          func(l *measure.Load) { l.FrameBytes = 1519 },
		"a mix of its own": func(l *measure.Load) { l.Mix = "mine" },
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
	if err != nil || times.CPU[0].SoftIRQ != 40 || times.Taken.IsZero() {
		t.Errorf("%+v, %v", times, err)
	}
	counters, err := m.counters(t.Context()) // no namespace was added: no interface is looked at
	if err != nil || len(counters) != 3 || counters[measure.Counter{Where: "host", Name: "softnet.dropped"}] != 3 ||
		counters[measure.Counter{Where: "host", Name: "softnet.processed"}] != 25 {
		t.Errorf("%+v, %v", counters, err)
	}
	if _, err := recorded(t, map[string]string{"proc/net/softnet_stat": "what\n"}).counters(t.Context()); err == nil {
		t.Error("nonsense was read as counters")
	}
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
		if l.Name != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s %q: %q, %v; expected %q", c.address, c.nic, l.Name, err, c.want)
		}
	}
}

func TestHighMAC(t *testing.T) {
	mac := highMAC(1, 2, 3)
	if len(mac) != 6 || mac[0]&1 != 0 || mac[0]&2 == 0 {
		t.Errorf("%v is not a locally administered unicast address", mac)
	}
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
		if !errors.As(err, &e) || e.Code != c.code || !errors.Is(err, c.err) {
			t.Errorf("%v became %v", c.err, err)
		}
	}
}

func TestCatchUp(t *testing.T) {
	for rate, want := range map[float64]time.Duration{
		0: 0, 1: 100 * time.Millisecond, 20_000: 3200 * time.Microsecond, 10e6: 250 * time.Microsecond,
	} {
		if got := catchUp(rate); got != want {
			t.Errorf("%g frames a second: %v, expected %v", rate, got, want)
		}
	}
}

func TestNotesAreMadeOnce(t *testing.T) {
	var s setup
	warn := s.warnAs("generator")
	for _, text := range []string{"refused 10 of 20", "refused 7 of 20", "no XDP here"} {
		warn(note(text))
	}
	if len(s.Warnings) != 2 || s.Warnings[0].Code != "generator-note" || s.Warnings[1].Text != "no XDP here" {
		t.Errorf("%+v", s.Warnings)
	}
}
