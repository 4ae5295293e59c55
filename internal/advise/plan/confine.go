package plan

import (
	"fmt"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// dropOutsideEmulator moves changes of vhost threads to Skipped if their CPUs are outside those of the emulator once
// the plan is applied: libvirt keeps vhost threads in its cpuset, and the kernel refuses a CPU outside of it with
// EINVAL (kernel/sched/core.c, __sched_setaffinity).
func (p *Plan) dropOutsideEmulator(h *facts.Host) {
	p.skip(func(c Change) string {
		if c.Address.Kind != setting.ThreadAffinity || !strings.HasPrefix(c.Address.Rest(), "vhost/") {
			return ""
		}
		emulator := p.emulatorCPUs(h, c.Address.Object())
		wanted, err := setting.ParseCPUs(c.To.Value)
		if err != nil || len(emulator) == 0 || len(wanted.Minus(emulator)) == 0 {
			return ""
		}
		return fmt.Sprintf("CPU %s is outside the CPUs of the emulator (%s), in which libvirt's cpuset holds the "+
			"vhost threads too: 'virsh emulatorpin %s CPUS --live' comes first", wanted, emulator, c.Address.Object())
	})
}

// emulatorCPUs returns the CPUs of a running guest's emulator once the plan is applied; empty if unknown.
func (p *Plan) emulatorCPUs(h *facts.Host, guest string) setting.CPUSet {
	for _, c := range p.Changes {
		if c.Address == setting.Of(setting.DomainLive, guest, "emulatorpin") {
			set, err := setting.ParseCPUs(c.To.Value)
			if err == nil {
				return set
			}
		}
	}
	if g := guestNamed(h, guest); g != nil {
		for _, t := range g.Threads {
			if t.Role == "emulator" {
				return t.Affinity
			}
		}
	}
	return nil
}
