package machine

import (
	"context"
	"os"
	"time"

	"mpps/internal/machine/boot"
	"mpps/internal/machine/cpu"
	"mpps/internal/machine/irq"
	"mpps/internal/machine/kernel"
	"mpps/internal/machine/libvirt"
	"mpps/internal/machine/link"
	"mpps/internal/machine/netfilter"
	"mpps/internal/machine/ovs"
	"mpps/internal/machine/pollers"
	"mpps/internal/machine/spaces"
	"mpps/internal/machine/systemd"
	"mpps/internal/machine/tree"
	"mpps/internal/machine/vf"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Inventory reads all facts of the machine. What could not be read is in Unseen; it never fails as a whole, unless ctx
// is cancelled: the facts are incomplete then and must not be used.
func (m *Machine) Inventory(ctx context.Context) *facts.Host {
	m = m.Within(ctx)
	h := &facts.Host{
		Name: m.Line("proc/sys/kernel/hostname"), Taken: time.Now().UTC(), Root: m.Path,
		AsRoot: os.Geteuid() == 0, Readings: facts.Readings{},
	}
	on := m.withTree
	for _, part := range []func(context.Context, *facts.Host){
		on(kernel.Inventory), on(boot.Inventory), on(kernel.Firmware), on(cpu.Power), m.readAttestations,
		on(cpu.Topology), on(ovs.Inventory), on(link.Inventory), on(vf.Reservations), on(libvirt.Pools),
		on(netfilter.Inventory), on(kernel.KVM), on(systemd.Inventory), m.readLasting, m.readGuests,
		on(spaces.Inventory),
		on(pollers.Inventory), m.readIsolation, on(vf.Holders), on(vf.Passthrough), m.Inside.Inventory,
		m.readHousekeeping,
	} {
		part(ctx, h)
	}
	m.NoteMissed(h)
	return h
}

// readIsolation reads cpusets and irqbalance's configuration. Services and guests must have been read before.
func (m *Machine) readIsolation(_ context.Context, h *facts.Host) {
	h.Isolation = &facts.Isolation{Cgroups: cpu.Cpusets(m.Tree, h.Guests), IRQBalance: irq.Balance(m.Tree, h.Services)}
}

func (m *Machine) readGuests(ctx context.Context, h *facts.Host) {
	libvirt.Inventory(ctx, m.Tree, h, m.definitions)
}

// withTree returns a part of the inventory that reads the machine's tree.
func (m *Machine) withTree(part func(context.Context, *tree.Tree, *facts.Host)) func(context.Context, *facts.Host) {
	return func(ctx context.Context, h *facts.Host) { part(ctx, m.Tree, h) }
}

// together is a mechanism that reads many addresses at the cost of one.
type together interface {
	ReadTogether([]setting.Address) []setting.Reading
}

// Read reads every address into h.Readings. Values inside a guest, which need programs there, are read together, and so
// are those of mechanisms that can. Once ctx is cancelled nothing more is read.
func Read(ctx context.Context, mechanisms setting.Mechanisms, h *facts.Host, addresses []setting.Address) {
	type guest struct {
		kind setting.Kind
		name string
	}
	var order []guest
	inside := map[guest][]setting.Address{}
	batches := map[setting.Kind][]setting.Address{}
	for _, a := range addresses {
		if tree.Cancelled(ctx) {
			return
		}
		if _, can := mechanisms[a.Kind].(together); can {
			batches[a.Kind] = append(batches[a.Kind], a)
			continue
		}
		if a.Kind != setting.Inside && a.Kind != setting.GuestArg {
			h.Readings[a] = mechanisms.Read(ctx, a)
			continue
		}
		g := guest{a.Kind, a.Object()}
		if inside[g] == nil {
			order = append(order, g)
		}
		inside[g] = append(inside[g], a)
	}
	for kind, all := range batches {
		for i, r := range mechanisms[kind].(together).ReadTogether(all) {
			h.Readings[all[i]] = r
		}
	}
	for _, g := range order {
		all := inside[g]
		for i, r := range mechanisms.ReadAll(ctx, all) {
			h.Readings[all[i]] = r
		}
	}
}
