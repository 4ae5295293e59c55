//go:build netns

package rig

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/measure"
	"mpps/internal/measure/traffic"
	"mpps/internal/must"
)

// moved are the counters that moved while something was done.
func moved(t *testing.T, m *Machine, do func()) []measure.Delta {
	t.Helper()
	before, err := m.counters(t.Context())
	check(t, err)
	do()
	after, err := m.counters(t.Context())
	check(t, err)
	return measure.Deltas(before, after)
}

// only requires that all of a loss was seen at one place, and nothing of it twice.
func only(t *testing.T, place measure.Place, losses []measure.Loss, unexplained, lost uint64) {
	t.Helper()
	var there, elsewhere uint64
	for _, l := range losses {
		if l.Place == place {
			there += l.Packets
		} else {
			elsewhere += l.Packets
		}
	}
	// The namespaces have a few packets of their own (IPv6), which may be lost as well.
	must.Hold(t, lost != 0 && unexplained <= 0 && there >= lost && there <= lost+20 && elsewhere <= 20,
		"%d lost, %d of them seen at %s and %d elsewhere, %d not seen: %+v", lost, there, place, elsewhere, unexplained,
		losses)
}

// The root discipline has its own child, and both count what the child drops. So does an interface on top of the
// one with the discipline.
func TestLossAtQdisc(t *testing.T) {
	a, b := twoNamespaces(t)
	upper := traffic.Endpoint{Netns: a.Netns, Iface: "upper0"}
	check(t, a.Do(func() error {
		l, err := netlink.LinkByName(a.Iface)
		if err != nil {
			return err
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.ParentIndex = upper.Iface, l.Attrs().Index
		if err := netlink.LinkAdd(&netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE}); err != nil {
			return err
		}
		if err := up(upper.Iface); err != nil {
			return err
		}
		return netlink.QdiscAdd(&netlink.Tbf{
			QdiscAttrs: netlink.QdiscAttrs{LinkIndex: l.Attrs().Index, Handle: netlink.MakeHandle(1, 0),
				Parent: netlink.HANDLE_ROOT},
			Rate: 50_000, Limit: 3000, Buffer: 100_000, // bytes/s, bytes, ticks
		})
	}))
	m := machineOf(t)
	m.count(a.Netns, b.Netns)
	const frames = 400
	for _, out := range []traffic.Endpoint{a, upper} {
		deltas := moved(t, m, func() {
			send(t, out, frames)
			time.Sleep(time.Second) // what the bucket held back: 60 ms at its rate
		})
		var received, refused uint64
		for _, d := range deltas {
			switch {
			case d.Interface == b.Iface && d.Name == "rx_packets":
				received = d.Delta
			case d.Interface == upper.Iface && d.Name == "tx_refused_below":
				refused = d.Delta
			}
		}
		lost := frames - min(received, frames)
		losses, unexplained := measure.LocateLoss(deltas, lost)
		only(t, measure.AtQdisc, losses, unexplained, lost)
		if out == upper && refused < lost {
			t.Errorf("%d lost, and the interface on top counts %d", lost, refused)
		}
	}
}

// send sends frames to nobody out of an interface.
func send(t *testing.T, out traffic.Endpoint, frames int) {
	t.Helper()
	check(t, out.Do(func() error {
		l, err := netlink.LinkByName(out.Iface)
		if err != nil {
			return err
		}
		s, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(s)
		frame := make([]byte, 200)
		copy(frame, []byte{2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 0x88, 0xb5}) // an experimental protocol
		for range frames {
			err := unix.Sendto(s, frame, 0, &unix.SockaddrLinklayer{Ifindex: l.Attrs().Index, Protocol: 0xb588})
			if err != nil && err != unix.ENOBUFS { // the packet was dropped
				return err
			}
		}
		return nil
	}))
}

// A tap that nobody reads from takes what its ring holds.
func TestLossAtTap(t *testing.T) {
	a, _ := twoNamespaces(t)
	tap := traffic.Endpoint{Netns: a.Netns, Iface: "tap0"}
	check(t, tap.Do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.TxQLen = tap.Iface, 64
		made := &netlink.Tuntap{LinkAttrs: attrs, Mode: netlink.TUNTAP_MODE_TAP,
			Flags: netlink.TUNTAP_NO_PI | netlink.TUNTAP_ONE_QUEUE, NonPersist: true, Queues: 1}
		if err := netlink.LinkAdd(made); err != nil {
			return err
		}
		t.Cleanup(func() { _ = made.Fds[0].Close() }) // ends the tap
		l, err := netlink.LinkByName(tap.Iface)
		if err == nil {
			err = netlink.LinkSetTxQLen(l, 64)
		}
		if err == nil {
			err = netlink.LinkSetUp(l)
		}
		return err
	}))
	m := machineOf(t)
	m.count(a.Netns)
	deltas := moved(t, m, func() { send(t, tap, 300) })
	var taken uint64
	for _, d := range deltas {
		if d.Interface == tap.Iface && d.Name == "tx_dropped" {
			taken = 300 - min(d.Delta, 300)
		}
	}
	losses, unexplained := measure.LocateLoss(deltas, 300-64)
	if only(t, measure.AtTap, losses, unexplained, 300-64); taken == 0 {
		t.Error("the ring took nothing")
	}
}

// A socket that is not read from takes what its buffer holds.
func TestLossAtSocket(t *testing.T) {
	a, _ := twoNamespaces(t)
	lo := traffic.Endpoint{Netns: a.Netns, Iface: "lo"}
	check(t, lo.Do(func() error { return up("lo") }))
	m := machineOf(t)
	m.count(a.Netns)
	const datagrams = 200
	received := 0
	deltas := moved(t, m, func() {
		check(t, lo.Do(func() error {
			sink, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
			if err != nil {
				return err
			}
			defer sink.Close()
			if err := sink.SetReadBuffer(4096); err != nil {
				return err
			}
			out, err := net.Dial("udp4", sink.LocalAddr().String())
			if err != nil {
				return err
			}
			defer out.Close()
			for range datagrams {
				if _, err := out.Write(make([]byte, 500)); err != nil {
					return err
				}
			}
			if err := sink.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
				return err
			}
			for buffer := make([]byte, 1000); err == nil; {
				if _, err = sink.Read(buffer); err == nil {
					received++
				}
			}
			return nil
		}))
	})
	lost := uint64(datagrams - received)
	losses, unexplained := measure.LocateLoss(deltas, lost)
	only(t, measure.AtSocket, losses, unexplained, lost)
}
