package plan

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// confine takes out places of vhost threads that their guest's emulator keeps them from, and that stays as it is:
// libvirt holds them in its cpuset, and a CPU outside of a cpuset is refused with EINVAL (kernel/sched/core.c,
// __sched_setaffinity).
func (p *Plan) confine(h *facts.Host) {
	p.Changes = slices.DeleteFunc(p.Changes, func(c Change) bool {
		if c.Address.Kind != setting.ThreadAffinity || !strings.HasPrefix(c.Address.Rest(), "vhost/") {
			return false
		}
		held := p.emulatorCPUs(h, c.Address.Object())
		wanted, err := setting.ParseCPUs(c.To.Value)
		if err != nil || len(held) == 0 || len(wanted.Minus(held)) == 0 {
			return false
		}
		p.Skipped = append(p.Skipped, Skipped{
			ID: c.ID, Address: c.Address, Found: c.From.String(), Wanted: c.To.String(),
			Why: fmt.Sprintf("CPU %s is outside the CPUs of the emulator (%s), in which libvirt's cpuset holds the "+
				"vhost threads too: 'virsh emulatorpin %s CPUS --live' comes first",
				wanted, held, c.Address.Object()),
		})
		return true
	})
}

// emulatorCPUs are the CPUs that a running guest's emulator has once the plan is applied; empty where that is not
// known.
func (p *Plan) emulatorCPUs(h *facts.Host, guest string) setting.CPUSet {
	for _, c := range p.Changes {
		if c.Address == setting.Of(setting.DomainLive, guest, "emulatorpin") {
			set, err := setting.ParseCPUs(c.To.Value)
			if err == nil {
				return set
			}
		}
	}
	for _, g := range h.Guests {
		if g.Name != guest {
			continue
		}
		for _, t := range g.Threads {
			if t.Role == "emulator" {
				return t.Affinity
			}
		}
	}
	return nil
}
