package tuned

import (
	"path"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Set is what a profile sets one address to.
type Set struct {
	// Value is in the canonical form of the address's kind. Empty: TuneD computes it, or it is not a single value.
	Value  string
	Option string // as in the profile: "sysctl.vm/swappiness", "scheduler.isolated_cores"
	File   string
	AtBoot bool // takes effect through the boot menu, not when the profile is activated
}

// Lookup reports whether a profile sets an address, and to what (tuned.conf(5) and the pages of its plugins).
func Lookup(t *facts.Tuned, a setting.Address) (Set, bool) {
	switch {
	case t == nil:
		return Set{}, false
	case a.Kind == setting.Sysctl:
		for _, v := range slices.Backward(t.Sysctls) {
			if v.Key == setting.SysctlPath(a.Path) {
				return newSet(a, v, absoluteValue(v.Value)), true
			}
		}
		return Set{}, false
	case a.Kind == setting.KernelArg:
		return kernelArgument(t, a)
	}
	for _, o := range slices.Backward(t.Options) {
		if !covers(o.Of, a) {
			continue
		}
		if value, ok := optionValue(o, a); ok {
			return newSet(a, o, value), true
		}
	}
	for plugin, prefixes := range pluginFiles {
		for _, prefix := range prefixes {
			if a.Kind == setting.Sysfs && slices.Contains(t.Plugins, plugin) && strings.HasPrefix(a.Path, prefix) {
				return Set{Option: plugin}, true
			}
		}
	}
	return Set{}, false
}

// newSet is the value that an option sets an address to.
func newSet(a setting.Address, o facts.OwnedValue, value string) Set {
	s := Set{Option: o.Key, File: o.File}
	if a.Kind == setting.Sysctl {
		s.Option = "sysctl." + o.Key
	}
	if canonical, err := setting.Kinds[a.Kind].Canonical(value); err == nil && value != "" {
		s.Value = canonical
	}
	return s
}

// absoluteValue returns the value of a sysctl, or nothing if it only raises or lowers the current one (">2048", "<16").
func absoluteValue(value string) string {
	if strings.HasPrefix(value, ">") || strings.HasPrefix(value, "<") {
		return ""
	}
	return strings.TrimPrefix(value, "=")
}

// kernelArgument looks up a kernel argument in the profile and in what TuneD has already passed to the boot loader.
func kernelArgument(t *facts.Tuned, a setting.Address) (Set, bool) {
	s := Set{Option: "bootloader.cmdline", AtBoot: true}
	for _, o := range slices.Backward(t.Options) {
		found := setting.ParseCommandLine(strings.TrimLeft(o.Value, "+")).Get(a.Path)
		if strings.HasPrefix(o.Key, "bootloader.cmdline") && found.State == setting.Known {
			if s.Option, s.File = o.Key, o.File; t.Arguments == "" { // a snapshot without them
				s.Value = found.Value
			}
			break
		}
	}
	for _, line := range []string{t.Arguments, t.BootArguments} {
		if found := setting.ParseCommandLine(line).Get(a.Path); found.State == setting.Known {
			s.Value = found.Value
			return s, true
		}
	}
	return s, s.Value != ""
}

// pluginFiles are prefixes of sysfs files that a plugin of TuneD writes whatever its options are.
var pluginFiles = map[string][]string{
	"cpu": {"devices/system/cpu/cpufreq", "devices/system/cpu/intel_pstate"},
	"vm":  {"kernel/mm/transparent_hugepage"},
}

// NetOptions are the options of TuneD's net plugin for the settings of a NIC: lists of names and values.
var NetOptions = map[setting.Kind]string{
	setting.NICRing: "ring", setting.NICChannels: "channels", setting.NICCoalesce: "coalesce",
	setting.NICFeature: "features",
}

// optionValue returns the value that an option gives an address, and whether the option is about that address.
func optionValue(o facts.OwnedValue, a setting.Address) (string, bool) {
	plugin, key, _ := strings.Cut(o.Key, ".")
	switch a.Kind {
	case setting.NICRing, setting.NICCoalesce, setting.NICFeature, setting.NICChannels:
		return pairValue(o.Value, a.Rest()), o.Key == "net."+NetOptions[a.Kind]
	case setting.IRQAffinity, setting.IRQCPUs:
		return "", o.Key == "scheduler.isolated_cores" || o.Key == "irq.affinity"
	case setting.ThreadAffinity, setting.ThreadCPUs:
		return "", o.Key == "scheduler.isolated_cores"
	case setting.ThreadSched:
		return threadSched(plugin, key, o.Value, a.Path)
	case setting.ModuleParam:
		if plugin == "sysfs" {
			return o.Value, matchesPath(key, "/sys/module/"+a.Object()+"/parameters/"+a.Rest())
		}
		return moduleParameter(o.Value, a.Rest()), o.Key == "modules."+a.Object()
	case setting.Service:
		return serviceState(o.Value), o.Key == "service.service."+a.Path || o.Key == "service."+a.Path
	case setting.KSM:
		return o.Value, plugin == "sysfs" && matchesPath(key, "/sys/kernel/mm/ksm/"+a.Path)
	case setting.SysfsCPUs:
		value := ""
		if set, err := setting.ParseCPUMask(o.Value); err == nil {
			value = set.String()
		}
		return value, plugin == "sysfs" && matchesPath(key, "/sys/"+a.Path)
	case setting.Sysfs:
		return o.Value, setsSysfs(o.Key, plugin, key, a.Path)
	}
	return "", false
}

// setsSysfs reports whether an option sets a file below /sys.
func setsSysfs(option, plugin, key, file string) bool {
	cpuFile := ""
	if strings.HasPrefix(file, "devices/system/cpu/") {
		cpuFile = path.Base(file)
	}
	switch {
	case plugin == "sysfs":
		return matchesPath(key, "/sys/"+file)
	case TxQueueLength(file) != "":
		return option == "net.txqueuelen"
	case file == "kernel/mm/transparent_hugepage/enabled":
		return option == "vm.transparent_hugepages" || option == "vm.transparent_hugepage"
	case file == "kernel/mm/transparent_hugepage/defrag":
		return option == "vm.transparent_hugepage.defrag"
	case cpuFile == "scaling_governor":
		return option == "cpu.governor"
	case cpuFile == "energy_performance_preference", cpuFile == "pm_qos_resume_latency_us":
		return option == "cpu."+cpuFile
	}
	return false
}

// matchesPath reports whether a path in a profile, which may have wildcards, matches a file.
func matchesPath(pattern, file string) bool {
	matched, err := path.Match(pattern, file)
	return pattern == file || err == nil && matched
}

// pairValue returns the word after a name in a list such as "rx 4096 tx 4096".
func pairValue(list, name string) string {
	words := strings.FieldsFunc(list, func(r rune) bool { return r == ' ' || r == ',' || r == ':' })
	for i := 0; i+1 < len(words); i += 2 {
		if words[i] == name {
			return words[i+1]
		}
	}
	return ""
}

// moduleParameter returns a parameter from an option of the modules section: "+r halt_poll_ns=0 ple_gap=0".
func moduleParameter(value, name string) string {
	for _, word := range strings.Fields(strings.TrimPrefix(value, "+r")) {
		if v, ok := strings.CutPrefix(word, name+"="); ok {
			return v
		}
	}
	return ""
}

// serviceState returns the state that a list of commands such as "stop,disable" leaves a service in.
func serviceState(value string) string {
	for _, command := range strings.Split(value, ",") {
		switch strings.TrimSpace(command) {
		case "start":
			return "running"
		case "stop":
			return "stopped"
		}
	}
	return ""
}

// threadSched returns the scheduling that an option gives to a kernel thread, and whether the thread is in its group.
// A group is "0:f:2:*:^\[ksoftirqd": order among groups, policy, priority, CPUs and a regular expression for the
// command, which has brackets around the name of a kernel thread.
func threadSched(plugin, key, value, thread string) (string, bool) {
	fields := strings.SplitN(value, ":", 5)
	if plugin != "scheduler" || !strings.HasPrefix(key, "group.") || len(fields) != 5 ||
		!matches(fields[4], "["+thread+"]") {
		return "", false
	}
	policy, known := map[string]string{"f": "SCHED_FIFO", "r": "SCHED_RR", "o": "SCHED_OTHER",
		"b": "SCHED_BATCH"}[fields[1]]
	switch {
	case !known:
		return "", true
	case fields[1] == "f" || fields[1] == "r":
		return policy + " " + fields[2], true
	}
	return policy, true
}

// TxQueueLength returns the device of a file class/net/DEVICE/tx_queue_len below /sys, or nothing for other files.
func TxQueueLength(file string) string {
	device, prefix := strings.CutPrefix(file, "class/net/")
	device, suffix := strings.CutSuffix(device, "/tx_queue_len")
	if !prefix || !suffix {
		return ""
	}
	return device
}

// covers reports whether the devices option of a section ("eth0,eth1", "ens*", "!eth0"; empty: all) includes the device
// of an address.
func covers(devices string, a setting.Address) bool {
	device := a.Object()
	switch {
	case TxQueueLength(a.Path) != "":
		device = TxQueueLength(a.Path)
	case a.Kind == setting.Sysfs && strings.HasPrefix(a.Path, "devices/system/cpu/cpu"):
		device, _, _ = strings.Cut(strings.TrimPrefix(a.Path, "devices/system/cpu/"), "/")
	}
	included, listed := false, false // listed: some entry names devices to include
	for _, name := range strings.FieldsFunc(devices, func(r rune) bool { return r == ',' || r == ' ' || r == ';' }) {
		name, exclude := strings.CutPrefix(name, "!")
		matched, _ := path.Match(name, device)
		if exclude && matched {
			return false
		}
		included, listed = included || !exclude && matched, listed || !exclude
	}
	return included || !listed
}
