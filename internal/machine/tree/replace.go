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
	if t.remote != nil {
		return t.replaceThere(name, text)
	}
	mode := os.FileMode(0o644)
	info, err := t.Root.Stat(name)
	if err == nil {
		mode = info.Mode().Perm()
	}
	draft := Draft(name) // of an interrupted write, or whatever somebody has put there
	if err := t.Root.Remove(draft); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := t.Root.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
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
	info, err := t.Lstat(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil // where the file system is read-only, removing it would fail
	case err == nil && t.remote != nil && info.IsDir():
		return t.removeThere(name, "rmdir")
	case err == nil && t.remote != nil:
		return t.removeThere(name, "rm", "-f")
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
	if t.remote != nil {
		return errors.Join(t.there("", []string{"mkdir", "-p", "/" + name}, []string{"sync"}), t.mem.m.Dir(name))
	}
	if err := t.Root.MkdirAll(name, 0o755); err != nil {
		return err
	}
	return t.SyncDir(path.Dir(name))
}

// RemoveAll removes a file, or a directory with everything in it.
func (t *Tree) RemoveAll(name string) error {
	if t.remote != nil {
		return t.removeThere(name, "rm", "-rf")
	}
	return t.Root.RemoveAll(name)
}

// Copy copies a file with its permissions into a directory that exists. A crash leaves no part of it.
func (t *Tree) Copy(from, to string) error {
	text, err := t.Read(from)
	if err != nil {
		return err
	}
	if t.remote != nil {
		return t.copyThere(t.Resolve(from), to, text)
	}
	mode := os.FileMode(0o600)
	if info, err := t.Root.Stat(from); err == nil {
		mode = info.Mode().Perm()
	}
	if err := t.Replace(to, text); err != nil {
		return err
	}
	return t.Root.Chmod(to, mode)
}

// SyncFiles syncs files that a program has written, and their directories. Missing files are left out.
func (t *Tree) SyncFiles(names []string) error {
	if t.remote != nil {
		return t.there("", []string{"sync"})
	}
	folders := map[string]bool{}
	var problems []error
	for _, name := range names {
		name = t.Resolve(name)
		f, err := t.Root.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = errors.Join(f.Sync(), f.Close())
		}
		problems = append(problems, err)
		folders[path.Dir(name)] = true
	}
	for name := range folders {
		problems = append(problems, t.SyncDir(name))
	}
	return errors.Join(problems...)
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
