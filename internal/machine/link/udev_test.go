package link

import (
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/must"
)

// TestLink reads udev's record of a device, and systemd's version from its library.
func TestLink(t *testing.T) {
	files := map[string]string{
		"sys/class/net/eth0/ifindex":                                "3\n",
		"run/udev/data/n3":                                          "I:1\nE:ID_PATH=pci-0000:01:00.0\nE:ID_NET_LINK_FILE=/usr/lib/systemd/network/99-default.link\n",
		"usr/lib/systemd/network/99-default.link":                   "[Link]\nNamePolicy=keep\n",
		"usr/lib/x86_64-linux-gnu/systemd/libsystemd-shared-257.so": "",
	}
	m := treetest.Recorded(t, files)
	version, place, file, text := Link(m, "eth0")
	if version != 257 || place != "pci-0000:01:00.0" || file != "/usr/lib/systemd/network/99-default.link" ||
		text != "[Link]\nNamePolicy=keep\n" {
		t.Error(version, place, file, text)
	}
	if version, place, _, _ := Link(m, "eth9"); version != 257 || place != "" {
		t.Error(version, place)
	}
	for name, want := range map[string]int{"libsystemd-shared-239.so": 239, "libsystemd-shared-257.13-1.el10.so": 257,
		"libsystemd-core-257.so": 0} {
		must.Equal(t, systemdVersion(treetest.Recorded(t, map[string]string{"usr/lib/systemd/" + name: ""})), want,
			"%s", name)
	}
}
