package facts

import (
	"slices"
	"strings"

	"mpps/internal/model/setting"
)

// SetAside returns the CPUs that the running host keeps free of ordinary threads: those of isolcpus= with any flags, of
// nohz_full=, and of valid isolated cpuset partitions. The command line is read too, because
// /sys/devices/system/cpu/isolated lists only what isolcpus= takes out of the scheduling domains, not the CPUs of
// "isolcpus=managed_irq,4-63" (kernel/sched/isolation.c, housekeeping_isolcpus_setup; drivers/base/cpu.c,
// print_cpus_isolated).
func (h *Host) SetAside() setting.CPUSet {
	all := h.Topology.Isolated.Or(h.Topology.NohzFull).Or(h.IsolatedPartitions())
	line := setting.ParseCommandLine(h.Kernel.CommandLine)
	for _, name := range []string{"isolcpus", "nohz_full"} {
		all = all.Or(argumentCPUs(line.Get(name)))
	}
	all = slices.DeleteFunc(all, func(cpu int) bool {
		_, present := h.Topology.Index(cpu)
		return !present
	})
	if len(all) == len(h.Topology.CPUs) {
		// an argument that leaves none leaves the boot CPU (kernel/sched/isolation.c, housekeeping_setup)
		return all.Minus(setting.CPUs(0))
	}
	return all
}

// argumentCPUs returns the CPUs of an isolcpus= or nohz_full= argument; none if it is not a plain list.
func argumentCPUs(r setting.Reading) setting.CPUSet {
	if r.State != setting.Known {
		return nil
	}
	parts := strings.Split(r.Value, ",")
	for len(parts) > 0 && slices.Contains([]string{"nohz", "domain", "managed_irq"}, parts[0]) {
		parts = parts[1:]
	}
	set, err := setting.ParseCPUs(strings.Join(parts, ","))
	if err != nil {
		return nil
	}
	return set
}

// IsolatedPartitions returns the CPUs of valid isolated cpuset partitions (Documentation/admin-guide/cgroup-v2.rst,
// cpuset.cpus.partition).
func (h *Host) IsolatedPartitions() setting.CPUSet {
	var all setting.CPUSet
	if h.Isolation != nil {
		for _, g := range h.Isolation.Cgroups {
			if g.Partition == "isolated" {
				all = all.Or(g.Effective)
			}
		}
	}
	return all
}
