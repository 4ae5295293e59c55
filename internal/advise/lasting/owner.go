package lasting

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"mpps/internal/advise/plan"
	"mpps/internal/advise/tuned"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Owner is somebody else who sets a value.
type Owner struct {
	Who   string // "/etc/sysctl.d/99-local.conf", "TuneD profile virtual-host", "irqbalance"
	Value string // what they set it to; empty if not one value
	When  string // when they set it
	Wins  bool   // their value replaces that of mpps
	// Manages: the value is part of what they configure; whether they set this one is not known
	Manages string
}

func (o Owner) String() string {
	text := o.Who + " sets it too"
	if o.Manages != "" {
		return o.Who + " manages " + o.Manages + " and may set it too"
	}
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

// Owners returns who else sets a value on a host.
func Owners(h *facts.Host, a setting.Address) []Owner {
	if h.Lasting == nil {
		return nil
	}
	if a.Kind == setting.Sysctl {
		return slices.Concat(sysctlOwners(h.Lasting, a), tunedOwners(h.Lasting, a))
	}
	return slices.Concat(daemonOwners(h, a), managerOwners(h.Lasting, a), tunedOwners(h.Lasting, a))
}

// daemonOwners returns running daemons whose only job is to set such values, and platforms of guests.
func daemonOwners(h *facts.Host, a setting.Address) []Owner {
	if plan.IsPlatforms(h, a) {
		at := slices.IndexFunc(h.Guests, func(g facts.Guest) bool { return g.Name == a.Object() })
		return []Owner{{Who: h.Guests[at].Platform().Title(), When: "when it next starts the guest", Wins: true}}
	}
	switch {
	case (a.Kind == setting.IRQAffinity || a.Kind == setting.IRQCPUs) && runs(h, "irqbalance"):
		return []Owner{{Who: "irqbalance", When: "every few seconds", Wins: true}}
	case a.Kind == setting.KSM && runs(h, "ksmtuned"):
		return []Owner{{Who: "ksmtuned", When: "as memory fills", Wins: true}}
	case (a.Kind == setting.ThreadAffinity || a.Kind == setting.DomainLive) && runs(h, "numad"):
		return []Owner{{Who: "numad", When: "when it moves the guest", Wins: true}}
	case a.Kind == setting.OVSDB:
		return switchOwners(h.OpenVSwitch)
	}
	return nil
}

// switchOwners returns the platforms that configure Open vSwitch on this host, by the external_ids that they set.
func switchOwners(o *facts.OpenVSwitch) (all []Owner) {
	if o == nil {
		return nil
	}
	if o.OVN != nil {
		all = append(all, Owner{Who: "OVN", Manages: "this Open vSwitch"})
	}
	if o.OpenStack {
		all = append(all, Owner{Who: "Neutron", Manages: "this Open vSwitch"})
	}
	return all
}

func runs(h *facts.Host, name string) bool {
	return slices.ContainsFunc(h.Services, func(s facts.Service) bool { return s.Name == name && s.Running })
}

// sysctlOwners returns the files of sysctl.d that set a parameter. Files are read in order of their names; the last one
// wins.
func sysctlOwners(l *facts.Lasting, a setting.Address) []Owner {
	key, ours := setting.SysctlPath(a.Path), path.Base(SysctlFile)
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

// matches reports whether a key of sysctl.d, which may have wildcards, names a parameter.
func matches(pattern, key string) bool {
	if !strings.ContainsAny(pattern, "*?[") {
		return pattern == key
	}
	matched, err := path.Match(pattern, key)
	return err == nil && matched
}

// managerOwners returns the NetworkManager connection profiles that set the value of a device (nm-settings-nmcli(5),
// sections ethtool and link).
func managerOwners(l *facts.Lasting, a setting.Address) []Owner {
	names := map[setting.Kind]string{
		setting.NICRing: "ring-", setting.NICCoalesce: "coalesce-", setting.NICFeature: "feature-",
		setting.NICChannels: "channels-",
	}
	key, device := "ethtool."+names[a.Kind]+a.Rest(), a.Object()
	switch {
	case a.Kind == setting.Sysfs && tuned.TxQueueLength(a.Path) != "":
		key, device = "link.tx-queue-length", tuned.TxQueueLength(a.Path)
	case names[a.Kind] == "":
		return nil
	}
	var all []Owner
	for _, v := range l.NetworkManager {
		if v.Key == key && (v.Of == "" || v.Of == device) {
			all = append(all, Owner{Who: "NetworkManager profile " + v.File, Value: v.Value,
				When: "when the connection is activated", Wins: true})
		}
	}
	return all
}

// setOwners sets in each change who else sets its value, except services that the plan stops.
func setOwners(p *plan.Plan, h *facts.Host) {
	for i := range p.Changes {
		c := &p.Changes[i]
		c.Owners = nil
		for _, o := range Owners(h, c.Address) {
			if !stops(p, o.Who) && (o.Value == "" || o.Value != c.To.Value) {
				c.Owners = append(c.Owners, o.String())
			}
		}
	}
}
