//go:build netns

package traffic

import (
	"errors"
	"regexp"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"mpps/internal/machine/nicctl"
	"mpps/internal/must"
)

// TestPlantedPktgen sends a hand-made sequence in pktgen's form with loss, a
// duplicate and reordering, and expects each sink to find exactly that, or with
// numbers that repeat to count every frame.
func TestPlantedPktgen(t *testing.T) {
	a, b := pair(t)
	for _, m := range []Method{XDP, AFPacket} {
		for _, unnumbered := range []bool{false, true} {
			s := mustSink(t, SinkConfig{In: b, Method: m, Stream: 3, Streams: 2, Pktgen: true, Unnumbered: unnumbered})
			d := must.Get(a.Device())(t)
			fd := rawSocket(t, d, 0)
			done := onWorkerThread("", 0, func(int) error {
				for worker := range 3 { // the third is of a stream that is not counted
					for _, seq := range []uint32{1, 2, 4, 3, 5, 5, 9} {
						if err := unix.Send(fd, pktgenFrame(t, worker, seq), 0); err != nil {
							return err
						}
					}
				}
				return nil
			})
			must.Do(t, <-done)
			c := settle(t, s, 14)
			want := StreamCounts{Received: 7, Next: 9, Duplicated: 1, Reordered: 1}
			if unnumbered {
				want = StreamCounts{Received: 7, Next: 7}
			}
			for i, x := range c.Streams {
				must.Hold(t, x.Stream == uint16(3+i) && x.Received == want.Received && x.Next == want.Next &&
					x.Duplicated == want.Duplicated && x.Reordered == want.Reordered,
					"%s, unnumbered %v: %+v, want %+v", m, unnumbered, x, want)
			}
			must.Hold(t, c.Received == 14 && c.Foreign == 7, "%s: %+v", m, c)
			must.Try(t, s.Close())
		}
	}
	// Who does not ask for them does not count them.
	s := mustSink(t, SinkConfig{In: b, Method: XDP, Stream: 0})
	d := must.Get(a.Device())(t)
	must.Do(t, unix.Send(rawSocket(t, d, 0), pktgenFrame(t, 0, 1), 0))
	if c := settle(t, s, 0); c.Received != 0 || c.Foreign != 0 {
		t.Errorf("%+v", c)
	}
}

// TestNoPktgen: where the module is not loaded the reason says so.
func TestNoPktgen(t *testing.T) {
	a, _ := pair(t)
	g, err := NewGenerator(t.Context(), Config{Out: a, Method: Pktgen})
	if err == nil {
		t.Cleanup(func() { g.Close() })
		t.Skip("this kernel has pktgen loaded: test/bench in the lab sends with it")
	}
	var why *UnsupportedError
	must.Hold(t, errors.Is(err, ErrNoPktgen) && errors.As(err, &why) && why.Answer == No, "%v", err)
}

// TestWorkersTakeQueues: a device's queues are found without mounting its namespace's sysfs, and the CPUs chosen for
// them spread live frames over several.
func TestWorkersTakeQueues(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("one CPU chooses one queue")
	}
	a, b := pair(t)
	must.Equal(t, mustDevice(t, a).TxQueues(), 1, "a veth has transmit queues in use")
	widen(t, a, b)
	dev := mustDevice(t, a)
	if n := dev.TxQueues(); n != 4 {
		t.Fatalf("found %d transmit queues, expected 4", n)
	}
	allowed := must.Get(AllowedCPUs())(t)
	cpus := WorkerCPUs(allowed, dev.TxQueues())
	s := mustSink(t, SinkConfig{In: b, Method: XDP, Streams: len(cpus)})
	r := mustRun(t, mustGenerator(t, Config{Out: a, Method: XDP, CPUs: cpus, Duration: time.Second}))
	must.Equal(t, len(r.Workers), len(cpus), "workers")
	settle(t, s, 0)
	var queues int
	must.Do(t, b.Do(func() error {
		queues = busyQueues(t, b.Iface)
		return nil
	}))
	must.Equal(t, queues, len(cpus), "frames arrived by queues")
}

// widen gives both ends of a pair four queues.
func widen(t *testing.T, a, b Endpoint) {
	t.Helper()
	far := must.Get(netns.GetFromName(b.Netns))(t)
	defer far.Close()
	must.Do(t, a.Do(func() error {
		old, err := netlink.LinkByName(a.Iface)
		if err != nil {
			return err
		}
		if err := netlink.LinkDel(old); err != nil {
			return err
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.NumTxQueues, attrs.NumRxQueues = a.Iface, 4, 4
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: b.Iface, PeerNamespace: netlink.NsFd(int(far)),
			PeerNumTxQueues: 4, PeerNumRxQueues: 4})
	}))
	for _, e := range []Endpoint{a, b} {
		must.Do(t, e.Do(func() error {
			l, err := netlink.LinkByName(e.Iface)
			if err != nil {
				return err
			}
			return netlink.LinkSetUp(l)
		}))
	}
}

func mustDevice(t *testing.T, e Endpoint) Device {
	t.Helper()
	d := must.Get(e.Device())(t)
	return d
}

// busyQueues returns how many receive queues of a veth have had packets while it had a program.
func busyQueues(t *testing.T, iface string) (n int) {
	t.Helper()
	socket := must.Get(unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0))(t)
	defer unix.Close(socket)
	d := must.Get(nicctl.ReadDriver(socket, iface))(t)
	for name, packets := range nicctl.Statistics(socket, iface, d.Statistics) {
		if regexp.MustCompile(`^rx_queue_\d+_xdp_packets$`).MatchString(name) && packets > 0 {
			n++
		}
	}
	return n
}
