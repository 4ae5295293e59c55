package vf

import (
	"context"
	"path"
	"slices"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// Holders sets Holder of each VF to the processes that have it open and are not a guest: DPDK, a container, a QEMU that
// hangs after its guest is gone. Only VFs that are bound to a passthrough driver or serve vDPA can be open. The VF of a
// running guest is the guest's.
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

// inOtherNamespace reports whether a PCI device's interface is in another network namespace: its directory net exists
// as long as it has an interface, but lists only those in the reader's namespace (drivers/base/core.c,
// get_device_parent and cleanup_glue_dir; Documentation/networking/sysfs-tagging.rst).
func inOtherNamespace(m *tree.Tree, dir string) bool {
	return m.Exists(path.Join(dir, "net")) && len(m.List(path.Join(dir, "net"))) == 0
}
