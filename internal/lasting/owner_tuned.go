package lasting

import (
	"path"
	"slices"
	"strings"

	"mpps/internal/facts"
	"mpps/internal/setting"
)

const profileChosen = "when the profile is chosen"

// tunedOwners is TuneD, as far as its profile names the value (tuned.conf(5) and the pages of its plugins). TuneD has sysctl.d
// read again behind its own settings (reapply_sysctl, on by default), so that the files win over it at boot.
func tunedOwners(l *facts.Lasting, a setting.Address) []Owner {
	t := l.Tuned
	if t == nil || !t.Running {
		return nil
	}
	who := "TuneD profile " + t.Profile
	if a.Kind == setting.Sysctl {
		for _, v := range slices.Backward(t.Sysctls) {
			if v.Key == setting.SysctlPath(a.Path) {
				return []Owner{{Who: who, Value: v.Value, When: profileChosen}}
			}
		}
		return nil
	}
	keys := tunedKeys(a)
	for _, o := range slices.Backward(t.Options) {
		switch {
		case slices.Contains(keys, o.Key) && covers(o.Of, a):
			owner := Owner{Who: who, When: profileChosen}
			if strings.HasPrefix(o.Key, "sysfs.") || o.Key == "net.txqueuelen" {
				owner.Value = o.Value // the others' are in words of their own
			}
			return []Owner{owner}
		case a.Kind == setting.KernelArg && strings.HasPrefix(o.Key, "bootloader.cmdline"):
			words := setting.ParseCommandLine(strings.TrimLeft(o.Value, "+-"))
			if found := words.Get(a.Path); found.State == setting.Known {
				return []Owner{{Who: who, Value: found.Value, When: "when the boot menu is written"}}
			}
		}
	}
	for plugin, prefixes := range tunedPlugins {
		for _, prefix := range prefixes {
			if a.Kind == setting.Sysfs && slices.Contains(t.Plugins, plugin) && strings.HasPrefix(a.Path, prefix) {
				return []Owner{{Who: who, When: profileChosen}}
			}
		}
	}
	return nil
}

// tunedPlugins are sysfs files that plugins of TuneD write.
var tunedPlugins = map[string][]string{
	"cpu": {"devices/system/cpu/cpufreq", "devices/system/cpu/intel_pstate"},
	"vm":  {"kernel/mm/transparent_hugepage"},
}

// tunedKeys are the options of TuneD's plugins that set a value.
func tunedKeys(a setting.Address) []string {
	switch a.Kind {
	case setting.NICRing:
		return []string{"net.ring"}
	case setting.NICCoalesce:
		return []string{"net.coalesce"}
	case setting.NICFeature:
		return []string{"net.features"}
	case setting.NICChannels:
		return []string{"net.channels"}
	case setting.IRQAffinity, setting.IRQCPUs:
		return []string{"scheduler.isolated_cores", "irq.affinity"}
	case setting.ThreadAffinity:
		return []string{"scheduler.isolated_cores"}
	case setting.ModuleParam:
		return []string{"modules." + a.Object()}
	case setting.KSM:
		return []string{"sysfs./sys/kernel/mm/ksm/" + a.Path}
	case setting.Sysfs, setting.SysfsCPUs:
		keys := []string{"sysfs./sys/" + a.Path}
		if txQueueLength(a) != "" {
			keys = append(keys, "net.txqueuelen")
		}
		return keys
	}
	return nil
}

// covers tells whether a list of devices of TuneD ("eth0,eth1", "ens*", "!eth0"; empty: all) holds the one of a value.
func covers(devices string, a setting.Address) bool {
	device := a.Object()
	if of := txQueueLength(a); of != "" {
		device = of
	}
	without := false
	for _, name := range strings.FieldsFunc(devices, func(r rune) bool { return r == ',' || r == ' ' }) {
		name, not := strings.CutPrefix(name, "!")
		without = without || not
		if matched, err := path.Match(name, device); err == nil && matched {
			return !not
		}
	}
	return devices == "" || without
}
