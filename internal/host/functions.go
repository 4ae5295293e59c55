package host

import (
	"context"
	"os"
	"time"

	"mpps/internal/domain"
	"mpps/internal/facts"
	"mpps/internal/machine/link"
	"mpps/internal/machine/threads"
)

// Functions is the part of the inventory that tells of virtual functions: NICs that have or can have some, the functions,
// reservations, and guests without their threads. A host with a thousand functions may have as many interfaces, each of which
// the whole inventory asks for its rings, channels and interrupts.
func (m *Machine) Functions(ctx context.Context) *facts.Host {
	h := &facts.Host{
		Name: m.Line("proc/sys/kernel/hostname"), Taken: time.Now().UTC(), Root: m.Path, AsRoot: os.Geteuid() == 0,
		NICs: []facts.NIC{}, VFs: []facts.VF{}, Readings: facts.Readings{},
	}
	link.Functions(m.Tree, h)
	m.reservations(ctx, h)
	m.pools(ctx, h)
	m.guestsWith(ctx, h, func(qemu, func() []threads.Process, *domain.Guest) []facts.Thread { return nil })
	m.vfHolders(ctx, h)
	return h
}
