package tree

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// Resolve follows symbolic links and returns the name of the file: RHEL's grubenv is a link to the EFI system
// partition.
func (t *Tree) Resolve(name string) string {
	for range 8 {
		target, err := t.Readlink(name)
		if err != nil {
			break
		}
		if name = path.Join(path.Dir(name), target); path.IsAbs(target) {
			name = strings.TrimPrefix(target, "/")
		}
	}
	return name
}

// Draft returns the name under which Replace writes a file's new text before it renames it.
func Draft(name string) string { return path.Join(path.Dir(name), "."+path.Base(name)+".mpps-new") }

// Replace writes a whole file so that a crash leaves either the old text or the new one: it writes a draft, syncs it
// and renames it. An existing file keeps its permissions and owner.
func (t *Tree) Replace(name, text string) error {
	name = t.Resolve(name)
	mode := os.FileMode(0o644)
	info, err := t.Root.Stat(name)
	if err == nil {
		mode = info.Mode().Perm()
	}
	draft := Draft(name)
	f, err := t.Root.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Chmod(mode), copyOwner(f, info), f.Sync(), f.Close())
	if err == nil {
		err = t.Root.Rename(draft, name)
	}
	if err != nil {
		return errors.Join(err, t.Remove(draft))
	}
	return t.SyncDir(path.Dir(name))
}

// Remove removes a file and syncs its directory. A missing file is no error.
func (t *Tree) Remove(name string) error {
	if _, err := t.Root.Lstat(name); errors.Is(err, os.ErrNotExist) {
		return nil // where the file system is read-only, removing it would fail
	}
	switch err := t.Root.Remove(name); {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return t.SyncDir(path.Dir(name))
}

// MakeFolder makes a directory and its missing parents.
func (t *Tree) MakeFolder(name string) error {
	if t.Exists(name) {
		return nil
	}
	if err := t.Root.MkdirAll(name, 0o755); err != nil {
		return err
	}
	return t.SyncDir(path.Dir(name))
}

// SyncDir syncs a directory's entries to disk.
func (t *Tree) SyncDir(name string) error {
	dir, err := t.Root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// copyOwner gives a file the owner of the file that it replaces; info is nil if there is none.
func copyOwner(f *os.File, info fs.FileInfo) error {
	if info == nil {
		return nil
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) == os.Geteuid() && int(stat.Gid) == os.Getegid() {
		return nil
	}
	return f.Chown(int(stat.Uid), int(stat.Gid))
}
