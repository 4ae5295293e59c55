package domain

// Order of children and attributes as libvirt writes them: src/conf/domain_conf.c,
// virDomainDefFormatInternalSetRootName, virDomainMemorybackingFormat, virDomainCputuneDefFormat,
// virDomainNetDefFormat, virDomainVirtioNetDriverFormat, virDomainDefFormatFeatures; src/conf/numa_conf.c,
// virDomainNumatuneFormatXML; src/conf/cpu_conf.c, virCPUDefFormatBuf. libvirt's schema allows any order of children.
// Following libvirt makes a file edited here look like one that libvirt wrote after the same change.
var childOrder = map[string][]string{
	"domain": {"name", "uuid", "genid", "title", "description", "metadata", "maxMemory", "memory", "currentMemory",
		"blkiotune", "memtune", "memoryBacking", "vcpu", "vcpus", "iothreads", "iothreadids", "defaultiothread",
		"throttlegroups", "cputune", "numatune", "resource", "sysinfo", "bootloader", "bootloader_args", "os", "idmap",
		"features", "cpu", "clock", "on_poweroff", "on_reboot", "on_crash", "on_lockfailure", "pm", "perf", "devices",
		"seclabel", "keywrap", "launchSecurity", "qemu:commandline", "qemu:capabilities", "qemu:override",
		"qemu:deprecation"},
	"memoryBacking": {"hugepages", "nosharepages", "locked", "source", "access", "allocation", "discard"},
	"cputune": {"shares", "period", "quota", "global_period", "global_quota", "emulator_period", "emulator_quota",
		"iothread_period", "iothread_quota", "vcpupin", "emulatorpin", "iothreadpin", "emulatorsched", "vcpusched",
		"iothreadsched", "cachetune", "memorytune"},
	"numatune": {"memory", "memnode"},
	"cpu":      {"model", "vendor", "topology", "cache", "maxphysaddr", "feature", "numa"},
	"features": {"acpi", "apic", "pae", "hap", "viridian", "privnet", "hyperv", "kvm", "pvspinlock", "capabilities",
		"pmu", "vmport", "gic", "smm", "ioapic", "hpt", "vmcoreinfo", "htm", "nested-hv", "msrs", "ccf-assist", "xen",
		"cfpc", "sbbc", "ibs", "tcg", "async-teardown", "ras", "ps2", "aia"},
	"hyperv":  hypervNames,
	"hostdev": {"driver", "source", "address"},
	"numa":    {"cell", "interconnects"},
	"devices": {"emulator", "disk", "controller", "lease", "filesystem", "interface", "smartcard", "serial", "parallel",
		"console", "channel", "tpm", "input", "graphics", "sound", "audio", "video", "hostdev", "redirdev",
		"redirfilter", "hub", "watchdog", "memballoon", "rng", "nvram", "panic", "shmem", "memory", "iommu", "vsock",
		"crypto", "pstore"},
	"kvm": kvmNames,
	// virDomainNetDefFormat writes the driver of a passed-through function (virDomainHostdevDefFormatSubsys) before its
	// source.
	"interface of type hostdev": {"mac", "driver", "source", "vlan", "virtualport", "bandwidth", "port", "target",
		"model", "filterref", "tune", "teaming", "link", "boot", "alias", "rom", "acpi", "address"},
	"interface": {"mac", "source", "vlan", "virtualport", "bandwidth", "port", "ip", "route", "portForward", "script",
		"downscript", "backenddomain", "target", "guest", "model", "driver", "backend", "filterref", "tune", "teaming",
		"link", "mtu", "coalesce", "boot", "alias", "rom", "acpi", "address"},
}

// src/conf/domain_conf.c, VIR_ENUM_IMPL(virDomainHyperv) and VIR_ENUM_IMPL(virDomainKVM).
var (
	hypervNames = []string{"relaxed", "vapic", "spinlocks", "vpindex", "runtime", "synic", "stimer", "reset",
		"vendor_id", "frequencies", "reenlightenment", "tlbflush", "ipi", "evmcs", "avic", "emsr_bitmap", "xmm_input"}
	kvmNames = []string{"hidden", "hint-dedicated", "poll-control", "pv-ipi", "dirty-ring"}
)

var attrOrder = map[string][]string{
	"vcpu":          {"placement", "cpuset", "current"},
	"vcpupin":       {"vcpu", "cpuset"},
	"iothreadpin":   {"iothread", "cpuset"},
	"vcpusched":     {"vcpus", "scheduler", "priority"},
	"iothreadsched": {"iothreads", "scheduler", "priority"},
	"emulatorsched": {"scheduler", "priority"},
	"cell":          {"id", "cpus", "memory", "unit", "memAccess", "discard"},
	"address":       {"type", "domain", "bus", "slot", "function", "multifunction"},
	"interface":     {"type", "trustGuestRxFilters", "managed"},
	"hostdev":       {"mode", "type", "managed"},
	"hyperv":        {"mode"},
	"spinlocks":     {"state", "retries"},
	"vendor_id":     {"state", "value"},
	"memory":        {"mode", "placement", "nodeset"}, // of numatune
	"memnode":       {"cellid", "mode", "nodeset"},
	"cpu":           {"mode", "match", "check", "migratable", "deprecated_features"},
	"cache":         {"level", "mode"},
	"timer":         {"name", "present", "tickpolicy", "track", "frequency", "mode"},
	"page":          {"size", "unit", "nodeset"},
	"allocation":    {"mode", "threads"},
	"driver": {"name", "txmode", "ioeventfd", "event_idx", "queues", "rx_queue_size", "tx_queue_size", "rss",
		"rss_hash_report", "iommu", "ats", "packed", "page_per_vq"},
}
