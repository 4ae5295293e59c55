package facts

import "mpps/internal/model/setting"

// Isolation is who else says which CPUs are for what, beside the kernel's command line and the guests' definitions.
type Isolation struct {
	Cgroups []Cgroup `json:"cgroups"` // cpusets of the uppermost groups, and of running guests
	// how irqbalance is set up; nil where it is not installed and does not run
	IRQBalance *IRQBalance `json:"irqbalance,omitempty"`
}

// Cgroup is the cpuset of one control group. Groups without the cpuset controller are not listed.
type Cgroup struct {
	// below the mount: machine.slice/machine-qemu\x2d1\x2dvm1.scope/libvirt/vcpu0
	Path      string         `json:"path"`
	CPUs      setting.CPUSet `json:"cpus"`      // cpuset.cpus; empty: those of the group above
	Effective setting.CPUSet `json:"effective"` // cpuset.cpus.effective: those that its threads may use
	// cpuset.cpus.partition: member, root, isolated, or "isolated invalid (why)"; empty in version 1
	Partition string `json:"partition,omitempty"`
	Guest     string `json:"guest,omitempty"` // whose it is
	Part      string `json:"part,omitempty"`  // which of the guest's threads: emulator, vcpu0, iothread1; empty: all
}

// IRQBalance is how irqbalance is told which CPUs to leave alone.
type IRQBalance struct {
	// Banned are the CPUs that it is told to leave alone. Where Told is not set it bans by itself those that are
	// isolated or have no tick (irqbalance, cputree.c, setup_banned_cpus).
	Banned setting.CPUSet `json:"banned"`
	Told   bool           `json:"told"`
	From   string         `json:"from,omitempty"` // the file that says so, or "its environment"
	Why    string         `json:"why,omitempty"`  // why it could not be told
}

// stillIsolation is without the groups of guests and others that say nothing of their own, which come and go, and
// without what follows from others.
func stillIsolation(i *Isolation) *Isolation {
	if i == nil {
		return nil
	}
	c := Isolation{}
	if b := i.IRQBalance; b != nil {
		c.IRQBalance = &IRQBalance{Banned: b.Banned, Told: b.Told}
	}
	for _, g := range i.Cgroups {
		if g.Guest == "" && len(g.CPUs) > 0 {
			g.Effective = nil
			c.Cgroups = append(c.Cgroups, g)
		}
	}
	return &c
}

// isolation takes the guests' names out of the names of their groups.
func (s *scrubber) isolation(c, h *Host) {
	if c.Isolation == nil {
		return
	}
	for i := range c.Isolation.Cgroups {
		g := &c.Isolation.Cgroups[i]
		if g.Guest == "" {
			continue
		}
		g.Guest = s.names.of(h.Isolation.Cgroups[i].Guest)
		g.Path = "machine.slice/" + g.Guest + ".scope"
		if g.Part != "" {
			g.Path += "/libvirt/" + g.Part
		}
	}
}
