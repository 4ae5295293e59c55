package machine

import (
	"context"
	"os"
	"time"

	"mpps/internal/machine/libvirt"
	"mpps/internal/machine/link"
	"mpps/internal/machine/vf"
	"mpps/internal/model/facts"
)

// Functions returns the part of the inventory about VFs: NICs that have or can have VFs, the VFs, reservations, and
// guests without their threads. A host with a thousand VFs may have as many interfaces, and the whole inventory
// reads the rings, channels and interrupts of each.
func (m *Machine) Functions(ctx context.Context) *facts.Host {
	h := &facts.Host{
		Name: m.Line("proc/sys/kernel/hostname"), Taken: time.Now().UTC(), Root: m.Path, AsRoot: os.Geteuid() == 0,
		NICs: []facts.NIC{}, VFs: []facts.VF{}, Readings: facts.Readings{},
	}
	link.Functions(m.Tree, h)
	vf.Reservations(ctx, m.Tree, h)
	libvirt.Pools(ctx, m.Tree, h)
	libvirt.WithoutThreads(ctx, m.Tree, h, m.definitions)
	vf.Holders(ctx, m.Tree, h)
	return h
}
