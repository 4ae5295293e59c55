package fleet

import (
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// readBy says which readings say the same as a part of the inventory: its path, and the address that is read, in which
// NAME stands for the element of the path and REST for what follows.
var readBy = []struct{ path, address string }{
	{"nics[NAME].rings.REST", "nic-ring:NAME/REST"},
	{"nics[NAME].channels.REST", "nic-channels:NAME/REST"},
	{"nics[NAME].coalesce[REST]", "nic-coalesce:NAME/REST"},
	{"nics[NAME].features[REST]", "nic-feature:NAME/REST"},
	{"nics[NAME].flow_hash[REST]", "nic-flowhash:NAME/REST"},
	{"nics[NAME].irqs[REST]", "irq-affinity:NAME/REST"},
	{"nics[NAME].tx_queue_len", "sysfs:class/net/NAME/tx_queue_len"},
	{"nics[NAME].xps[REST]", "sysfs-cpus:class/net/NAME/queues/tx-REST/xps_cpus"},
	{"nics[NAME].rps[REST]", "sysfs-cpus:class/net/NAME/queues/rx-REST/rps_cpus"},
	{"nics[NAME].sriov.enabled", "vf-count:NAME"},
	{"nics[NAME].up", "nic-state:NAME"},
	{"nics[NAME].qdisc", "root-qdisc:NAME"},
	{"bridges[NAME].stp", "sysfs:class/net/NAME/bridge/stp_state"},
	{"bridges[NAME].vlan_filtering", "sysfs:class/net/NAME/bridge/vlan_filtering"},
	{"bridges[NAME].multicast_snooping", "sysfs:class/net/NAME/bridge/multicast_snooping"},
	{"bridges[NAME].nf_call_REST", "sysfs:class/net/NAME/bridge/nf_call_REST"},
	{"services[NAME]", "service:NAME"},
	{"open_vswitch.other_config[NAME]", "ovsdb:NAME"},
	{"lasting.sysctls[NAME]", "sysctl:NAME"},
	{"kernel.clocksource", "sysfs:devices/system/clocksource/clocksource0/current_clocksource"},
	{"topology.smt", "sysfs:devices/system/cpu/smt/control"},
	{"power.governors[NAME]", "sysfs:devices/system/cpu/cpu0/cpufreq/scaling_governor"},
	{"power.energy_preferences[NAME]", "sysfs:devices/system/cpu/cpu0/cpufreq/energy_performance_preference"},
	{"housekeeping.ksm.run", "ksm:run"},
	{"housekeeping.kernel_threads[NAME]", "thread-sched:NAME"},
	{"housekeeping.irqs[NAME]", "irq-cpus:NAME"},
}

// repeats reports whether a part of the inventory says what a reading says too.
func repeats(path string, read facts.Readings) bool {
	if module, is := cut(path, "kvm.parameters[", "]"); is {
		name, parameter, _ := strings.Cut(module, ".")
		return tells(read, setting.Of(setting.ModuleParam, name, parameter)) ||
			tells(read, setting.Of(setting.Sysfs, "module", name, "parameters", parameter))
	}
	for _, r := range readBy {
		name, rest, is := match(path, r.path)
		if !is {
			continue
		}
		if strings.HasPrefix(r.address, "sysctl:") {
			name = strings.ReplaceAll(name, "/", ".")
		}
		text := strings.ReplaceAll(strings.ReplaceAll(r.address, "NAME", name), "REST", rest)
		kind, path, _ := strings.Cut(text, ":")
		if tells(read, setting.Address{Kind: setting.Kind(kind), Path: path}) {
			return true
		}
	}
	return false
}

// tells reports whether a reading tells what is there.
func tells(read facts.Readings, a setting.Address) bool {
	r, found := read[a]
	return found && r.State != setting.Unknown
}

// cut returns what stands between a prefix and a suffix.
func cut(text, prefix, suffix string) (string, bool) {
	rest, is := strings.CutPrefix(text, prefix)
	if !is {
		return "", false
	}
	return strings.CutSuffix(rest, suffix)
}

// match compares a path with a pattern and returns its NAME and its REST.
func match(path, pattern string) (name, rest string, is bool) {
	before, after, named := strings.Cut(pattern, "NAME")
	if !named {
		return "", "", path == pattern
	}
	path, is = strings.CutPrefix(path, before)
	if !is {
		return "", "", false
	}
	at := strings.IndexByte(path, ']')
	if at < 0 {
		return "", "", false
	}
	name, path = path[:at], path[at:]
	prefix, suffix, more := strings.Cut(after, "REST")
	if !more {
		return name, "", path == after
	}
	rest, is = cut(path, prefix, suffix)
	return name, rest, is && rest != "" && !strings.ContainsAny(rest, "[]")
}

// arguments of the running kernel that decide other values.
const (
	argument = "kernel.command_line["
	online   = "topology.online"
)

// follows lists what other values decide a value: where one of these differs, the value differs too, and that is no
// second difference.
func follows(path string) []string {
	causes := elements(path)
	kind, rest, isReading := strings.Cut(path, ":")
	if name, is := nicOf(path, kind, rest, isReading); is {
		causes = append(causes, "nics["+name+"]")
		if ofQueues(path) {
			for _, c := range []string{"combined", "rx", "tx"} {
				causes = append(causes, "nic-channels:"+name+"/"+c, "nics["+name+"].channels."+c)
			}
		}
	}
	switch {
	case path == online:
		causes = append(causes, "sysfs:devices/system/cpu/smt/control", "topology.smt", argument+"nosmt]",
			argument+"maxcpus]", argument+"nr_cpus]", argument+"mitigations]")
	case path == "topology.isolated", path == "topology.nohz_full", strings.HasPrefix(path, "isolation."):
		causes = append(causes, argument+"isolcpus]", argument+"nohz_full]", online)
	case strings.HasPrefix(path, "topology.hugepages"), strings.Contains(path, ".hugepages["),
		path == "topology.default_hugepage_bytes":
		causes = append(causes, argument+"hugepages]", argument+"hugepagesz]", argument+"default_hugepagesz]")
		if _, pool, is := strings.Cut(path, "].hugepages["); is { // of a node: the host's pool
			causes = append(causes, "topology.hugepages["+pool)
		}
	case strings.HasPrefix(path, "topology."):
		causes = append(causes, online)
	case strings.HasPrefix(path, "kernel.vulnerabilities["):
		causes = append(causes, "kernel.release", argument+"mitigations]", online)
	case path == "kernel.realtime", path == "kernel.rt_groups", path == "boot-kernel:default",
		path == "boot.next.version":
		causes = append(causes, "kernel.release")
	case strings.HasPrefix(path, "firmware.iommu_groups"), strings.HasPrefix(path, "passthrough."):
		causes = append(causes, argument+"iommu]", argument+"intel_iommu]", argument+"amd_iommu]")
	case kind == string(setting.KernelArg):
		for _, name := range strings.Split(rest, "+") {
			causes = append(causes, argument+setting.ArgumentName(name)+"]",
				"boot.next["+setting.ArgumentName(name)+"]")
		}
	}
	if name, is := cut(path, "boot.next[", "]"); is {
		causes = append(causes, argument+name+"]")
	}
	if ofCPUs(kind, rest) {
		causes = append(causes, online, argument+"isolcpus]", argument+"nohz_full]", argument+"irqaffinity]")
	}
	return causes
}

// elements returns the elements of lists that a place in the inventory is below.
func elements(path string) []string {
	var all []string
	for i := range len(path) - 1 {
		if path[i] == ']' {
			all = append(all, path[:i+1])
		}
	}
	return all
}

// nicOf returns the NIC that a value belongs to.
func nicOf(path, kind, rest string, isReading bool) (string, bool) {
	if isReading && !strings.Contains(kind, "[") {
		device := setting.Address{Kind: setting.Kind(kind), Path: rest}.Device()
		return device, device != ""
	}
	below, is := strings.CutPrefix(path, "nics[")
	name, _, found := strings.Cut(below, "]")
	return name, is && found
}

// ofQueues reports whether a value of a NIC depends on how many queues it has.
func ofQueues(path string) bool {
	for _, part := range []string{"].irqs", "].xps", "].rps", "].rss", "].rx_queues", "].tx_queues", "/queues/",
		"irq-affinity:"} {
		if strings.Contains(path, part) {
			return true
		}
	}
	return false
}

// ofCPUs reports whether a reading is a list of CPUs, or of one CPU.
func ofCPUs(kind, rest string) bool {
	switch setting.Kind(kind) {
	case setting.SysfsCPUs, setting.IRQAffinity, setting.IRQCPUs, setting.ThreadCPUs, setting.ThreadSched:
		return true
	case setting.Sysfs:
		return strings.Contains(rest, "/cpu/cpu") || strings.Contains(rest, "/fair_server/cpu")
	case setting.Sysctl:
		return rest == "kernel.watchdog_cpumask"
	}
	return false
}
