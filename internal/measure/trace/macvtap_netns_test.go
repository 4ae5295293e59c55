//go:build netns

package trace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/advise/queuepath"
)

// TestMacvtap: what a guest sends through a macvtap is transmitted on it, and goes on to the device below: out of the
// host, by the guest, and not the host's own.
func TestMacvtap(t *testing.T) {
	const frames = 2_000
	s := newScene(t, 0)
	s.must(s.on.LinkSetNoMaster(s.nic))
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.ParentIndex = "mv0", s.nic.Attrs().Index
	err := s.on.LinkAdd(&netlink.Macvtap{Macvlan: netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE}})
	if errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("this kernel has no macvtap")
	}
	s.must(err)
	s.up(s.on, "mv0")
	var fd int
	s.inHost(func() error {
		node, err := charDevice(t, "mv0")
		if err != nil {
			return err
		}
		if fd, err = unix.Open(node, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); err != nil {
			return fmt.Errorf("%s: %w", node, err)
		}
		request, err := unix.NewIfreq("mv0")
		if err != nil {
			return err
		}
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		return unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	})
	defer unix.Close(fd)
	o := s.watching(Config{EveryPacket: true}, func() {
		for i := range frames {
			s.send(fd, frame(i%8, 1))
		}
		s.settle()
	})
	for to := range wireQueues {
		at := queuepath.Queue{Device: "nic0", Direction: queuepath.Tx, Queue: to}
		claimed := frameSum(o, func(r *queuepath.Row) bool {
			return r.Origin.Device == "mv0" && r.From.Device == "mv0" && r.To == at
		})
		if counted := s.counters.at(t, to, 1); claimed != counted {
			t.Errorf("%v: %d frames of the guest claimed, %d counted on the wire", at, claimed, counted)
		}
	}
	var out uint64
	for _, l := range queuepath.Lanes(o) {
		if l.Way == queuepath.Out && l.Left {
			out += l.Frames
		}
	}
	if out != frames {
		t.Errorf("%d frames on lanes out of the host, expected %d", out, frames)
	}
}

// charDevice makes a node of the file by which a macvtap of the calling thread's namespace is opened.
func charDevice(t *testing.T, name string) (string, error) {
	files, err := filepath.Glob("/sys/class/net/" + name + "/tap*/dev")
	if err != nil || len(files) != 1 {
		return "", fmt.Errorf("files of %s: %v (%v), expected one", name, files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		return "", err
	}
	var major, minor uint32
	if _, err := fmt.Sscanf(strings.TrimSpace(string(text)), "%d:%d", &major, &minor); err != nil {
		return "", err
	}
	node := filepath.Join(t.TempDir(), "tap")
	return node, unix.Mknod(node, unix.S_IFCHR|0o600, int(unix.Mkdev(major, minor)))
}
