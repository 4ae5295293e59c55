package machine

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"mpps/internal/advise/tuned"
	"mpps/internal/machine/libvirt"
	"mpps/internal/machine/ovs"
	"mpps/internal/machine/systemd"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// readLasting reads what else sets values, and what can restore values of mpps at boot, into h.Lasting.
func (m *Machine) readLasting(_ context.Context, h *facts.Host) {
	l := &facts.Lasting{Systemd: m.Exists("run/systemd/system"), Sysctls: m.sysctlFiles()}
	if program, err := os.Executable(); err == nil && m.Live() {
		l.Program = program
	}
	for _, folder := range systemd.PackagedUnits {
		l.Packaged = l.Packaged || m.Exists(folder+"/mpps-restore.service")
	}
	l.Tuned = m.tuned(h)
	l.NetworkManager = m.managedProfiles(h.Services)
	h.Lasting = l
}

// Owners returns only that part of the inventory.
func (m *Machine) Owners(ctx context.Context) *facts.Host {
	h := &facts.Host{}
	systemd.Inventory(ctx, m.Tree, h)
	m.readLasting(ctx, h)
	return h
}

// GuestOwners returns the guests without their threads: who makes their definitions.
func (m *Machine) GuestOwners(ctx context.Context) []facts.Guest {
	h := &facts.Host{}
	libvirt.WithoutThreads(ctx, m.Tree, h, m.definitions)
	return h.Guests
}

// SwitchOwners returns what Open vSwitch's database tells: whose switch it is. Nil if there is none.
func (m *Machine) SwitchOwners(ctx context.Context) *facts.OpenVSwitch {
	h := &facts.Host{}
	ovs.Inventory(ctx, m.Tree, h)
	return h.OpenVSwitch
}

// sysctlFolders are read by systemd-sysctl and sysctl(8) --system; of files of the same name the first one counts
// (sysctl.d(5), sysctl(8)).
var sysctlFolders = []string{"etc/sysctl.d", "run/sysctl.d", "usr/local/lib/sysctl.d", "usr/lib/sysctl.d",
	"lib/sysctl.d"}

// sysctlFiles returns the settings of sysctl.d and sysctl.conf in the order in which they are applied.
func (m *Machine) sysctlFiles() []facts.OwnedValue {
	at := map[string]string{} // name → the file that counts
	for _, folder := range sysctlFolders {
		for _, name := range m.List(folder) {
			if at[name] == "" && strings.HasSuffix(name, ".conf") {
				at[name] = folder + "/" + name
			}
		}
	}
	all := []facts.OwnedValue{}
	conf := m.Target("etc/sysctl.d/99-sysctl.conf") == "sysctl.conf"
	for _, name := range slices.Sorted(maps.Keys(at)) {
		all = append(all, m.sysctlFile(at[name])...)
	}
	if !conf { // sysctl(8) reads it last; systemd only through a link, which Debian has up to release 12
		all = append(all, m.sysctlFile("etc/sysctl.conf")...)
	}
	return all
}

func (m *Machine) sysctlFile(name string) []facts.OwnedValue {
	text, err := m.Read(name)
	if err != nil {
		return nil
	}
	return parseSysctlFile("/"+name, text)
}

// parseSysctlFile reads the syntax of sysctl.d(5): key = value, a leading minus to ignore errors, # and ; for comments.
// It returns keys with slashes, as below /proc/sys.
func parseSysctlFile(name, text string) []facts.OwnedValue {
	var all []facts.OwnedValue
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		key, value, found := strings.Cut(line, "=")
		key = strings.TrimSpace(strings.TrimPrefix(key, "-"))
		if !found || key == "" {
			continue
		}
		all = append(all, facts.OwnedValue{Key: setting.SysctlPath(key), Value: strings.Join(strings.Fields(value),
			" "), File: name})
	}
	return all
}

// tuned returns TuneD's active profile with its settings; nil if there is none.
func (m *Machine) tuned(h *facts.Host) *facts.Tuned {
	running := slices.ContainsFunc(h.Services, func(s facts.Service) bool { return s.Name == "tuned" && s.Running })
	files, at := m.TunedFiles()
	return tuned.Read(files, at, running)
}

// TunedFiles returns the files and machine facts that a TuneD profile is resolved from.
func (m *Machine) TunedFiles() (tuned.Files, tuned.Machine) {
	info, _ := m.Read("proc/cpuinfo")
	at := tuned.Machine{Online: m.CPUs("sys/devices/system/cpu/online"),
		Present: m.CPUs("sys/devices/system/cpu/present"), Package: map[int]int{}, CPUInfo: strings.TrimSpace(info)}
	for _, cpu := range at.Online {
		if n := m.Number(fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/physical_package_id", cpu), -1); n >= 0 {
			at.Package[cpu] = n
		}
	}
	at.Uname = strings.Join([]string{"Linux", m.Line("proc/sys/kernel/osrelease"), m.Line("proc/sys/kernel/version"),
		architecture(at.CPUInfo)}, " ")
	return func(name string) (string, bool) {
		text, err := m.Read(name)
		return text, err == nil
	}, at
}

// architecture returns uname's machine name, from /proc/cpuinfo; empty if unknown.
func architecture(info string) string {
	switch {
	case strings.Contains(info, "vendor_id"):
		return "x86_64"
	case strings.Contains(info, "CPU implementer"):
		return "aarch64"
	}
	return ""
}

// iniEntry is one line of an INI file.
type iniEntry struct{ section, key, value string }

func parseINI(text string) []iniEntry {
	var all []iniEntry
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[' && line[len(line)-1] == ']':
			section = line[1 : len(line)-1]
		default:
			if key, value, found := strings.Cut(line, "="); found {
				all = append(all, iniEntry{section, strings.TrimSpace(key), strings.TrimSpace(value)})
			}
		}
	}
	return all
}

// managedProfiles returns the device settings in NetworkManager's keyfiles (nm-settings-keyfile(5)); none if it does
// not run.
func (m *Machine) managedProfiles(services []facts.Service) []facts.OwnedValue {
	if !slices.ContainsFunc(services, func(s facts.Service) bool { return s.Name == "NetworkManager" && s.Running }) {
		return nil
	}
	var all []facts.OwnedValue
	for _, folder := range []string{"etc/NetworkManager/system-connections", "run/NetworkManager/system-connections",
		"usr/lib/NetworkManager/system-connections"} {
		for _, name := range m.List(folder) {
			text, err := m.Read(folder + "/" + name)
			if err != nil {
				continue
			}
			device := ""
			var found []facts.OwnedValue
			for _, e := range parseINI(text) {
				switch {
				case e.section == "connection" && e.key == "interface-name":
					device = e.value
				case e.section == "ethtool", e.section == "link":
					found = append(found, facts.OwnedValue{Key: e.section + "." + e.key, Value: e.value, File: "/" +
						folder + "/" + name})
				}
			}
			for i := range found {
				found[i].Of = device
			}
			all = append(all, found...)
		}
	}
	return all
}
