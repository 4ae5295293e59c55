package host

import (
	"context"
	"os"
	"time"

	"mpps/internal/facts"
	"mpps/internal/setting"
)

// Inventory takes stock of the machine. What could not be seen is listed in Unseen; it never fails as a whole.
func (m *Machine) Inventory(ctx context.Context) *facts.Host {
	h := &facts.Host{
		Name: m.line("proc/sys/kernel/hostname"), Taken: time.Now().UTC(), Root: m.path,
		AsRoot: os.Geteuid() == 0, Readings: facts.Readings{},
	}
	for _, part := range []func(context.Context, *facts.Host){
		m.kernel, m.boot, m.firmware, m.power, m.attestations, m.topology, m.network, m.netfilter, m.kvm, m.services, m.lasting, m.guests, m.insides, m.housekeeping,
	} {
		part(ctx, h)
	}
	return h
}

// Read reads every address and stores what was found in the host's readings.
func Read(ctx context.Context, mechanisms setting.Mechanisms, h *facts.Host, addresses []setting.Address) {
	for _, a := range addresses {
		h.Readings[a] = mechanisms.Read(ctx, a)
	}
}
