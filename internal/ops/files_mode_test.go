package ops

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"mpps/internal/must"
)

// TestReplaceFileMode: a new file has what the umask leaves, an existing one keeps its permissions, and is at no time
// readable by more than before.
func TestReplaceFileMode(t *testing.T) {
	for _, umask := range []int{0o022, 0o077, 0o027} {
		old := syscall.Umask(umask)
		name := filepath.Join(t.TempDir(), "out.json")
		err := ReplaceFile(name, []byte("1"))
		syscall.Umask(old)
		must.Do(t, err)
		if got, want := mode(t, name), os.FileMode(0o666&^umask); got != want {
			t.Errorf("umask %04o: mode %04o, expected %04o", umask, got, want)
		}
	}
	for _, kept := range []os.FileMode{0o600, 0o640, 0o400} {
		name := filepath.Join(t.TempDir(), "secret")
		must.Do(t, os.WriteFile(name, []byte("1"), kept))
		link := name + "-link"
		must.Do(t, os.Symlink(name, link))
		must.Do(t, ReplaceFile(link, []byte("2")))
		if text, err := os.ReadFile(name); mode(t, name) != kept || err != nil || string(text) != "2" {
			t.Errorf("mode %04o with %q, %v: expected %04o with 2", mode(t, name), text, err, kept)
		}
	}
}

func mode(t *testing.T, name string) os.FileMode {
	t.Helper()
	info := must.Get(os.Stat(name))(t)
	return info.Mode().Perm()
}
