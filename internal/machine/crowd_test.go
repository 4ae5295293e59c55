package machine

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/must"
)

// crowd is more than any host has, and less than what its users can make.
const crowd = 100_000

// crowded returns a folder of a crowd whose entries are links to its entry "one".
func crowded(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "crowd")
	must.Do(t, os.Mkdir(folder, 0o755))
	for i := range crowd {
		must.Do(t, os.Symlink("one", filepath.Join(folder, strconv.Itoa(1_000_000+i))))
	}
	return folder
}

// moveInto moves the entries of a folder into another, and that one into its place.
func moveInto(t *testing.T, folder, crowd string) (moved []string) {
	t.Helper()
	entries := must.Get(os.ReadDir(folder))(t)
	for _, e := range entries {
		moved = append(moved, e.Name())
		must.Do(t, os.Rename(filepath.Join(folder, e.Name()), filepath.Join(crowd, e.Name())))
	}
	must.Do(t, os.Remove(folder))
	must.Do(t, os.Rename(crowd, folder))
	return moved
}

// TestCrowds: whoever can make 100,000 processes, threads or interfaces holds nobody up: the inventory ends once it is
// cancelled.
func TestCrowds(t *testing.T) {
	const qemu = "proc/900/"
	process := map[string]string{
		qemu + "comm": "qemu-system-x86\n", qemu + "stat": treetest.Stat(900, "qemu-system-x86", 5, 0, 0, 0),
		qemu + "status":  "Name:\tqemu-system-x86\nUid:\t0\t0\t0\t0\nCpus_allowed_list:\t0\n",
		qemu + "cmdline": "qemu-system-x86_64\x00-name\x00guest=vm1\x00-enable-kvm\x00",
		qemu + "cgroup":  "0::/machine.slice/vm1\n", qemu + "exe": "-> /usr/bin/qemu-system-x86_64",
		qemu + "task/": "", qemu + "fd/": "", "sys/class/net/": "",
		"sys/devices/virtual/net/br0/brif/":            "",
		"sys/devices/virtual/net/br0/bridge/stp_state": "0\n",
	}
	if memory, err := os.Stat("/dev/shm"); err == nil && memory.IsDir() {
		t.Setenv("TMPDIR", "/dev/shm")
	}
	entries, cancelled := crowded(t), 0
	for name, c := range map[string]struct{ folder, one string }{
		"processes":   {"proc", "900"},
		"threads":     {qemu + "task", ".."},
		"descriptors": {qemu + "fd", "/dev/vhost-net"},
		"interfaces":  {"sys/class/net", "../../devices/virtual/net/br0"},
		"ports":       {"sys/devices/virtual/net/br0/brif", "../../br0"},
	} {
		t.Run(name, func(t *testing.T) {
			root := treetest.Recorded(t, treetest.Merged(treetest.KVMHost(), process)).Path
			folder := filepath.Join(root, c.folder)
			moved := moveInto(t, folder, entries)
			defer func() {
				for _, name := range append(moved, "one") {
					os.RemoveAll(filepath.Join(folder, name))
				}
				must.Do(t, os.Rename(folder, entries))
			}()
			must.Do(t, os.Symlink(c.one, filepath.Join(folder, "one")))
			m := must.Get(Open(root))(t)
			defer m.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan time.Duration)
			go func() { m.Inventory(ctx); ended <- treetest.CPUTime(t) }()
			select {
			case <-ended:
				return // this machine reads them all at once
			case <-time.After(100 * time.Millisecond):
			}
			cancelled++
			used := treetest.CPUTime(t)
			cancel()
			if used = <-ended - used; used > time.Second { // of CPU time, whatever else runs here
				t.Errorf("cancelled, it went on for %v", used.Round(10*time.Millisecond))
			}
		})
	}
	must.Hold(t, cancelled != 0, "each inventory was over before it could be cancelled")
}
