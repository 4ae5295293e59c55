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
	"mpps/internal/machine/systemd"
	"mpps/internal/machine/tree"
	"mpps/internal/machine/vf"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Inventory takes stock of the machine. What could not be seen is listed in Unseen; it never fails as a whole.
func (m *Machine) Inventory(ctx context.Context) *facts.Host {
	h := &facts.Host{
		Name: m.Line("proc/sys/kernel/hostname"), Taken: time.Now().UTC(), Root: m.Path,
		AsRoot: os.Geteuid() == 0, Readings: facts.Readings{},
	}
	for _, part := range []func(context.Context, *facts.Host){
		m.on(kernel.Inventory), m.on(boot.Inventory), m.on(kernel.Firmware), m.on(cpu.Power), m.attestations,
		m.on(cpu.Topology), m.on(link.Inventory), m.on(vf.Reservations), m.on(libvirt.Pools), m.on(netfilter.Inventory),
		m.on(kernel.KVM), m.on(systemd.Inventory), m.lasting, m.guests, m.isolation, m.on(vf.Holders),
		m.on(vf.Passthrough), m.insides, m.housekeeping,
	} {
		part(ctx, h)
	}
	return h
}

// isolation reads who else says which CPUs are for what. It comes after services and guests.
func (m *Machine) isolation(_ context.Context, h *facts.Host) {
	h.Isolation = &facts.Isolation{Cgroups: cpu.Cpusets(m.Tree, h.Guests), IRQBalance: irq.Balance(m.Tree, h.Services)}
}

// guests lists the guests.
func (m *Machine) guests(ctx context.Context, h *facts.Host) {
	libvirt.Inventory(ctx, m.Tree, h, &m.definitions)
}

// on returns a part of the inventory that reads the machine's tree.
func (m *Machine) on(part func(context.Context, *tree.Tree, *facts.Host)) func(context.Context, *facts.Host) {
	return func(ctx context.Context, h *facts.Host) { part(ctx, m.Tree, h) }
}

// Read reads every address and stores what was found in the host's readings. Values inside one guest, for which
// programs are run there, are read together, and so are those of virtual functions.
func Read(ctx context.Context, mechanisms setting.Mechanisms, h *facts.Host, addresses []setting.Address) {
	var order []string
	inside := map[string][]setting.Address{}
	attributes, together := mechanisms[setting.VFAttr].(interface {
		ReadTogether([]setting.Address) []setting.Reading
	})
	var functions []setting.Address
	for _, a := range addresses {
		if a.Kind == setting.VFAttr && together {
			functions = append(functions, a)
			continue
		}
		if a.Kind != setting.Inside {
			h.Readings[a] = mechanisms.Read(ctx, a)
			continue
		}
		if inside[a.Object()] == nil {
			order = append(order, a.Object())
		}
		inside[a.Object()] = append(inside[a.Object()], a)
	}
	if together {
		for i, r := range attributes.ReadTogether(functions) {
			h.Readings[functions[i]] = r
		}
	}
	for _, guest := range order {
		all := inside[guest]
		for i, r := range mechanisms.ReadAll(ctx, all) {
			h.Readings[all[i]] = r
		}
	}
}
