package tree

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// Resolve is the file that a name stands for: grubenv of RHEL is a link to the EFI system partition.
func (t *Tree) Resolve(name string) string {
	for range 8 {
		target, err := t.Root.Readlink(name)
		if err != nil {
			break
		}
		if name = path.Join(path.Dir(name), target); path.IsAbs(target) {
			name = strings.TrimPrefix(target, "/")
		}
	}
	return name
}

// Draft is where the new text of a file is written before it takes the file's place.
func Draft(name string) string { return path.Join(path.Dir(name), "."+path.Base(name)+".mpps-new") }

// Replace writes a whole file so that after a crash there is the old text or the new one: beside it, to disk, renamed.
// Permissions and owner of a file that is there stay.
func (t *Tree) Replace(name, text string) error {
	name = t.Resolve(name)
	mode := os.FileMode(0o644)
	info, err := t.Root.Stat(name)
	if err == nil {
		mode = info.Mode().Perm()
	}
	beside := Draft(name)
	f, err := t.Root.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Chmod(mode), owner(f, info), f.Sync(), f.Close())
	if err == nil {
		err = t.Root.Rename(beside, name)
	}
	if err != nil {
		return errors.Join(err, t.Remove(beside))
	}
	return t.SyncDir(path.Dir(name))
}

// Remove takes a file away for good; one that is not there is no error.
func (t *Tree) Remove(name string) error {
	if err := t.Root.Remove(name); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	return t.SyncDir(path.Dir(name))
}

// MakeFolder makes a directory of mpps below one that may be missing too.
func (t *Tree) MakeFolder(name string) error {
	if t.Exists(name) {
		return nil
	}
	if err := t.Root.MkdirAll(name, 0o755); err != nil {
		return err
	}
	return t.SyncDir(path.Dir(name))
}

// SyncDir brings a directory's entries to disk.
func (t *Tree) SyncDir(name string) error {
	dir, err := t.Root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// owner gives a file the owner of the one that it takes the place of.
func owner(f *os.File, info fs.FileInfo) error {
	if info == nil {
		return nil
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) == os.Geteuid() && int(stat.Gid) == os.Getegid() {
		return nil
	}
	return f.Chown(int(stat.Uid), int(stat.Gid))
}
