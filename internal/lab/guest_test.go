//go:build lab

package lab_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"mpps/internal/lab"
	"mpps/internal/lab/labtest"
	"mpps/internal/must"
)

// udpProbe waits until a UDP port answers a datagram with at least one byte. Its socket is closed after each attempt,
// so that late answers do not count.
func udpProbe(port int, datagram string) lab.Probe {
	return func(ctx context.Context, l *lab.Lab, addr netip.Addr) error {
		_, err := l.Must(ctx, fmt.Sprintf("until ( exec 4<>/dev/udp/%s/%d && printf %%s '%s' >&4 && "+
			"read -r -t 0.5 -N 1 -u 4 ); do sleep 0.1; done >/dev/null 2>&1", addr, port, datagram))
		return err
	}
}

// startGuest boots the test program as a guest and gives what it says about its NICs.
func startGuest(t *testing.T, l *lab.Lab, spec lab.GuestSpec) (*lab.Guest, string) {
	t.Helper()
	var err error
	if spec.Binary, err = os.Executable(); err != nil {
		t.Fatal(err)
	}
	spec.Probe = udpProbe(7, "hello")
	start := time.Now()
	setup := func() {
		must.Do(t, l.Bridge(t.Context(), "br0", "10.50.0.1/24"))
	}
	setup()
	g := must.Get(l.StartGuest(t.Context(), spec))(t)
	t.Logf("%s answers after %.1f s; %s", spec.Name, time.Since(start).Seconds(),
		strings.ReplaceAll(g.Console(t.Context()), "\n", "; "))
	t.Cleanup(func() {
		start := time.Now()
		if err := g.Stop(context.Background()); err != nil { // the test's context has ended
			t.Error(err)
		}
		t.Logf("%s stopped in %.1f s", spec.Name, time.Since(start).Seconds())
	})
	addr, _ := g.Addr()
	// Datagrams may be lost, and an emulated guest may answer late: each is asked for by another socket.
	out := must.Get(l.Must(t.Context(), "for i in $(seq 30); do ( exec 4<>/dev/udp/"+addr.String()+"/7; printf nics? "+
		">&4; timeout 3 dd bs=2048 count=1 <&4 2>/dev/null ) && exit; done; exit 1"))(t)
	return g, out
}

// TestGuest starts a guest with a NIC of either kind, and once more.
func TestGuest(t *testing.T) {
	labtest.Long(t)
	l := labtest.Host(t, labtest.NoBinary)
	g, nics := startGuest(t, l, lab.GuestSpec{Name: "g1", NICs: []lab.NIC{
		{Model: lab.Vhost, Bridge: "br0", Addr: "10.50.0.3/24", Queues: 2, RxQueue: 1024},
		{Model: lab.E1000, Bridge: "br0", Tap: "te1000"},
	}})
	must.Hold(t, strings.Contains(nics, "=e1000\n") && strings.Contains(nics, "eth0=virtio_net\n") &&
		strings.Contains(nics, "queues=2\n"), "found %q, want an e1000 and virtio_net with 2 queues", nics)
	must.Equal(t, outputOf(t, l, "cat /sys/class/net/te1000/master/uevent | grep INTERFACE"), "INTERFACE=br0", "bridge of the tap")
	must.Equal(t, outputOf(t, l, "ps -eLo comm | grep -c '^vhost-'"), "2", "vhost threads")
	must.Do(t, g.Restart(t.Context()))
	if up, err := g.Running(t.Context()); err != nil || !up {
		t.Errorf("after restart: running %v, %v", up, err)
	}
}

func TestGuestVirtualFunction(t *testing.T) {
	labtest.Long(t)
	l := labtest.Host(t, labtest.NoBinary)
	pci := outputOf(t, l, `d=$(dirname $(grep -l `+lab.MACigb1+` /sys/class/net/*/address))
ip link set ${d##*/} up; echo 2 > $d/device/sriov_numvfs
ip link add link ${d##*/} name mv0 type macvlan mode bridge; ip addr add 10.51.0.1/24 dev mv0; ip link set mv0 up
basename $(readlink $d/device/virtfn0)`)
	t.Cleanup(func() {
		must.Try(t, must.Err(l.Must(context.Background(), `ip link del mv0; d=$(dirname $(grep -l `+lab.MACigb1+
			` /sys/class/net/*/address)); echo 0 > $d/device/sriov_numvfs`)))
	})
	_, nics := startGuest(t, l, lab.GuestSpec{Name: "gvf",
		NICs: []lab.NIC{{Model: lab.VF, VF: pci, Addr: "10.51.0.2/24"}}})
	must.Contain(t, nics, "=igbvf\n")
}
