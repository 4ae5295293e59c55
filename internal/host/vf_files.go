package host

import (
	"path"
	"regexp"
	"strings"

	"mpps/internal/facts"
)

// vfFolders are where an administrator says that virtual functions are to be made when the host boots.
var vfFolders = []struct{ folder, suffix string }{
	{"etc/systemd/system", ".service"}, {"etc/systemd/network", ".link"}, {"etc/udev/rules.d", ".rules"},
	{"etc/modprobe.d", ".conf"}, {"etc/NetworkManager/system-connections", ".nmconnection"}, {"etc", "rc.local"},
}

// vfWords are what such a line holds: the sysfs file, systemd.link(5)'s option, the old drivers' parameter, and
// NetworkManager's.
var vfWords = regexp.MustCompile(`sriov_numvfs|SR-IOVVirtualFunctions\s*=|\bmax_vfs\s*=|\btotal-vfs\s*=`)

// vfDevice finds the device that a line or a file's match section names.
var vfDevice = regexp.MustCompile(`class/net/([^/\s"']+)/device/sriov_numvfs|^\s*OriginalName\s*=\s*(\S+)|KERNEL=="([^"*?\[]+)"|^\s*interface-name\s*=\s*(\S+)`)

// vfFiles lists the files that make virtual functions at boot.
func (m *Machine) vfFiles() []facts.VFFile {
	found := []facts.VFFile{}
	for _, where := range vfFolders {
		for _, name := range m.list(where.folder) {
			if !strings.HasSuffix(name, where.suffix) {
				continue
			}
			file := path.Join(where.folder, name)
			text, err := m.read(file)
			if err != nil || len(text) > 1<<20 {
				continue
			}
			if makes, device := makesVFs(text); makes {
				found = append(found, facts.VFFile{Path: "/" + file, Device: device})
			}
		}
	}
	return found
}

// makesVFs tells whether a file makes virtual functions, and of which device.
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
