package host

import (
	"context"
	"os"
	"path"
	"time"

	"mpps/internal/domain"
	"mpps/internal/facts"
	"mpps/internal/machine/threads"
	"mpps/internal/machine/tree"
)

// Functions is the part of the inventory that tells of virtual functions: NICs that have or can have some, the functions,
// reservations, and guests without their threads. A host with a thousand functions may have as many interfaces, each of which
// the whole inventory asks for its rings, channels and interrupts.
func (m *Machine) Functions(ctx context.Context) *facts.Host {
	h := &facts.Host{
		Name: m.Line("proc/sys/kernel/hostname"), Taken: time.Now().UTC(), Root: m.Path, AsRoot: os.Geteuid() == 0,
		NICs: []facts.NIC{}, VFs: []facts.VF{}, Readings: facts.Readings{},
	}
	devices := m.devices(h)
	names := make(map[int]string, len(devices))
	for _, d := range devices {
		names[d.index] = d.name
	}
	ways := m.managementPath(devices)
	for _, d := range devices {
		if !m.Exists(path.Join(tree.ClassNet, d.name, "device/sriov_numvfs")) {
			continue
		}
		if n := m.nic(d, names); n.SRIOV != nil {
			n.Management = ways[n.Name]
			h.NICs = append(h.NICs, n)
		}
	}
	m.vfs(h, m.uses(devices, names, ways))
	m.reservations(ctx, h)
	m.pools(ctx, h)
	m.guestsWith(ctx, h, func(qemu, func() []threads.Process, *domain.Guest) []facts.Thread { return nil })
	m.vfHolders(ctx, h)
	return h
}
