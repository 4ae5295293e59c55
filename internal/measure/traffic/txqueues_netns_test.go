//go:build netns

package traffic

import (
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

// TestWorkersTakeQueues: the queues of a device are known without a sysfs of its namespace, and the CPUs chosen for
// them make live frames take several.
func TestWorkersTakeQueues(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("one CPU chooses one queue")
	}
	a, b := pair(t)
	if n := mustDevice(t, a).TxQueues(); n != 1 {
		t.Errorf("a veth has %d transmit queues in use, expected 1", n)
	}
	widen(t, a, b)
	dev := mustDevice(t, a)
	if n := dev.TxQueues(); n != 4 {
		t.Fatalf("found %d transmit queues, expected 4", n)
	}
	allowed := must.Get(AllowedCPUs())(t)
	cpus := WorkerCPUs(allowed, dev.TxQueues())
	s := mustSink(t, SinkConfig{In: b, Method: XDP, Streams: len(cpus)})
	r := mustRun(t, mustGenerator(t, Config{Out: a, Method: XDP, CPUs: cpus, Duration: time.Second}))
	if len(r.Workers) != len(cpus) {
		t.Errorf("%d workers, expected %d", len(r.Workers), len(cpus))
	}
	settle(t, s)
	var queues int
	must.Do(t, b.Do(func() error {
		queues = busyQueues(t, b.Iface)
		return nil
	}))
	if queues != len(cpus) {
		t.Errorf("frames arrived by %d queues, expected %d", queues, len(cpus))
	}
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
