package systemd

import (
	"os"
	"path/filepath"
	"testing"

	"mpps/internal/machine/tree"
	"mpps/internal/must"
)

// TestInside: the unit of this process is known by whole names, in both versions of control groups.
func TestInside(t *testing.T) {
	for text, want := range map[string]bool{
		"0::/system.slice/mpps-restore.service\n":                                  true,
		"12:pids:/system.slice/mpps-restore.service\n1:name=systemd:/other\n":      true,
		"0::/system.slice/mpps-restore.service/child\n":                            true,
		"0::/user.slice/user-0.slice/session-3.scope\n":                            false,
		"0::/system.slice/not-mpps-restore.service\n":                              false,
		"0::/system.slice/mpps-restore.service.d\n0::/system.slice/sshd.service\n": false,
	} {
		root := t.TempDir()
		must.Do(t, os.MkdirAll(filepath.Join(root, "proc/self"), 0o755))
		must.Do(t, os.WriteFile(filepath.Join(root, "proc/self/cgroup"), []byte(text), 0o644))
		m := must.Get(tree.Open(root))(t)
		must.Equal(t, inside(m, "mpps-restore.service"), want, "%q", text)
	}
}
