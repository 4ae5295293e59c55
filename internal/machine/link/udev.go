package link

import (
	"path"
	"strconv"
	"strings"

	"mpps/internal/machine/tree"
)

// Link returns what systemd's udev applies to a network device when it appears: the version of systemd (0 if unknown),
// the device's path (ID_PATH), and the .link file that applies, with its text. The last three are empty if udev has not
// seen the device.
func Link(m *tree.Tree, device string) (systemd int, place, file, text string) {
	systemd = systemdVersion(m)
	index := m.Line(path.Join(tree.ClassNet, device, "ifindex"))
	record, err := m.Read("run/udev/data/n" + index)
	if index == "" || err != nil {
		return systemd, "", "", ""
	}
	place, file = property(record, "ID_PATH"), property(record, "ID_NET_LINK_FILE")
	if file != "" {
		text, _ = m.Read(strings.TrimPrefix(file, "/"))
	}
	return systemd, place, file, text
}

// property returns one property of a device in udev's records: a line "E:KEY=VALUE".
func property(record, key string) string {
	for line := range strings.Lines(record) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), "E:"+key+"="); found {
			return value
		}
	}
	return ""
}

// systemdVersion returns the version of systemd from the name of its private library, libsystemd-shared-257.so or
// …-257.13-1.el10.so, which its programs load (meson.build, rootpkglibdir); 0 if there is none.
func systemdVersion(m *tree.Tree) int {
	folders := []string{"usr/lib/systemd", "lib/systemd", "usr/lib64/systemd", "lib64/systemd"}
	for _, name := range m.List("usr/lib") {
		if strings.Contains(name, "-linux-gnu") {
			folders = append(folders, "usr/lib/"+name+"/systemd", "usr/lib/"+name)
		}
	}
	for _, folder := range folders {
		for _, name := range m.List(folder) {
			rest, found := strings.CutPrefix(name, "libsystemd-shared-")
			if !found {
				continue
			}
			digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
			if version, err := strconv.Atoi(digits); err == nil {
				return version
			}
		}
	}
	return 0
}
