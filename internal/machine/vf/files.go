package vf

import (
	"encoding/json"
	"path"
	"regexp"
	"strings"

	"mpps/internal/machine/systemd"
	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// vfFolders are where an administrator may have VFs created at boot.
var vfFolders = []struct{ folder, suffix string }{
	{"etc/systemd/system", ".service"}, {"etc/systemd/network", ".link"}, {"etc/udev/rules.d", ".rules"},
	{"etc/modprobe.d", ".conf"}, {"etc/NetworkManager/system-connections", ".nmconnection"}, {"etc", "rc.local"},
}

// vfWords matches a line that creates VFs: the sysfs file, systemd.link(5)'s option, old drivers' parameter, and
// NetworkManager's.
var vfWords = regexp.MustCompile(`sriov_numvfs|SR-IOVVirtualFunctions\s*=|\bmax_vfs\s*=|\btotal-vfs\s*=`)

// vfDevice matches the device in a line or in a file's match section.
var vfDevice = regexp.MustCompile(
	`class/net/([^/\s"']+)/device/sriov_numvfs|^\s*OriginalName\s*=\s*([^\s*?\[]+)|KERNEL=="([^"*?\[]+)"|^\s*interface-name\s*=\s*(\S+)`)

// vfPlace matches the device's PCI address in a .link file or a rule (ID_PATH of udev).
var vfPlace = regexp.MustCompile(
	`(?m)(?:^\s*Path\s*=|ID_PATH}=="|KERNELS=="|^\s*path\s*=)\s*(?:pci-)?([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\b`)

// Files returns the files that create VFs at boot: those of an administrator, and the list of values that
// mpps-vfs.service restores, if that is enabled.
func Files(m *tree.Tree) []facts.VFFile {
	found := vfDesired(m)
	for _, where := range vfFolders {
		for _, name := range m.List(where.folder) {
			if !strings.HasSuffix(name, where.suffix) {
				continue
			}
			file := path.Join(where.folder, name)
			text, err := m.Read(file)
			if err != nil || len(text) > 1<<20 {
				continue
			}
			if makes, device := makesVFs(text); makes {
				if place := vfPlace.FindStringSubmatch(text); device == "" && place != nil {
					if nics := m.List("sys/bus/pci/devices/" + place[1] + "/net"); len(nics) > 0 {
						device = nics[0]
					}
				}
				found = append(found, facts.VFFile{Path: "/" + file, Device: device})
			}
		}
	}
	return found
}

// makesVFs reports whether a file creates VFs, and returns the device; empty if the file does not name it.
func makesVFs(text string) (makes bool, device string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		makes = makes || vfWords.MatchString(line)
		for _, name := range vfDevice.FindAllStringSubmatch(line, -1) {
			device = name[1] + name[2] + name[3] + name[4]
		}
	}
	return makes, device
}

// The list of values of mpps-vfs.service, and the link that enables it.
const (
	vfDesiredFile = "var/lib/mpps/desired.json"
	vfUnitLink    = systemd.WantsFolder + "/mpps-vfs.service"
)

// vfDesired returns the PFs whose number of VFs is restored at boot.
func vfDesired(m *tree.Tree) []facts.VFFile {
	found := []facts.VFFile{}
	text, err := m.Read(vfDesiredFile)
	if err != nil {
		return found
	}
	if _, err := m.Lstat(vfUnitLink); err != nil {
		return found
	}
	var list struct {
		Values []struct{ Address setting.Address }
	}
	if json.Unmarshal([]byte(text), &list) != nil {
		return found
	}
	for _, v := range list.Values {
		if v.Address.Kind == setting.VFCount {
			found = append(found, facts.VFFile{Path: "/" + vfDesiredFile, Device: v.Address.Path})
		}
	}
	return found
}
