//go:build netns

package machine

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/libvirt"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// TestPlatformProcesses: whose a real process is says a PID file that only root can write. One that a group or a person
// can write, a link, and one that names another process say nothing; and a person's process stays unverified whatever
// names it.
func TestPlatformProcesses(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	// The mounts are this process's own.
	treetest.Guests(t, unix.LOCK_EX)
	must.Do(t, unix.Mount("run", "/run", "tmpfs", 0, "mode=755"))
	must.Do(t, os.Mkdir("/run/qemu-server", 0o755))
	const user = 4711
	file := func(number int) string { return fmt.Sprintf("/run/qemu-server/%d.pid", number) }
	write := func(t *testing.T, name string, pid int) {
		must.Do(t, os.WriteFile(name, fmt.Appendln(nil, pid), 0o644))
	}
	number := 100
	for _, c := range []struct {
		what     string
		uid      uint32
		names    func(t *testing.T, file string, pid int) error
		platform facts.Platform // empty: unverified
	}{
		{"root's file", 0, func(t *testing.T, file string, pid int) error { write(t, file, pid); return nil }, facts.Proxmox},
		{"no file", 0, func(*testing.T, string, int) error { return nil }, facts.QEMU},
		{"a file of another process", 0, func(t *testing.T, file string, _ int) error { write(t, file, 1); return nil },
			facts.QEMU},
		{"a file that a group can write", 0, func(t *testing.T, file string, pid int) error {
			write(t, file, pid)
			return os.Chmod(file, 0o664)
		}, facts.QEMU},
		{"a person's file", 0, func(t *testing.T, file string, pid int) error {
			write(t, file, pid)
			return os.Chown(file, user, user)
		}, facts.QEMU},
		{"a link", 0, func(t *testing.T, file string, pid int) error {
			write(t, "/run/elsewhere", pid)
			return os.Symlink("/run/elsewhere", file)
		}, facts.QEMU},
		{"root's file names a person's process", user, func(t *testing.T, file string, pid int) error {
			write(t, file, pid)
			return nil
		}, ""},
	} {
		number++
		t.Run(c.what, func(t *testing.T) {
			guest := fmt.Sprint("platform-test-", number)
			pid, _ := namedProcess(t, "kvm", c.uid, "-id", fmt.Sprint(number), "-name", guest+",debug-threads=on")
			must.Do(t, c.names(t, file(number), pid))
			h := &facts.Host{}
			libvirt.Inventory(t.Context(), live(t).Tree, h, new(libvirt.Definitions))
			found := facts.Find(h.Guests, func(g *facts.Guest) bool { return g.Name == guest })
			unverified := facts.Find(h.Unverified, func(u *facts.Unverified) bool { return u.PID == pid })
			switch {
			case c.platform == "" && (found != nil || unverified == nil || !strings.Contains(unverified.Why, "user")):
				t.Errorf("guest %+v, unverified %+v", found, unverified)
			case c.platform != "" && (found == nil || found.PID != pid || found.Platform() != c.platform):
				t.Errorf("expected a guest of %s, found %+v", c.platform, found)
			}
		})
	}
}

// TestInstanceProcesses: a real process is Incus's if root's PID file in its instance's folder names it, and nobody
// else can write the file or a folder above it.
func TestInstanceProcesses(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	treetest.Guests(t, unix.LOCK_EX)
	must.Do(t, unix.Mount("run", "/run", "tmpfs", 0, "mode=755"))
	for i, c := range []struct {
		what     string
		spoil    func(folder string) error
		platform facts.Platform
	}{
		{"root's file", func(string) error { return nil }, facts.Incus},
		{"a person's folder", func(folder string) error { return os.Chown(folder, 4711, 4711) }, facts.QEMU},
		{"a folder above that a group can write", func(string) error { return os.Chmod("/run/incus", 0o775) },
			facts.QEMU},
	} {
		t.Run(c.what, func(t *testing.T) {
			guest := fmt.Sprint("instance-test-", i)
			folder := "/run/incus/shop_" + guest
			must.Do(t, os.MkdirAll(folder, 0o700))
			pid, _ := namedProcess(t, "qemu-system-x86", 0, "-name", guest, "-pidfile", folder+"/qemu.pid")
			must.Do(t, os.WriteFile(folder+"/qemu.pid", fmt.Appendln(nil, pid), 0o600))
			must.Do(t, c.spoil(folder))
			h := &facts.Host{}
			libvirt.Inventory(t.Context(), live(t).Tree, h, new(libvirt.Definitions))
			found := facts.Find(h.Guests, func(g *facts.Guest) bool { return g.Name == guest })
			if found == nil || found.Platform() != c.platform ||
				c.platform == facts.Incus && found.Owner.ID != "shop/"+guest {
				t.Errorf("expected a guest of %s, found %+v", c.platform, found)
			}
		})
	}
}
