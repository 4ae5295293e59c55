package vf

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/machine/libvirt"
	"mpps/internal/machine/tree"
	"mpps/internal/machine/trust"
	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
)

// InUse is the error for VFs that cannot be removed because they are in use.
type InUse struct {
	PF   string
	Uses []string // "function 1 (0000:01:10.2) by guest fw1"
}

// Error names up to four uses.
func (u *InUse) Error() string {
	named := u.Uses[:min(4, len(u.Uses))]
	text := strings.Join(named, "; ")
	if more := len(u.Uses) - len(named); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return "another count takes all virtual functions of " + u.PF + " away, and they are in use: " + text
}

// Hint returns what to do.
func (u *InUse) Hint() string {
	return "shut the guest down or take the function out of it ('mpps sriov release', 'virsh detach-device'), end " +
		"the process, or take the device out of what is above it"
}

// uses returns who uses a PF's VFs now: running guests, from libvirt's files or as QEMU processes, other processes that
// have opened one with VFIO, and devices of the host above one (a bridge, a bond, a macvtap). An error means unknown,
// not unused.
func (p physical) uses() ([]string, error) {
	guests, err := runningHostdevs(p.m)
	if err != nil {
		return nil, err
	}
	holders := vfioHolders(p.m)
	var all []string
	for i := range p.count {
		dir, pci := p.function(i)
		if pci == "" {
			break
		}
		var by []string
		if guest := guests[pci]; guest != "" {
			by = append(by, "guest "+guest)
		}
		for _, node := range vfioNodes(p.m, dir) {
			for _, who := range holders[node] {
				if !slices.Contains(by, who) {
					by = append(by, who)
				}
			}
		}
		if inOtherNamespace(p.m, dir) {
			by = append(by, facts.OtherNamespace)
		}
		for _, nic := range p.m.List(path.Join(dir, "net")) {
			for _, entry := range p.m.List(path.Join(dir, "net", nic)) {
				if upper, found := strings.CutPrefix(entry, "upper_"); found {
					by = append(by, upper+", which is above its device "+nic)
				}
			}
		}
		if len(by) > 0 {
			all = append(all, fmt.Sprintf("function %d (%s) by %s", i, pci, strings.Join(by, " and ")))
		}
	}
	return all, nil
}

// runningHostdevs returns the running guest of each PCI device that is passed through, from libvirt's status files,
// which need no daemon. A file that cannot be read is an error.
func runningHostdevs(m *tree.Tree) (map[string]string, error) {
	all := map[string]string{}
	guests, err := libvirt.ByFiles(context.Background(), m)
	if err != nil {
		return nil, fmt.Errorf("which guest has what cannot be determined: %w", err)
	}
	for _, u := range guests.Unread {
		return nil, fmt.Errorf("what %s has cannot be determined: %s", u.What, u.Why)
	}
	for _, g := range guests.Guests {
		if g.Running == "" {
			continue
		}
		doc, err := domain.Parse([]byte(g.Running))
		if err != nil {
			return nil, fmt.Errorf("what guest %s runs with cannot be determined: %w", g.Name, err)
		}
		for _, pci := range libvirt.FunctionsOf(doc.Guest()) {
			all[pci] = g.Name
		}
	}
	return all, nil
}

// vfioNodes returns the files through which a program can open a PCI device: its group's below /dev/vfio, since Linux
// 6.6 also its own there (drivers/vfio/group.c, drivers/vfio/device_cdev.c), those of UIO (drivers/uio/uio.c), and of
// vDPA (drivers/vhost/vdpa.c).
func vfioNodes(m *tree.Tree, dir string) []string {
	var all []string
	if group := m.Target(path.Join(dir, "iommu_group")); group != "" {
		all = append(all, "/dev/vfio/"+group, "/dev/vfio/noiommu-"+group)
	}
	for _, name := range m.List(path.Join(dir, "vfio-dev")) {
		all = append(all, "/dev/vfio/devices/"+name)
	}
	for _, name := range m.List(path.Join(dir, "uio")) {
		all = append(all, "/dev/"+name)
	}
	return append(all, vdpaNodes(m, dir)...)
}

// vdpaNodes returns the files of a function's vDPA devices. A VF that serves one keeps its driver.
func vdpaNodes(m *tree.Tree, dir string) []string {
	var all []string
	for _, device := range m.List(dir) {
		if !strings.HasPrefix(device, "vdpa") {
			continue
		}
		for _, node := range m.List(path.Join(dir, device)) {
			if strings.HasPrefix(node, "vhost-vdpa-") {
				all = append(all, "/dev/"+node)
			}
		}
	}
	return all
}

// vfioHolders returns the processes that have each file below /dev/vfio, of UIO or vDPA open: "guest fw1" for a QEMU
// process, "dpdk-testpmd (process 4711)" for another. Other users' processes need root.
func vfioHolders(m *tree.Tree) map[string][]string {
	all := map[string][]string{}
	processes := trust.Processes(m)
	guests := libvirt.GuestsOf(m, processes)
	for _, p := range processes {
		dir := "proc/" + strconv.Itoa(p.PID) + "/fd"
		who := fmt.Sprintf("%s (process %d)", p.Name(), p.PID)
		if guest, is := guests[p.PID]; is {
			who = "guest " + guest
		}
		for _, fd := range m.List(dir) {
			node, err := m.Readlink(dir + "/" + fd)
			if err == nil && opensDevice(node) && !slices.Contains(all[node], who) {
				all[node] = append(all[node], who)
			}
		}
	}
	return all
}

// opensDevice reports whether a file belongs to a device or to a device's group.
func opensDevice(node string) bool {
	return node != "/dev/vfio/vfio" &&
		(strings.HasPrefix(node, "/dev/vfio/") || strings.HasPrefix(node, "/dev/uio") ||
			strings.HasPrefix(node, "/dev/vhost-vdpa-"))
}
