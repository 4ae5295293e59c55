package realtime

import (
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// FindScope returns the CPUs of a host that should be quiet. These are, in order of preference: the named ones; those
// of the vCPUs of the named guest; those in isolcpus, nohz_full and isolated partitions; those of vCPUs with a realtime
// priority. If there are none, the scope is empty.
func FindScope(h *facts.Host, named setting.CPUSet, guest string) Scope {
	s := Scope{Guest: guest}
	if len(named) > 0 {
		s.CPUs, s.From = named, "--cpus"
		return s
	}
	all := definitions(h)
	for _, g := range all {
		if guest != "" && g.f.Name == guest {
			if s.CPUs = g.quietCPUs(); len(s.CPUs) > 0 {
				s.From = "the pins of guest " + guest
				return s
			}
		}
	}
	var by []string
	for _, list := range []struct {
		name string
		cpus setting.CPUSet
	}{
		{"isolcpus", h.Topology.Isolated}, {"nohz_full", h.Topology.NohzFull},
		{"isolated partitions", h.IsolatedPartitions()},
	} {
		if len(list.cpus) > 0 {
			s.CPUs, by = s.CPUs.Or(list.cpus), append(by, list.name)
		}
	}
	if len(by) > 0 {
		s.From = strings.Join(by, ", ")
		return s
	}
	for _, g := range all {
		if g.scheduled() {
			s.CPUs, s.From = s.CPUs.Or(g.quietCPUs()), "pins of vCPUs with a realtime priority"
		}
	}
	return s
}

// Addresses returns the values that a check needs in addition to the inventory.
func Addresses() []setting.Address {
	all := []setting.Address{
		setting.Of(setting.IRQCPUs, "default"),
		setting.Of(setting.SysfsCPUs, "devices/virtual/workqueue/cpumask"),
		setting.Of(setting.Sysctl, "kernel.watchdog"),
		setting.Of(setting.Sysctl, "kernel.watchdog_cpumask"),
		setting.Of(setting.Sysctl, "kernel.timer_migration"),
		setting.Of(setting.Sysctl, "kernel.sched_rt_runtime_us"),
	}
	for _, name := range bootLists {
		all = append(all, setting.Of(setting.KernelArg, name))
	}
	return all
}
