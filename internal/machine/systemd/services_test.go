package systemd

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"mpps/internal/machine/tree"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestStorage counts storage daemons by the node that they are bound to.
func TestStorage(t *testing.T) {
	root := t.TempDir()
	for pid, p := range map[int]struct{ comm, cpus, rss string }{
		100: {"ceph-osd", "0-7", "2048 kB"}, 101: {"ceph-osd", "4-7", "1024 kB"}, 102: {"ceph-osd", "4", "1024 kB"},
		103: {"ceph-mon", "0-7", "512 kB"}, 104: {"glusterfsd", "0-3", ""},
	} {
		folder := filepath.Join(root, "proc", strconv.Itoa(pid))
		must.Do(t, os.MkdirAll(folder, 0o755))
		for name, text := range map[string]string{
			"comm": p.comm + "\n", "status": "Name:\t" + p.comm + "\nVmRSS:\t    " + p.rss + "\nCpus_allowed_list:\t" +
				p.cpus + "\n",
		} {
			must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
		}
	}
	m := must.Get(tree.Open(root))(t)
	defer m.Close()
	h := &facts.Host{Topology: facts.Topology{Nodes: []facts.Node{{ID: 0, CPUs: setting.CPUs(0, 1, 2, 3)},
		{ID: 1, CPUs: setting.CPUs(4, 5, 6, 7)}}}}
	Inventory(t.Context(), m, h)
	want := []facts.Storage{
		{Name: "ceph-osd", Count: 1, Node: 0, Memory: 2 << 20}, {Name: "ceph-osd", Count: 2, Node: 1, Memory: 2 << 20},
		{Name: "glusterfsd", Count: 1, Node: 0},
	}
	must.Hold(t, slices.Equal(h.Storage, want), "expected %+v, found %+v", want, h.Storage)
}

func TestKnowsUnit(t *testing.T) {
	const file = "/etc/systemd/system/mpps-restore.service"
	for _, c := range []struct {
		name, text string
		exists     bool
		want       bool
	}{
		{"just read from its file", "LoadState=loaded\nFragmentPath=" + file + "\nNeedDaemonReload=no\n", true, true},
		{"in memory, its file written since", "LoadState=loaded\nFragmentPath=" + file + "\nNeedDaemonReload=yes\n",
			true, false},
		{"in memory from a package", "LoadState=loaded\nFragmentPath=/usr/lib/systemd/system/mpps-restore.service\nNeedDaemonReload=no\n", true, false},
		{"looked for before it was written", "LoadState=not-found\nFragmentPath=\nNeedDaemonReload=no\n", true, false},
		{"removed, and forgotten", "LoadState=not-found\nFragmentPath=\nNeedDaemonReload=no\n", false, true},
		{"removed, and still in memory", "LoadState=loaded\nFragmentPath=" + file + "\nNeedDaemonReload=yes\n", false,
			false},
		{"a systemd that does not tell", "LoadState=loaded\nFragmentPath=" + file + "\n", true, false},
	} {
		must.Equal(t, isCurrent(c.text, file, c.exists), c.want, "%s", c.name)
	}
}

// TestServices finds daemons by their process name, of which the kernel keeps 15 bytes.
func TestServices(t *testing.T) {
	m := treetest.Recorded(t, map[string]string{"proc/500/comm": "irqbalance\n", "proc/501/comm": "systemd-network\n"})
	h := &facts.Host{}
	Inventory(t.Context(), m, h)
	running := map[string]bool{}
	for _, s := range h.Services {
		running[s.Name] = s.Running
	}
	if !running["irqbalance"] || !running["systemd-networkd"] || running["tuned"] {
		t.Errorf("services: %+v", h.Services)
	}
}
