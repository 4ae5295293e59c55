package lasting

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"mpps/internal/facts"
	"mpps/internal/plan"
	"mpps/internal/setting"
)

// Owner is somebody else who sets a value.
type Owner struct {
	Who   string // "/etc/sysctl.d/99-local.conf", "TuneD profile virtual-host", "irqbalance"
	Value string // what they set it to; empty where that is not one value
	When  string // when they set it
	Wins  bool   // over what mpps writes, when they do
}

// String says it in one sentence.
func (o Owner) String() string {
	text := o.Who + " sets it too"
	if o.Value != "" {
		text = fmt.Sprintf("%s sets it to %s", o.Who, o.Value)
	}
	if o.When != "" {
		text += " " + o.When
	}
	if o.Wins {
		text += ", and wins"
	}
	return text
}

// Owners lists who else sets a value on a host.
func Owners(h *facts.Host, a setting.Address) []Owner {
	if h.Lasting == nil {
		return nil
	}
	switch a.Kind {
	case setting.Sysctl:
		return slices.Concat(sysctlOwners(h.Lasting, a), tunedOwners(h.Lasting, a))
	case setting.IRQAffinity, setting.IRQCPUs:
		if runs(h, "irqbalance") {
			return []Owner{{Who: "irqbalance", When: "every few seconds", Wins: true}}
		}
	case setting.KSM:
		if runs(h, "ksmtuned") {
			return []Owner{{Who: "ksmtuned", When: "as memory fills", Wins: true}}
		}
	case setting.ThreadAffinity:
		if runs(h, "numad") {
			return []Owner{{Who: "numad", When: "when it moves the guest", Wins: true}}
		}
	case setting.Sysfs:
		return tunedOwners(h.Lasting, a)
	}
	return managerOwners(h.Lasting, a)
}

func runs(h *facts.Host, name string) bool {
	return slices.ContainsFunc(h.Services, func(s facts.Service) bool { return s.Name == name && s.Running })
}

// sysctlOwners are the files of sysctl.d that set a parameter. Files are read in the order of their names; the last wins.
func sysctlOwners(l *facts.Lasting, a setting.Address) []Owner {
	key, ours := Key(a.Path), path.Base(SysctlFile)
	var all []Owner
	for _, v := range l.Sysctls {
		if v.File == "/"+SysctlFile || !matches(v.Key, key) {
			continue
		}
		later := path.Base(v.File) > ours || v.File == "/etc/sysctl.conf"
		if later {
			all = slices.DeleteFunc(all, func(o Owner) bool { return o.Wins })
		}
		all = append(all, Owner{Who: v.File, Value: v.Value, When: "at boot", Wins: later})
	}
	return all
}

// matches tells whether a key of sysctl.d, which may hold wildcards, names a parameter.
func matches(pattern, key string) bool {
	if !strings.ContainsAny(pattern, "*?[") {
		return pattern == key
	}
	matched, err := path.Match(pattern, key)
	return err == nil && matched
}

// tunedOwners is TuneD, as far as its profile names the value. TuneD has sysctl.d read again behind its own settings
// (reapply_sysctl, on by default), so that the files win over it at boot.
func tunedOwners(l *facts.Lasting, a setting.Address) []Owner {
	t := l.Tuned
	if t == nil || !t.Running {
		return nil
	}
	who := "TuneD profile " + t.Profile
	if a.Kind == setting.Sysctl {
		for _, v := range slices.Backward(t.Sysctls) {
			if v.Key == Key(a.Path) {
				return []Owner{{Who: who, Value: v.Value, When: "when the profile is chosen"}}
			}
		}
		return nil
	}
	for plugin, prefixes := range tunedPlugins {
		for _, prefix := range prefixes {
			if slices.Contains(t.Plugins, plugin) && strings.HasPrefix(a.Path, prefix) {
				return []Owner{{Who: who, When: "when the profile is chosen"}}
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

// managerOwners is NetworkManager, as far as a connection profile sets the device's value (nm-settings-nmcli(5), section
// ethtool and link).
func managerOwners(l *facts.Lasting, a setting.Address) []Owner {
	names := map[setting.Kind]string{
		setting.NICRing: "ring-", setting.NICCoalesce: "coalesce-", setting.NICFeature: "feature-", setting.NICChannels: "channels-",
	}
	prefix, known := names[a.Kind]
	if !known {
		return nil
	}
	var all []Owner
	for _, v := range l.NetworkManager {
		if v.Key == "ethtool."+prefix+a.Rest() && (v.Of == "" || v.Of == a.Object()) {
			all = append(all, Owner{Who: "NetworkManager profile " + v.File, Value: v.Value, When: "when the connection is activated", Wins: true})
		}
	}
	return all
}

// owned names in each change who else sets its value. What this plan itself stops is no owner any more.
func owned(p *plan.Plan, h *facts.Host) {
	stopped := map[string]bool{}
	for _, c := range p.Changes {
		if c.Address.Kind == setting.Service && c.To.Value == "stopped" {
			stopped[c.Address.Path] = true
		}
	}
	for i := range p.Changes {
		c := &p.Changes[i]
		c.Owners = nil
		for _, o := range Owners(h, c.Address) {
			if !stopped[o.Who] && (o.Value == "" || o.Value != c.To.Value) {
				c.Owners = append(c.Owners, o.String())
			}
		}
	}
}
