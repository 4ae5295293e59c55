package inside

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mpps/internal/model/facts"
)

// TestInsideTreeDoesNotTrust: files that a malicious guest reports do not lead out of the tree.
func TestInsideTreeDoesNotTrust(t *testing.T) {
	for name, lie := range map[string]func(*guestTree) error{
		"a file elsewhere": func(t *guestTree) error { return t.addFiles("/etc/passwd:root\n") },
		"dots":             func(t *guestTree) error { return t.addFiles("/proc/../../etc/passwd:root\n") },
		"a link out": func(t *guestTree) error {
			return errors.Join(t.addLinks("l /sys/class/net/eth0 -> ../../../../../../etc\n"),
				t.addFiles("/sys/class/net/eth0/passwd:x\n"))
		},
		"a directory": func(t *guestTree) error { return t.addDirs("/root/.ssh\n") },
		"too much": func(t *guestTree) error {
			return t.addFiles("/proc/x:" + strings.Repeat("x", maxBytes) +
				"\n")
		},
		"a file in a file": func(t *guestTree) error {
			t.files["proc/a"], t.files["proc/a/b"] = "", ""
			_, _, err := t.write()
			return err
		},
	} {
		if err := lie(newGuestTree()); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	twice := newGuestTree()
	if err := errors.Join(twice.addFiles("/proc/a:1\n/proc/a:2\n"), twice.addFiles("/proc/a:3\n")); err != nil ||
		twice.files["proc/a"] != "3\n" {
		t.Errorf("told twice: %q, %v", twice.files["proc/a"], err)
	}
	loop := newGuestTree()
	if err := loop.addLinks("l /sys/class/net/a -> b\nl /sys/class/net/b -> a\n"); err != nil {
		t.Error(err)
	}
	m, done, err := loop.write()
	if err != nil {
		t.Fatal(err)
	}
	Inventory(t.Context(), m)
	if err := done(); err != nil {
		t.Error(err)
	}
}

func FuzzInsideTree(f *testing.F) {
	f.Add("lrwxrwxrwx 1 0 0 0 Nov 21 03:56 /sys/class/net/eth0 -> ../../devices/pci0000:00/virtio0/net/eth0\n",
		"/sys/class/net/eth0/mtu:1500\n", "/proc/irq/9/acpi\n")
	f.Fuzz(func(t *testing.T, links, files, dirs string) {
		tree := newGuestTree()
		if errors.Join(tree.addLinks(links), tree.addFiles(files), tree.addDirs(dirs)) != nil {
			return
		}
		m, done, err := tree.write()
		if err != nil {
			return
		}
		Inventory(t.Context(), m)
		if err := done(); err != nil {
			t.Error(err)
		}
	})
}

func TestParseChannels(t *testing.T) {
	const text = "Channel parameters for eth0:\nPre-set " +
		"maximums:\nRX:\t\tn/a\nTX:\t\tn/a\nOther:\t\tn/a\nCombined:\t4\nCurrent hardware " +
		"settings:\nRX:\t\tn/a\nTX:\t\tn/a\nOther:\t\tn/a\nCombined:\t1\n"
	if d := cmp.Diff(&facts.Channels{MaxCombined: 4, Combined: 1}, parseChannels(text)); d != "" {
		t.Error(d)
	}
	if c := parseChannels("netlink error: Operation not supported\n"); c != nil {
		t.Errorf("made of an error: %+v", c)
	}
}
