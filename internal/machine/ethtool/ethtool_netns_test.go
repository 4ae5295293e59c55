//go:build netns

package ethtool

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/must"
)

// TestIoctlSpeaksAsNetlinkDoes compares the two interfaces to a driver, and writes with the ioctl.
func TestIoctlSpeaksAsNetlinkDoes(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	treetest.IP(t, "link add v0 numtxqueues 4 numrxqueues 4 type veth peer name v1", "tuntap add t0 mode tap")
	e := must.Get(Dial())(t)
	defer e.Close()
	if e.conn == nil {
		t.Skip("this kernel has no ethtool netlink")
	}
	old := &Conn{fd: e.fd}
	for _, c := range []struct {
		g      group
		device string
		field  string
		value  uint32
	}{{channelGroup, "v0", "rx", 3}, {coalesceGroup, "t0", "rx-frames", 16}} {
		must.Succeed(t, old.write(c.g, c.device, c.field, c.value), "%s of %s by ioctl", c.g.what, c.device)
		newer, err1 := e.read(c.g, c.device)
		older, err2 := old.read(c.g, c.device)
		must.Hold(t, err1 == nil && err2 == nil && newer[c.field] == c.value,
			"%s of %s: netlink %v (%v), ioctl %v (%v), want %s %d", c.g.what, c.device, newer, err1, older, err2,
			c.field, c.value)
		for field, value := range newer {
			must.Hold(t, older[field] == value,
				"%s %s of %s: netlink %d, ioctl %d", c.g.what, field, c.device, value, older[field])
		}
	}
	must.Try(t, old.setFeature("v0", "tx-tcp-segmentation", false))
	newer, err1 := e.Features("v0")
	older, err2 := old.Features("v0")
	must.Need(t, err1 == nil && err2 == nil && len(newer) == len(older) && len(newer) >= 20,
		"%d features by netlink (%v), %d by ioctl (%v)", len(newer), err1, len(older), err2)
	for i := range newer {
		must.Hold(t, newer[i] == older[i], "feature by netlink %+v, by ioctl %+v", newer[i], older[i])
	}
	if f, err := old.feature("v0", "tx-tcp-segmentation"); err != nil || f.On {
		t.Errorf("%+v (%v) after it was set off by ioctl", f, err)
	}
	if _, err := old.read(ringGroup, "v9"); !errors.Is(err, unix.ENODEV) {
		t.Errorf("a device that is not there: %v, want ENODEV", err)
	}
}
