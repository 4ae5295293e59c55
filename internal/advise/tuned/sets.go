package tuned

import (
	"path"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Set is what a profile gives to one value.
type Set struct {
	// in the canonical form of the address's kind; empty where TuneD works it out, or where it is not one value
	Value  string
	Option string // as the profile has it: "sysctl.vm/swappiness", "scheduler.isolated_cores"
	File   string
	Boots  bool // it is given when the boot menu is written, and not when the profile is chosen
}

// Of reports whether a profile sets a value, and to what (tuned.conf(5) and the pages of its plugins).
func Of(t *facts.Tuned, a setting.Address) (Set, bool) {
	switch {
	case t == nil:
		return Set{}, false
	case a.Kind == setting.Sysctl:
		for _, v := range slices.Backward(t.Sysctls) {
			if v.Key == setting.SysctlPath(a.Path) {
				return made(a, v, relative(v.Value)), true
			}
		}
		return Set{}, false
	case a.Kind == setting.KernelArg:
		return argument(t, a)
	}
	for _, o := range slices.Backward(t.Options) {
		if !covers(o.Of, a) {
			continue
		}
		if value, is := given(o, a); is {
			return made(a, o, value), true
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

func made(a setting.Address, o facts.OwnedValue, value string) Set {
	s := Set{Option: o.Key, File: o.File}
	if a.Kind == setting.Sysctl {
		s.Option = "sysctl." + o.Key
	}
	if canonical, err := setting.Kinds[a.Kind].Canonical(value); err == nil && value != "" {
		s.Value = canonical
	}
	return s
}

// relative drops a value that only raises or lowers what stands ("=>4096", ">2048").
func relative(value string) string {
	if strings.HasPrefix(value, ">") || strings.HasPrefix(value, "<") {
		return ""
	}
	return strings.TrimPrefix(value, "=")
}

// argument is what the profile, or what TuneD has already handed to the boot loader, makes of a kernel argument.
func argument(t *facts.Tuned, a setting.Address) (Set, bool) {
	s := Set{Option: "bootloader.cmdline", Boots: true}
	for _, o := range slices.Backward(t.Options) {
		if found := setting.ParseCommandLine(strings.TrimLeft(o.Value, "+")).Get(a.Path); strings.HasPrefix(o.Key,
			"bootloader.cmdline") && found.State == setting.Known {
			if s.Option, s.File = o.Key, o.File; t.Arguments == "" { // of a snapshot that has no more
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

// pluginFiles are sysfs files that plugins of TuneD write whatever their options say.
var pluginFiles = map[string][]string{
	"cpu": {"devices/system/cpu/cpufreq", "devices/system/cpu/intel_pstate"},
	"vm":  {"kernel/mm/transparent_hugepage"},
}

// given is the value that an option gives to an address, and whether it is the option of that address at all.
func given(o facts.OwnedValue, a setting.Address) (string, bool) {
	plugin, key, _ := strings.Cut(o.Key, ".")
	switch a.Kind {
	case setting.NICRing:
		return pair(o.Value, a.Rest()), o.Key == "net.ring"
	case setting.NICCoalesce:
		return pair(o.Value, a.Rest()), o.Key == "net.coalesce"
	case setting.NICFeature:
		return pair(o.Value, a.Rest()), o.Key == "net.features"
	case setting.NICChannels:
		return pair(o.Value, a.Rest()), o.Key == "net.channels"
	case setting.IRQAffinity, setting.IRQCPUs:
		return "", o.Key == "scheduler.isolated_cores" || o.Key == "irq.affinity"
	case setting.ThreadAffinity, setting.ThreadCPUs:
		return "", o.Key == "scheduler.isolated_cores"
	case setting.ThreadSched:
		return scheduling(plugin, key, o.Value, a.Path)
	case setting.ModuleParam:
		if plugin == "sysfs" {
			return o.Value, names(key, "/sys/module/"+a.Object()+"/parameters/"+a.Rest())
		}
		return moduleParameter(o.Value, a.Rest()), o.Key == "modules."+a.Object()
	case setting.Service:
		return serviceState(o.Value), o.Key == "service.service."+a.Path || o.Key == "service."+a.Path
	case setting.KSM:
		return o.Value, plugin == "sysfs" && names(key, "/sys/kernel/mm/ksm/"+a.Path)
	case setting.SysfsCPUs:
		set, err := setting.ParseCPUMask(o.Value)
		if err != nil {
			return "", plugin == "sysfs" && names(key, "/sys/"+a.Path)
		}
		return set.String(), plugin == "sysfs" && names(key, "/sys/"+a.Path)
	case setting.Sysfs:
		return o.Value, sysfs(o.Key, plugin, key, a.Path)
	}
	return "", false
}

// sysfs reports whether an option sets a file below /sys.
func sysfs(option, plugin, key, file string) bool {
	switch {
	case plugin == "sysfs":
		return names(key, "/sys/"+file)
	case TxQueueLength(file) != "":
		return option == "net.txqueuelen"
	case file == "kernel/mm/transparent_hugepage/enabled":
		return option == "vm.transparent_hugepages" || option == "vm.transparent_hugepage"
	case file == "kernel/mm/transparent_hugepage/defrag":
		return option == "vm.transparent_hugepage.defrag"
	case strings.HasPrefix(file, "devices/system/cpu/") && strings.HasSuffix(file, "/scaling_governor"):
		return option == "cpu.governor"
	case strings.HasPrefix(file, "devices/system/cpu/") && strings.HasSuffix(file, "/energy_performance_preference"):
		return option == "cpu.energy_performance_preference"
	case strings.HasPrefix(file, "devices/system/cpu/cpu") &&
		strings.HasSuffix(file, "/power/pm_qos_resume_latency_us"):
		return option == "cpu.pm_qos_resume_latency_us"
	}
	return false
}

// names reports whether a path of TuneD, which may hold wildcards, is that of a file.
func names(pattern, file string) bool {
	matched, err := path.Match(pattern, file)
	return pattern == file || err == nil && matched
}

// pair is the word behind a name in a list such as "rx 4096 tx 4096".
func pair(list, name string) string {
	words := strings.FieldsFunc(list, func(r rune) bool { return r == ' ' || r == ',' || r == ':' })
	for i := 0; i+1 < len(words); i += 2 {
		if words[i] == name {
			return words[i+1]
		}
	}
	return ""
}

// moduleParameter is a parameter of the modules' section: "+r halt_poll_ns=0 ple_gap=0".
func moduleParameter(value, name string) string {
	for _, word := range strings.Fields(strings.TrimPrefix(value, "+r")) {
		if key, v, has := strings.Cut(word, "="); has && key == name {
			return v
		}
	}
	return ""
}

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

// scheduling is what a group of threads gets, "0:f:2:*:^\[ksoftirqd": a rank among groups, the policy, the priority,
// CPUs and what the threads' names match. Threads of the kernel stand in brackets there.
func scheduling(plugin, key, value, thread string) (string, bool) {
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

// TxQueueLength is the device whose transmit queue's length a file below /sys is; empty for others.
func TxQueueLength(file string) string {
	device, found := strings.CutPrefix(file, "class/net/")
	if !found {
		return ""
	}
	if device, found = strings.CutSuffix(device, "/tx_queue_len"); !found {
		return ""
	}
	return device
}

// covers reports whether a list of devices of TuneD ("eth0,eth1", "ens*", "!eth0"; empty: all) holds the one of a
// value.
func covers(devices string, a setting.Address) bool {
	device := a.Object()
	switch {
	case TxQueueLength(a.Path) != "":
		device = TxQueueLength(a.Path)
	case a.Kind == setting.Sysfs && strings.HasPrefix(a.Path, "devices/system/cpu/cpu"):
		device, _, _ = strings.Cut(strings.TrimPrefix(a.Path, "devices/system/cpu/"), "/")
	}
	wanted, named := true, false
	for _, name := range strings.FieldsFunc(devices, func(r rune) bool { return r == ',' || r == ' ' || r == ';' }) {
		name, not := strings.CutPrefix(name, "!")
		matched, err := path.Match(name, device)
		switch {
		case not && err == nil && matched:
			return false
		case !not && !named:
			wanted, named = false, true
		}
		wanted = wanted || !not && err == nil && matched
	}
	return wanted
}
