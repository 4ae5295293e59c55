package facts

import (
	"strings"

	"mpps/internal/model/setting"
)

// Isolation lists what assigns CPUs in addition to the kernel command line and the guests' definitions.
type Isolation struct {
	Cgroups []Cgroup `json:"cgroups"` // cpusets of the top-level groups and of running guests
	// irqbalance's configuration; nil if it is neither installed nor running
	IRQBalance *IRQBalance `json:"irqbalance,omitempty"`
}

// Cgroup is the cpuset of a control group. Groups without the cpuset controller are not listed.
type Cgroup struct {
	// below the mount: machine.slice/machine-qemu\x2d1\x2dvm1.scope/libvirt/vcpu0
	Path      string         `json:"path"`
	CPUs      setting.CPUSet `json:"cpus"`      // cpuset.cpus; empty: inherited
	Effective setting.CPUSet `json:"effective"` // cpuset.cpus.effective: the CPUs its threads may use
	// cpuset.cpus.partition: member, root, isolated, or "isolated invalid (why)"; empty in cgroup v1
	Partition string `json:"partition,omitempty"`
	Guest     string `json:"guest,omitempty"` // guest it belongs to
	Part      string `json:"part,omitempty"`  // the guest's threads in it: emulator, vcpu0, iothread1; empty: all
}

// IRQBalance is irqbalance's list of banned CPUs.
type IRQBalance struct {
	// Banned are the CPUs that it leaves alone. If Configured is false, it bans isolated and nohz_full CPUs by itself
	// (irqbalance, cputree.c, setup_banned_cpus).
	Banned     setting.CPUSet `json:"banned"`
	Configured bool           `json:"told"`
	From       string         `json:"from,omitempty"` // the file that sets it, or "its environment"
	// interrupts that it leaves alone (--banirq), and the program that decides for each interrupt (--policyscript)
	IRQs   []int  `json:"banned_irqs,omitempty"`
	Script string `json:"policy_script,omitempty"`
	Why    string `json:"why,omitempty"` // why it could not be determined
}

// TopGroup returns the top-level control group that a guest runs in: that of its own group, or else systemd's default
// for libvirt's guests (systemd.special(7), machine.slice). It is nil if that is not known or has no cpuset.
func (h *Host) TopGroup(g *Guest) *Cgroup {
	if h.Isolation == nil {
		return nil
	}
	top := ""
	if g.Managed {
		top = "machine.slice"
	}
	for _, c := range h.Isolation.Cgroups {
		if c.Guest == g.Name {
			top, _, _ = strings.Cut(c.Path, "/")
			break
		}
	}
	return Find(h.Isolation.Cgroups, func(c *Cgroup) bool { return top != "" && c.Path == top })
}

// OwnGroup returns the control group of all threads of a guest if it confines them to some CPUs, as a pod's does; nil
// if there is none.
func (h *Host) OwnGroup(g *Guest) *Cgroup {
	if h.Isolation == nil {
		return nil
	}
	return Find(h.Isolation.Cgroups, func(c *Cgroup) bool {
		return c.Guest == g.Name && c.Part == "" && len(c.CPUs) > 0 && len(c.Effective) > 0
	})
}

// stableIsolation omits the groups of guests and groups without their own cpuset, which come and go, and derived
// values.
func stableIsolation(i *Isolation) *Isolation {
	if i == nil {
		return nil
	}
	c := Isolation{}
	if b := i.IRQBalance; b != nil {
		c.IRQBalance = &IRQBalance{Banned: b.Banned, Configured: b.Configured, IRQs: b.IRQs, Script: b.Script}
	}
	for _, g := range i.Cgroups {
		if g.Guest == "" && len(g.CPUs) > 0 {
			g.Effective = nil
			c.Cgroups = append(c.Cgroups, g)
		}
	}
	return &c
}

// isolation replaces guests' names in the names of their groups.
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
