package rig

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"mpps/internal/measure"
	"mpps/internal/traffic"
)

// generatorAlone measures a generator without the device: XDP live frames are made and dropped where the device would
// get them; packet sockets, whose cost is the system call and the way through the device layer, send into a veth pair
// of their own.
func generatorAlone(ctx context.Context, config traffic.Config, load measure.Load) measure.Alone {
	if config.Method != traffic.XDP {
		return loop(ctx, load, config.Method, traffic.Auto, config.CPUs, false)
	}
	a := measure.Alone{How: "frames dropped in front of the device"}
	config.Discard, config.Duration, config.Stamp, config.Rate = true, load.Duration, load.Latency, 0
	g, err := traffic.NewGenerator(config)
	if err != nil {
		a.Error = err.Error()
		return a
	}
	defer g.Close()
	r, err := g.Run(ctx)
	if err != nil {
		a.Error = err.Error()
		return a
	}
	a.PPS, a.Seconds = r.PPS(), r.Elapsed.Seconds()
	return a
}

// receiverAlone measures a sink with a generator right in front of it.
func receiverAlone(ctx context.Context, config traffic.SinkConfig, load measure.Load) measure.Alone {
	return loop(ctx, load, traffic.Auto, config.Method, nil, true)
}

// loop sends as fast as possible over a veth pair in a namespace of its own and tells the rate sent, or the rate
// received.
func loop(ctx context.Context, load measure.Load, send, count traffic.Method, cpus []int, received bool) (a measure.Alone) {
	a.How = "on a veth pair of its own"
	fail := func(err error) measure.Alone {
		a.Error = err.Error()
		return a
	}
	ns, remove, err := privateNamespace()
	if err != nil {
		return fail(err)
	}
	defer func() {
		if err := remove(); err != nil && a.Error == "" {
			a.Error = err.Error()
		}
	}()
	from, to := traffic.Endpoint{Netns: ns, Iface: "out"}, traffic.Endpoint{Netns: ns, Iface: "in"}
	if err := veth(from, to, max(1500, load.FrameBytes)); err != nil {
		return fail(err)
	}
	frame := frameOf(load)
	if device, err := to.Device(); err == nil {
		frame.DstMAC = device.MAC
	}
	sink, err := traffic.NewSink(traffic.SinkConfig{In: to, Streams: max(1, len(cpus)), Method: count, Latency: load.Latency && received})
	if err != nil {
		return fail(err)
	}
	defer sink.Close()
	generator, err := traffic.NewGenerator(traffic.Config{Out: from, Frame: frame, Duration: load.Duration, Method: send, CPUs: cpus, Stamp: load.Latency})
	if err != nil {
		return fail(err)
	}
	defer generator.Close()
	sent, err := generator.Run(ctx)
	if err != nil {
		return fail(err)
	}
	if sent.Elapsed <= 0 {
		return fail(errNoTime)
	}
	a.Seconds, a.PPS = sent.Elapsed.Seconds(), sent.PPS()
	if received {
		counts, err := sink.Counts()
		if err != nil {
			return fail(err)
		}
		a.PPS = perSecond(counts.Unique(), sent.Elapsed)
		a.AtLeast = counts.Lost(sent.Sent)*1000 <= sent.Sent
	}
	return a
}

// privatePrefix begins the names of everything that this package makes; the number of the process follows, so that what
// a dead run left can be told.
const privatePrefix = "mpps-"

// privateNamespace makes a network namespace of a name of its own and returns what removes it.
func privateNamespace() (name string, remove func() error, err error) {
	for try := range 100 {
		name = privatePrefix + strconv.Itoa(os.Getpid()) + "-" + strconv.Itoa(try)
		if _, err := os.Lstat("/run/netns/" + name); err == nil {
			continue
		}
		done := make(chan error, 1)
		go func() {
			runtime.LockOSThread() // never unlocked: the thread, now in the new namespace, ends with the goroutine
			handle, err := netns.NewNamed(name)
			if err == nil {
				err = handle.Close()
			}
			done <- err
		}()
		if err := <-done; err != nil {
			return "", nil, fmt.Errorf("make network namespace %s: %w", name, err)
		}
		return name, func() error {
			if err := netns.DeleteNamed(name); err != nil {
				return fmt.Errorf("remove network namespace %s: %w", name, err)
			}
			return nil
		}, nil
	}
	return "", nil, fmt.Errorf("make a network namespace: all names are taken")
}

// removeStaleNamespaces removes the namespaces that dead runs left, and returns their names.
func (m *Machine) removeStaleNamespaces() (removed []string) {
	entries, err := os.ReadDir("/run/netns")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		rest, ours := strings.CutPrefix(e.Name(), privatePrefix)
		text, _, numbered := strings.Cut(rest, "-")
		pid, err := strconv.Atoi(text)
		if ours && numbered && err == nil && m.startTime(pid) == 0 && netns.DeleteNamed(e.Name()) == nil {
			removed = append(removed, e.Name())
		}
	}
	return removed
}

// veth makes a pair between two ends in one namespace and sets both up.
func veth(a, b traffic.Endpoint, mtu int) error {
	return a.Do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = a.Iface, mtu
		pair := &netlink.Veth{LinkAttrs: attrs, PeerName: b.Iface, PeerMTU: uint32(mtu)}
		if err := netlink.LinkAdd(pair); err != nil {
			return fmt.Errorf("make veth pair %s–%s: %w", a, b, err)
		}
		for _, name := range []string{a.Iface, b.Iface} {
			l, err := netlink.LinkByName(name)
			if err == nil {
				err = netlink.LinkSetUp(l)
			}
			if err != nil {
				return fmt.Errorf("set %s up: %w", name, err)
			}
		}
		return nil
	})
}

// randomMAC is a locally administered address that sorts high: a bridge takes the lowest address of its ports as its own
// (br_stp_recalculate_bridge_id in net/bridge/br_stp_if.c) and must not change it for our sake; libvirt's taps begin
// with fe for the same reason.
func randomMAC(last ...byte) net.HardwareAddr {
	mac := net.HardwareAddr{0xfe, 0x6d, 0x70, 0, 0, 0}
	copy(mac[3:], last)
	return mac
}
