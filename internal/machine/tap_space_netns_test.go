//go:build netns

package machine

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/libvirt"
	"mpps/internal/machine/link"
	"mpps/internal/machine/spaces"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/model/reach"
	"mpps/internal/must"
	"mpps/internal/thread"
)

// openTap opens a tap in a network namespace with a name; in the host's if that is empty.
func openTap(t *testing.T, space, name string) *os.File {
	t.Helper()
	var file *os.File
	must.Do(t, thread.Do(func() error {
		if space != "" {
			ns, err := unix.Open("/run/netns/"+space, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(ns)
			if err := unix.Setns(ns, unix.CLONE_NEWNET); err != nil {
				return err
			}
		}
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		file = os.NewFile(uintptr(fd), "tun")
		request, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		return unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}))
	t.Cleanup(func() { file.Close() })
	return file
}

// holdTap starts a process that calls itself QEMU and holds a tap as descriptor 3.
func holdTap(t *testing.T, tap *os.File, netdev string) {
	t.Helper()
	treetest.NamedQEMU(t, func(argv ...string) *exec.Cmd {
		cmd := exec.Command(argv[0], append(argv[1:], "-name", "guest=web", "-netdev", netdev, "-device",
			"virtio-net-pci,netdev=n0,mac=52:54:00:00:00:09")...)
		cmd.ExtraFiles = []*os.File{tap}
		return cmd
	})
}

// TestTapElsewhere: QEMU runs on the host with a tap that another network namespace has, while the host has a tap, or
// another device, of the same name.
func TestTapElsewhere(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	setUp := func(t *testing.T, host string) {
		t.Cleanup(func() {
			for _, device := range []string{"tap9", "br0"} {
				_ = exec.Command("ip", "link", "del", device).Run()
			}
			_ = exec.Command("ip", "netns", "del", "pod").Run()
		})
		treetest.IP(t, "netns add pod", "-n pod link add br1 type bridge", "-n pod link set br1 up",
			"link add br0 type bridge", "link set br0 up", host)
	}
	const hostTap, hostPair = "tuntap add tap9 mode tap", "link add tap9 type veth peer name far9"
	for _, c := range []struct{ name, host, netdev, want string }{
		{"handed over", hostTap, "tap,id=n0,fd=3", "pod:tap9 pod:br1"},
		{"handed over, no tap here", hostPair, "tap,id=n0,fd=3", "pod:tap9 pod:br1"},
		{"by name, moved", "", "tap,id=n0,ifname=tap9,script=no", "pod:tap9 pod:br1"},
		{"own", hostTap, "tap,id=n0,fd=3", "tap9 br0"},
		{"own, by name", hostTap, "tap,id=n0,ifname=tap9,script=no", "tap9 br0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var tap *os.File
			switch {
			case c.host == "": // it is moved away, and another one takes its name
				setUp(t, "link set lo up")
				tap = openTap(t, "", "tap9")
				holdTap(t, tap, c.netdev)
				treetest.IP(t, "link set tap9 netns pod", hostTap)
			case strings.HasPrefix(c.want, "pod:"):
				setUp(t, c.host)
				tap = openTap(t, "pod", "tap9")
				holdTap(t, tap, c.netdev)
			default:
				setUp(t, c.host)
				tap = openTap(t, "", "tap9")
				holdTap(t, tap, c.netdev)
			}
			if strings.HasPrefix(c.want, "pod:") {
				treetest.IP(t, "-n pod link set tap9 master br1", "-n pod link set tap9 up")
			}
			if c.host != hostPair {
				treetest.IP(t, "link set tap9 master br0", "link set tap9 up")
			}
			m, h := treetest.Live(t), &facts.Host{}
			link.Inventory(context.Background(), m, h)
			libvirt.WithoutThreads(context.Background(), m, h, nil)
			h.Guests = facts.Where(h.Guests, func(g facts.Guest) bool { return g.Name == "web" })
			spaces.Inventory(context.Background(), m, h)
			must.Need(t, len(h.Guests) == 1, "guests %+v, unverified %+v", h.Guests, h.Unverified)
			var passed []string
			for _, hop := range reach.Of(h).Paths[0].Hops {
				where := ""
				if n := h.Namespace(hop.Namespace); n != nil {
					where = n.Title() + ":"
				}
				passed = append(passed, where+hop.Device)
			}
			if got := strings.Join(passed, " "); got != c.want {
				t.Errorf("drawn by %s, expected %s: %+v", got, c.want, h.Guests[0].Interfaces)
			}
			for _, tap := range h.Taps {
				if tap.Name == "tap9" && (tap.Guest == "web") != !strings.HasPrefix(c.want, "pod:") {
					t.Errorf("the host's tap9 has guest %q", tap.Guest)
				}
			}
		})
	}
}
