//go:build netns

package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/measure"
	"mpps/internal/measure/traffic"
	"mpps/internal/must"
	"mpps/internal/outcome"
)

// twoNamespaces are two namespaces of this test with a veth pair between them.
func twoNamespaces(t *testing.T) (a, b traffic.Endpoint) {
	t.Helper()
	base := fmt.Sprintf("rig%d-%d", os.Getpid(), time.Now().UnixNano()%1e6)
	a, b = traffic.Endpoint{Netns: base + "a", Iface: "veth0"}, traffic.Endpoint{Netns: base + "b", Iface: "veth1"}
	namespace(t, a.Netns)
	namespace(t, b.Netns)
	peer := must.Get(netns.GetFromName(b.Netns))(t)
	defer peer.Close()
	check(t, a.Do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = a.Iface
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: b.Iface,
			PeerNamespace: netlink.NsFd(int(peer))})
	}))
	for _, e := range []traffic.Endpoint{a, b} {
		check(t, e.Do(func() error { return up(e.Iface) }))
	}
	return a, b
}

func up(name string) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(l)
}

func check(t *testing.T, err error) {
	t.Helper()
	must.Do(t, err)
}

func namespace(t *testing.T, name string) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		handle, err := netns.NewNamed(name)
		if err == nil {
			err = handle.Close()
		}
		done <- err
	}()
	check(t, <-done)
	t.Cleanup(func() { check(t, netns.DeleteNamed(name)) })
}

func machineOf(t *testing.T) *Machine {
	t.Helper()
	m, err := OpenMachine("/")
	check(t, err)
	t.Cleanup(func() { check(t, m.Close()) })
	return m
}

func shortLoad(rate float64) measure.Load {
	return measure.Load{Rate: rate, FrameBytes: 64, Flows: 16, Duration: 200 * time.Millisecond,
		WarmUp: 50 * time.Millisecond, Repeat: 2}
}

// state is all of a namespace that a measurement could leave a trace in. That a link runs is told late by the kernel
// (net/core/link_watch.c) and is no trace.
func state(t *testing.T, e traffic.Endpoint) string {
	t.Helper()
	var text strings.Builder
	check(t, e.Do(func() error {
		links, err := netlink.LinkList()
		for _, l := range links {
			a := l.Attrs()
			xdp := a.Xdp != nil && a.Xdp.Attached
			fmt.Fprintf(&text, "%s %s %s mtu %d flags %v promisc %d xdp %v\n", a.Name, l.Type(), a.HardwareAddr, a.MTU,
				a.Flags&^net.FlagRunning, a.Promisc, xdp)
		}
		return err
	}))
	return text.String()
}

func TestBetweenNamespaces(t *testing.T) {
	for _, method := range []traffic.Method{traffic.XDP, traffic.AFPacket} {
		for _, rate := range []float64{0, 20_000} {
			t.Run(fmt.Sprintf("%s at %g", method, rate), func(t *testing.T) {
				a, b := twoNamespaces(t)
				before := state(t, a) + state(t, b)
				load := shortLoad(rate)
				load.Latency = true
				p, err := Between(t.Context(), machineOf(t), a, b, load, Options{Generator: method})
				check(t, err)
				run := &measure.Run{Kind: measure.PPS, Load: load}
				err = (&measure.Bench{Path: p}).Run(t.Context(), run)
				check(t, errors.Join(err, p.Close()))

				must.Need(t, run.Sent != 0 && run.Received != 0 && len(run.Samples) == 2,
					"sent %d, received %d in %d samples", run.Sent, run.Received, len(run.Samples))
				for _, s := range run.Samples {
					must.Hold(t, s.Sent == s.Received-s.Duplicated+s.Lost && s.Duplicated == 0,
						"sent %d, received %d, lost %d, duplicated %d", s.Sent, s.Received, s.Lost, s.Duplicated)
					must.Hold(t, s.Latency != nil && s.Latency.Count == s.Received,
						"%d received, latency of %+v", s.Received, s.Latency)
					if len(s.CPU) != 1 || s.CPU[0].Busy() <= 0 || s.CPUNsPerPacket <= 0 {
						t.Errorf("CPU %+v", s.CPU)
					}
				}
				// A machine that is busy with other things may keep the generator from its rate, but loses nothing.
				if kept := run.LimitedBy == measure.ByNothing || run.LimitedBy == measure.ByUnknown; rate > 0 &&
					(run.Lost != 0 || !kept) {
					t.Errorf("%d lost at %g/s; limited by %s: %q", run.Lost, rate, run.LimitedBy, run.Evidence)
				}
				// On one core nothing is lost; where others keep the receiving side off it, the path is named.
				if method == traffic.XDP && rate == 0 && run.Lost != 0 && run.LimitedBy != measure.ByDevice {
					t.Errorf("%d lost on one core; limited by %s: %q", run.Lost, run.LimitedBy, run.Evidence)
				}
				if got := run.Baseline.Generator; got.Error != "" || got.PPS <= 0 {
					t.Errorf("generator alone: %+v", got)
				}
				if got := run.Baseline.Receiver; got.Error != "" || got.PPS <= 0 {
					t.Errorf("receiver alone: %+v", got)
				}
				in := measure.Counter{Where: "netns:" + b.Netns, Interface: b.Iface, Kind: "veth", Name: "rx_packets"}
				found := false
				for _, d := range run.Counters {
					found = found || d.Counter == in && d.Delta >= run.Received
				}
				must.Hold(t, found, "no counter %v of at least %d in %+v", in, run.Received, run.Counters)
				if after := state(t, a) + state(t, b); after != before {
					t.Errorf("left behind:\n%sfound before:\n%s", after, before)
				}
				t.Logf("%s: %.0f pps, generator alone %.0f, receiver alone %.0f, limited by %s %q, %.0f ns a packet",
					method, run.PPS,
					run.Baseline.Generator.PPS, run.Baseline.Receiver.PPS, run.LimitedBy, run.Evidence,
					run.CPUNsPerPacket)
			})
		}
	}
}

// Both directions at once are counted apart, by every way of sending and counting, and nothing of one is taken for the
// other.
func TestTwoWay(t *testing.T) {
	for _, c := range []struct {
		method traffic.Method
		mix    string
	}{{traffic.XDP, IMIX}, {traffic.AFPacket, ""}} {
		t.Run(fmt.Sprintf("%s %s", c.method, c.mix), func(t *testing.T) {
			a, b := twoNamespaces(t)
			before := state(t, a) + state(t, b)
			load := shortLoad(5_000)
			load.TwoWay, load.Latency, load.Mix = true, true, c.mix
			if c.mix != "" {
				load.FrameBytes = MixBytes(c.mix)
			}
			p, err := Between(t.Context(), machineOf(t), a, b, load, Options{Generator: c.method, Sink: c.method})
			check(t, err)
			run := &measure.Run{Kind: measure.PPS, Load: load}
			err = (&measure.Bench{Path: p}).Run(t.Context(), run)
			check(t, errors.Join(err, p.Close()))
			must.Need(t, len(run.Ways) == 2 && run.OfferedPPS == 10_000 && len(run.Samples) == 2,
				"%d ways, offered %g, %d samples", len(run.Ways), run.OfferedPPS, len(run.Samples))
			for i, s := range run.Samples {
				var sent, received, lost uint64
				for way, w := range s.Ways {
					sent, received, lost = sent+w.Sent, received+w.Received, lost+w.Lost
					must.Hold(t, w.Sent != 0 && w.Sent == w.Received-w.Duplicated+w.Lost && w.Lost == 0 &&
						w.Duplicated == 0, "sample %d, way %d: %+v", i, way, w)
				}
				must.Hold(t, sent == s.Sent && received == s.Received && lost == s.Lost && s.Latency != nil &&
					s.Latency.Count == s.Received, "sample %d: sent %d of %d, received %d of %d, latency %+v", i, sent,
					s.Sent, received, s.Received, s.Latency)
			}
			if g, r := run.Baseline.Generator, run.Baseline.Receiver; g.Error != "" || r.Error != "" || g.PPS <= 0 ||
				r.PPS <= 0 {
				t.Errorf("alone: generator %+v, receiver %+v", g, r)
			}
			if after := state(t, a) + state(t, b); after != before {
				t.Errorf("left behind:\n%sfound before:\n%s", after, before)
			}
		})
	}
}

// The receiver's own clock tells over how long frames arrived: as long as they were sent, where nothing is buffered.
func TestReceiverTellsHowLongFramesArrived(t *testing.T) {
	for _, method := range []traffic.Method{traffic.XDP, traffic.AFPacket} {
		a, b := twoNamespaces(t)
		load := shortLoad(20_000)
		p, err := Between(t.Context(), machineOf(t), a, b, load, Options{Generator: method})
		check(t, err)
		check(t, p.Prepare(t.Context(), load))
		sent, err := p.Send(t.Context(), load)
		check(t, err)
		time.Sleep(100 * time.Millisecond)
		arrived, err := p.Arrived(t.Context())
		check(t, errors.Join(err, p.Close()))
		// The last batch is not within the span: 32 frames, more where the receiver was kept from its CPU.
		must.Hold(t, arrived.Frames == sent.Frames && arrived.SpanFrames >= arrived.Frames/4*3 &&
			arrived.SpanFrames < arrived.Frames, "%s: %d of %d frames arrived, %d of them within the span", method,
			arrived.Frames, sent.Frames, arrived.SpanFrames)
		// On a busy machine the last batch, and the end of sending, may come late.
		must.Hold(t, arrived.Span <= sent.Elapsed+20*time.Millisecond && arrived.Span >= load.Duration/4,
			"%s: sent in %v, arrived in %v", method, sent.Elapsed, arrived.Span)
	}
}

func TestCancelledRunLeavesNothing(t *testing.T) {
	a, b := twoNamespaces(t)
	before := state(t, a) + state(t, b)
	load := shortLoad(0)
	load.Repeat = 50
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p, err := Between(ctx, machineOf(t), a, b, load, Options{})
	check(t, err)
	run := &measure.Run{Kind: measure.PPS, Load: load}
	bench := &measure.Bench{Path: p, Progress: func(s measure.Step) {
		if s.N == 3 {
			time.AfterFunc(100*time.Millisecond, cancel)
		}
	}}
	check(t, errors.Join(bench.Run(ctx, run), p.Close()))
	must.Hold(t, run.Partial && len(run.Samples) != 0 && len(run.Samples) != load.Repeat,
		"partial %v with %d samples", run.Partial, len(run.Samples))
	for _, s := range run.Samples {
		must.Hold(t, s.Sent == s.Received-s.Duplicated+s.Lost,
			"sent %d, received %d, lost %d", s.Sent, s.Received, s.Lost)
	}
	if after := state(t, a) + state(t, b); after != before {
		t.Errorf("left behind:\n%sfound before:\n%s", after, before)
	}
}

func TestBetweenRefuses(t *testing.T) {
	a, b := twoNamespaces(t)
	before := state(t, a) + state(t, b)
	small, large := shortLoad(0), shortLoad(0)
	small.FrameBytes, large.FrameBytes = 60, 1519
	for _, c := range []struct {
		name     string
		from, to traffic.Endpoint
		load     measure.Load
		want     string
	}{
		{"the same interface", a, a, shortLoad(0), "both ends are"},
		{"no such namespace", traffic.Endpoint{Netns: "rig-none", Iface: "x"}, b, shortLoad(0), "rig-none"},
		{"no such interface", traffic.Endpoint{Netns: a.Netns, Iface: "nope"}, b, shortLoad(0), "no such interface"},
		{"an interface that is down", a, traffic.Endpoint{Netns: b.Netns, Iface: "lo"}, shortLoad(0), "is down"},
		{"a runt", a, b, small, "expected 64 to 1518"},
		{"a giant", a, b, large, "expected 64 to 1518"},
	} {
		p, err := Between(t.Context(), machineOf(t), c.from, c.to, c.load, Options{})
		if err == nil {
			check(t, p.Close())
			t.Errorf("%s: no error", c.name)
			continue
		}
		var e *outcome.Fault
		must.Hold(t, strings.Contains(err.Error(), c.want) && errors.As(err, &e) && e.Code == 64,
			"%s: %v, expected %q and exit code 64", c.name, err, c.want)
	}
	check(t, a.Do(func() error {
		l, err := netlink.LinkByName(a.Iface)
		if err != nil {
			return err
		}
		return netlink.LinkSetMTU(l, 100)
	}))
	mixed := shortLoad(0)
	mixed.Mix, mixed.FrameBytes = IMIX, MixBytes(IMIX)
	must.Say(t, must.Err(Between(t.Context(), machineOf(t), a, b, mixed, Options{})), "MTU of 1500",
		"IMIX over an MTU of 100")
	fits, big := shortLoad(0), shortLoad(0)
	fits.FrameBytes, big.FrameBytes = 118, 119
	must.Say(t, must.Err(Between(t.Context(), machineOf(t), a, b, big, Options{})), "MTU of 101",
		"a frame of 119 bytes over an MTU of 100")
	p, err := Between(t.Context(), machineOf(t), a, b, fits, Options{})
	check(t, err)
	check(t, p.Close())
	if after := state(t, a) + state(t, b); strings.ReplaceAll(after, "mtu 100 ", "mtu 1500 ") != before {
		t.Errorf("left behind:\n%sfound before:\n%s", after, before)
	}
}

// TestPortLeavesNothing makes ports into a bridge one after the other on one machine: the interfaces of a port that is
// gone are no longer counted, and nothing of it is left.
func TestPortLeavesNothing(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "br0"
	bridge := &netlink.Bridge{LinkAttrs: attrs}
	check(t, errors.Join(netlink.LinkAdd(bridge), os.WriteFile("/sys/class/net/br0/bridge/forward_delay", []byte("0"),
		0), netlink.LinkSetUp(bridge)))
	m := machineOf(t)
	m.count("")
	for range 2 {
		p, remove, err := m.intoBridge(t.Context(), "br0")
		check(t, err)
		seen, err := m.counters(t.Context())
		check(t, err)
		for _, name := range []string{p.Outer.Iface, p.Inner.Iface} {
			if _, counted := seen[measure.Counter{Where: "host", Interface: name, Kind: "veth",
				Name: "rx_packets"}]; !counted {
				t.Errorf("%s is not counted", name)
			}
		}
		check(t, errors.Join(remove(), remove()))
		must.Pass(m.counters(t.Context()))(t, "after the port is gone")
		links, err := netlink.LinkList()
		check(t, err)
		for _, l := range links {
			if l.Type() == "veth" {
				t.Errorf("%s is left", l.Attrs().Name)
			}
		}
	}
}
