package vf

import (
	"context"
	"path"
	"slices"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// Holders finds the processes that have a virtual function open and are none of the guests: DPDK, a container, a QEMU
// that hangs after its guest is gone. Only functions that are bound to a driver for that, or serve vDPA, can be held,
// and one that a running guest has is its.
func Holders(_ context.Context, m *tree.Tree, h *facts.Host) {
	runs := map[string]bool{}
	for i := range h.Guests {
		runs["guest "+h.Guests[i].Name] = h.Guests[i].Active()
	}
	var holders map[string][]string
	for i := range h.VFs {
		f := &h.VFs[i]
		dir := path.Join(pciDevices, f.PCI)
		if !facts.PassesThrough(f.Driver) && len(vdpaNodes(m, dir)) == 0 || runs["guest "+f.Guest] {
			continue
		}
		if holders == nil {
			holders = vfioHolders(m)
		}
		var by []string
		for _, node := range vfioNodes(m, dir) {
			by = append(by, holders[node]...)
		}
		slices.Sort(by)
		f.Holder = strings.Join(slices.Compact(by), ", ")
	}
}

// elsewhere reports whether a PCI device has its interface in another network namespace: its directory net is there as
// long as it has an interface, and shows those of the reader's own namespace (drivers/base/core.c, get_device_parent
// and cleanup_glue_dir; Documentation/networking/sysfs-tagging.rst).
func elsewhere(m *tree.Tree, dir string) bool {
	return m.Exists(path.Join(dir, "net")) && len(m.List(path.Join(dir, "net"))) == 0
}
