//go:build netns

package lab

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"mpps/internal/must"
	"mpps/internal/thread"
)

// TestSaveOnFullDisk: a state for which the disk has no room is not begun, and the host runs on.
func TestSaveOnFullDisk(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, thread.Do(func() error { // the mount ends with the thread
		if err := errors.Join(unix.Unshare(unix.CLONE_NEWNS|unix.CLONE_FS),
			unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""),
			unix.Mount("small", dir, "tmpfs", 0, "size=1m")); err != nil {
			return err
		}
		l := &Lab{tree: &Tree{Dir: dir}}
		s := saved{filepath.Join(dir, "saved", "1")}
		if err := os.MkdirAll(filepath.Dir(s.dir), 0o755); err != nil {
			return err
		}
		if err := l.save(t.Context(), s); !errors.Is(err, errNotSaved) || l.paused.Load() {
			t.Errorf("found %v, expected %v", err, errNotSaved)
		}
		if left, err := os.ReadDir(filepath.Dir(s.dir)); err != nil || len(left) > 0 {
			t.Errorf("left %v, %v", left, err)
		}
		return nil
	}))
}
