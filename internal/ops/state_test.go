package ops

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"mpps/internal/must"
)

// TestStateOfOthers: a file that mpps keeps and reads again is refused where somebody else can write or replace it, and
// where it is none.
func TestStateOfOthers(t *testing.T) {
	const name = "var/lib/mpps/effects.json"
	for what, spoil := range map[string]func(file string) error{
		"of another user":    func(file string) error { return os.Chown(file, stranger, -1) },
		"that others write":  func(file string) error { return os.Chmod(file, 0o646) },
		"in an open folder":  func(file string) error { return os.Chmod(filepath.Dir(file), 0o777) },
		"in another's":       func(file string) error { return os.Chown(filepath.Dir(file), stranger, -1) },
		"larger than any":    func(file string) error { return os.Truncate(file, maxState+1) },
		"a folder":           func(file string) error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o755)) },
		"a pipe":             func(file string) error { return errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o644)) },
		"a link to zeros":    func(file string) error { return errors.Join(os.Remove(file), os.Symlink("/dev/zero", file)) },
		"a link out of here": func(file string) error { return errors.Join(os.Remove(file), os.Symlink("../../../../x", file)) },
	} {
		if os.Geteuid() != 0 {
			t.Skip("gives files to another user, which takes root")
		}
		e := &Env{Root: t.TempDir()}
		must.Is(t, must.Err(e.OpenState(name)), fs.ErrNotExist, "there is none")
		must.Do(t, e.WriteState(name, []byte("{}")))
		f := must.Get(e.OpenState(name))(t)
		if text := must.Get(io.ReadAll(f))(t); string(text) != "{}" {
			t.Errorf("found %q", text)
		}
		must.Do(t, f.Close())
		must.Do(t, spoil(filepath.Join(e.Root, name)))
		if _, err := e.OpenState(name); err == nil || errors.Is(err, fs.ErrNotExist) && what != "a link out of here" {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestStateStaysInRoot: links in a tree that was handed over lead nothing that is written out of it.
func TestStateStaysInRoot(t *testing.T) {
	const name = "var/lib/mpps/runs/run.json"
	for what, link := range map[string]string{"folder": "var/lib/mpps", "runs": filepath.Dir(name), "file": name} {
		e, victim := &Env{Root: t.TempDir()}, t.TempDir()
		kept := filepath.Join(victim, "kept")
		must.Do(t, os.WriteFile(kept, []byte("root:*"), 0o600))
		target, at := victim, filepath.Join(e.Root, link)
		if link == name {
			target = kept
		}
		must.Do(t, os.MkdirAll(filepath.Dir(at), 0o755))
		must.Do(t, os.Symlink(target, at))
		_ = e.WriteState(name, []byte("{}")) // refused, or the link is replaced
		left := must.Get(os.ReadDir(victim))(t)
		if text := must.Get(os.ReadFile(kept))(t); len(left) != 1 || string(text) != "root:*" {
			t.Errorf("%s: written through the link: %v, %q", what, left, text)
		}
	}
}

// TestFolderInOthersFolder: a folder for outputs is neither a link nor somebody else's where others can write next to
// it.
func TestFolderInOthersFolder(t *testing.T) {
	dir, victim := openFolder(t, 0o777|os.ModeSticky), t.TempDir()
	link, planted, deep := filepath.Join(dir, "link"), filepath.Join(dir, "planted"), filepath.Join(dir, "a", "b")
	must.Do(t, os.Symlink(victim, link))
	must.Do(t, os.Mkdir(planted, 0o777))
	must.Do(t, os.Lchown(planted, stranger, stranger))
	for _, name := range []string{link, planted} {
		must.Refuse(t, MakeFolder(name), "%s is taken", name)
	}
	for range 2 { // a new one, and the same again
		must.Do(t, MakeFolder(deep))
	}
	own := t.TempDir()
	must.Do(t, os.Symlink(victim, filepath.Join(own, "link")))
	must.Do(t, MakeFolder(filepath.Join(own, "link"))) // nobody else made it
}

// TestReopen: a file that was read is written only if its name leads to the same one still.
func TestReopen(t *testing.T) {
	dir, victim := openFolder(t, 0o777), filepath.Join(t.TempDir(), "shadow")
	must.Do(t, os.WriteFile(victim, []byte("root:*"), 0o600))
	name := filepath.Join(dir, "campaign.jsonl")
	must.Do(t, os.WriteFile(name, []byte("{}\n"), 0o644))
	before := must.Get(os.Stat(name))(t)
	f := must.Get(Reopen(name, before))(t)
	must.Do(t, f.Close())
	for what, swap := range map[string]func() error{
		"a link":       func() error { return os.Symlink(victim, name) },
		"another name": func() error { return os.Link(victim, name) },
		"a pipe":       func() error { return syscall.Mkfifo(name, 0o666) },
	} {
		must.Do(t, os.Remove(name))
		must.Do(t, swap())
		if f, err := Reopen(name, before); err == nil {
			t.Errorf("%s: %s was opened", what, f.Name())
		}
	}
	must.Do(t, os.Remove(name))
	must.Do(t, os.Link(victim, name))
	must.Do(t, os.Chown(name, 0, 0))
	if f, err := Create(name); err == nil {
		t.Errorf("%s, another name of a file, was emptied", f.Name())
	}
}
