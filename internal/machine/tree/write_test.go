package tree

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

func TestRefusalsNameWhatWasWanted(t *testing.T) {
	a := setting.Of(setting.NICRing, "eth0", "rx")
	err := Refusal(a, "9000", unix.EINVAL)
	if text := err.Error(); !strings.Contains(text, "nic-ring:eth0/rx") || !strings.Contains(text, "9000") ||
		!errors.Is(err, unix.EINVAL) {
		t.Errorf("refusal %q does not name value, wish and reason", text)
	}
	if err := Refusal(a, "1", fs.ErrPermission); strings.Contains(err.Error(), "needs root") != (os.Geteuid() != 0) {
		t.Errorf("refusal %q with user %d: it must say that it needs root where that would help", err, os.Geteuid())
	}
	if err := Refusal(a, "1", setting.ErrInDoubt); strings.Contains(err.Error(), "refused") ||
		!errors.Is(err, setting.ErrInDoubt) {
		t.Errorf("%q: a write in doubt was not refused", err)
	}
	must.Fail(Canonical(a, setting.Missing("")))(t, "a ring cannot be written as absent")
}

// TestPlantedDraft: whatever has the name of the draft is neither written to nor waited for.
func TestPlantedDraft(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(draft, other string) error{
		"a symbolic link": func(draft, _ string) error { return os.Symlink("other", draft) },
		"a hard link":     func(draft, other string) error { return os.Link(other, draft) },
		"a pipe":          func(draft, _ string) error { return syscall.Mkfifo(draft, 0o600) },
		"a longer draft":  func(draft, _ string) error { return os.WriteFile(draft, make([]byte, 1<<16), 0o666) },
		"a link out":      func(draft, _ string) error { return os.Symlink("/dev/null", draft) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			file, other := filepath.Join(root, "grub"), filepath.Join(root, "other")
			must.Do(t, os.WriteFile(file, []byte("old"), 0o640))
			must.Do(t, os.WriteFile(other, []byte("untouched"), 0o600))
			must.Do(t, plant(filepath.Join(root, Draft("grub")), other))
			m := must.Get(Open(root))(t)
			defer m.Close()
			done := make(chan error, 1)
			go func() { done <- m.Replace("grub", "new") }()
			select {
			case err := <-done:
				must.Do(t, err)
			case <-time.After(10 * time.Second):
				t.Fatal("it waits")
			}
			info := must.Get(os.Lstat(file))(t)
			if text := must.Get(os.ReadFile(file))(t); string(text) != "new" || info.Mode() != 0o640 {
				t.Errorf("found %q with mode %v", text, info.Mode())
			}
			if text := must.Get(os.ReadFile(other))(t); string(text) != "untouched" {
				t.Errorf("the other file has become %q", text)
			}
			must.Fail(os.Lstat(filepath.Join(root, Draft("grub"))))(t, "the draft is left")
		})
	}
}
