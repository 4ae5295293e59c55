//go:build netns

package machine

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/libvirt"
	"mpps/internal/machine/systemd"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

const impostorGuest = "impostor-test"

// namedProcess starts a process of a user with the name of a program; it ends with its input.
func namedProcess(t *testing.T, name string, uid uint32, args ...string) (pid int, end func()) {
	t.Helper()
	folder, err := os.MkdirTemp("/run", "impostor")
	if err == nil {
		err = errors.Join(os.Chmod(folder, 0o755), os.Symlink("/bin/sh", filepath.Join(folder, name)))
	}
	must.Do(t, err)
	cmd := exec.Command(filepath.Join(folder, name), append([]string{"-c", "read -r line"}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	in := must.Get(cmd.StdinPipe())(t)
	must.Do(t, cmd.Start())
	end = func() { in.Close(); _ = cmd.Wait() }
	t.Cleanup(end)
	named := func() bool {
		comm, _ := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/comm")
		return strings.TrimSpace(string(comm)) == name[:min(len(name), 15)]
	}
	for till := time.Now().Add(10 * time.Second); !named() && time.Now().Before(till); {
		time.Sleep(time.Millisecond)
	}
	must.Need(t, named(), "%v", "the process has not taken the name "+name)
	return cmd.Process.Pid, end
}

// cpusOf returns how many CPUs a process may use.
func cpusOf(t *testing.T, pid int) int {
	t.Helper()
	var set unix.CPUSet
	must.Do(t, unix.SchedGetaffinity(pid, &set))
	return set.Count()
}

// TestImpostors: processes of a local user that call themselves a guest's QEMU, or a daemon, change nothing that is
// read, planned or written.
func TestImpostors(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	treetest.Guests(t, unix.LOCK_EX)
	// The mounts are this process's own.
	const folder = "/run/libvirt/qemu"
	must.Do(t, unix.Mount("run", "/run", "tmpfs", 0, "mode=755"))
	must.Do(t, os.MkdirAll(folder, 0o755))
	const user = 4711
	name := []string{"-name", "guest=" + impostorGuest}
	first, _ := namedProcess(t, "qemu-system-x86_64", user, name...)
	guest, end := namedProcess(t, "qemu-system-x86_64", 0, name...)
	last, _ := namedProcess(t, "qemu-system-x86_64", user, name...)
	must.Do(t, os.WriteFile(folder+"/"+impostorGuest+".pid", []byte(strconv.Itoa(guest)), 0o644))
	irqbalance, _ := namedProcess(t, "irqbalance", user)
	m := live(t)
	look := func() (*facts.Host, int) {
		h := &facts.Host{Topology: facts.Topology{Nodes: []facts.Node{{}}}}
		libvirt.Inventory(t.Context(), m.Tree, h, new(libvirt.Definitions))
		systemd.Inventory(t.Context(), m.Tree, h)
		for _, g := range h.Guests {
			if g.Name == impostorGuest {
				return h, g.PID
			}
		}
		return h, 0
	}
	h, pid := look()
	if pid != guest || unverified(h) != 2 {
		t.Errorf("expected guest %d and 2 unverified, found %d and %d", guest, pid, unverified(h))
	}
	disks := len(h.Storage)
	namedProcess(t, "ceph-osd", user)
	h, _ = look()
	for _, s := range h.Services {
		must.Hold(t, s.PID != irqbalance, "%s is taken for a service", s.Name)
	}
	must.Equal(t, len(h.Storage), disks, "storage daemons: %+v", h.Storage)

	before := cpusOf(t, first)
	if before < 2 {
		t.Skip("an affinity needs two CPUs")
	}
	a := setting.Of(setting.ThreadAffinity, impostorGuest, "emulator")
	must.Do(t, m.Mechanisms().Write(t.Context(), a, setting.Value("0")))
	if cpusOf(t, guest) != 1 || cpusOf(t, first) != before || cpusOf(t, last) != before {
		t.Errorf("CPUs: guest %d, impostors %d and %d", cpusOf(t, guest), cpusOf(t, first), cpusOf(t, last))
	}

	end() // libvirt's file stays, as if libvirt had ended before
	if _, pid := look(); pid != 0 {
		t.Errorf("process %d is taken for the guest, which has ended", pid)
	}
	must.Equal(t, m.Mechanisms().Read(t.Context(), a).State, setting.Absent, "read as")
	err := m.Mechanisms().Write(t.Context(), a, setting.Value("0"))
	must.Hold(t, errors.Is(err, libvirt.ErrNotRunning) && cpusOf(t, first) == before && cpusOf(t, last) == before,
		"written after its end: %v", err)

	// libvirt may run a guest as any user.
	must.Do(t, os.WriteFile(folder+"/"+impostorGuest+".pid", []byte(strconv.Itoa(first)), 0o644))
	if _, pid := look(); pid != first {
		t.Errorf("process %d is taken for the guest, expected %d", pid, first)
	}
	// Another process has the number in the file.
	must.Do(t, os.WriteFile(folder+"/"+impostorGuest+".pid", []byte(strconv.Itoa(last)), 0o644))
	must.Do(t, os.Chtimes(folder+"/"+impostorGuest+".pid", time.Time{}, time.Now().Add(-time.Hour)))
	if _, pid := look(); pid != 0 {
		t.Errorf("process %d is taken for the guest by a file that is older than it", pid)
	}
	// A person's file names it.
	must.Do(t, os.Chown(folder+"/"+impostorGuest+".pid", user, user))
	must.Do(t, os.Chtimes(folder+"/"+impostorGuest+".pid", time.Time{}, time.Now()))
	if _, pid := look(); pid != 0 {
		t.Errorf("process %d is taken for the guest by a person's file", pid)
	}
}

// unverified returns how many processes claim to be the guest.
func unverified(h *facts.Host) (n int) {
	for _, u := range h.Unverified {
		if u.Guest == impostorGuest {
			n++
		}
	}
	return n
}
