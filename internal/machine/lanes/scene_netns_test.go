//go:build netns

package lanes

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// inNamespace is treetest.InNamespace with a bpf file system that ends with the child.
func inNamespace(t *testing.T) bool {
	t.Helper()
	return treetest.InNamespace(t, func() error { return unix.Mount("bpf", FileSystem, "bpf", 0, "") })
}

// program returns the program of nic0.
func program(t testing.TB, filters bool) Program {
	t.Helper()
	p := must.Get(programOf("nic0", filters))(t)
	return p
}

func programOf(nic string, filters bool) (Program, error) {
	l, err := netlink.LinkByName(nic)
	if err != nil {
		return Program{}, err
	}
	return Program{Root: FileSystem, NIC: Device{Name: nic, Index: l.Attrs().Index}, Filters: filters,
		Find: func(tap string) (Device, bool) {
			l, err := netlink.LinkByName(tap)
			if err != nil {
				return Device{}, false
			}
			return Device{Name: tap, Index: l.Attrs().Index, Unrecorded: l.Type() == "veth"}, true
		}}, nil
}

// reads returns what is attached, as text.
func (p Program) reads(t *testing.T) string {
	t.Helper()
	lanes, there, err := p.Read()
	switch {
	case err != nil:
		return err.Error()
	case !there:
		return "absent"
	}
	return setting.LanesText(lanes)
}

// nothingLeft fails if there is a pin, a directory for pins, a program or a filter on a device.
func nothingLeft(t *testing.T) {
	t.Helper()
	nothingAttached(t)
	pins, err := filepath.Glob(FileSystem + "/*")
	// the kernel's own
	pins = slices.DeleteFunc(pins, func(name string) bool { return strings.HasSuffix(name, ".debug") })
	must.Hold(t, err == nil && len(pins) <= 0, "pins are left: %q, %v", pins, err)
}

// nothingAttached fails if there is a pin, a program or a filter on a device; empty directories are allowed.
func nothingAttached(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(FileSystem, "mpps"), func(name string, at fs.DirEntry, err error) error {
		if err == nil && !at.IsDir() {
			t.Errorf("a pin is left: %s", name)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	must.Try(t, err)
	links := must.Get(netlink.LinkList())(t)
	for _, l := range links {
		for _, at := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
			if r, err := link.QueryPrograms(link.QueryOptions{Target: l.Attrs().Index, Attach: at}); err == nil &&
				len(r.Programs) > 0 {
				t.Errorf("%s: a program is left", l.Attrs().Name)
			}
		}
		for _, parent := range []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS} {
			if left, err := netlink.FilterList(l, parent); err == nil && len(left) > 0 {
				t.Errorf("%s: %d filters are left", l.Attrs().Name, len(left))
			}
		}
	}
}
