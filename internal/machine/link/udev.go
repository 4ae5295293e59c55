package link

import (
	"path"
	"strconv"
	"strings"

	"mpps/internal/machine/tree"
)

// Link is what systemd's udev does with a network device when it appears: the version of systemd (0: could not tell),
// the device's place (ID_PATH), and the .link file that is in force for it, with its text. All are empty where udev has
// not seen the device.
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

// property is one property of a device in udev's records: a line "E:KEY=VALUE".
func property(record, key string) string {
	for line := range strings.Lines(record) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), "E:"+key+"="); found {
			return value
		}
	}
	return ""
}

// systemdVersion is the version of systemd by the name of its own library, libsystemd-shared-257.so or
// …-257.13-1.el10.so, which is where its programs find it (meson.build, rootpkglibdir); 0 where there is none.
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
