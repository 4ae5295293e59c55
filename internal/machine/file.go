package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"mpps/internal/machine/systemd"
	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
)

// file reads and writes whole files of the system (setting.File). It writes a draft, syncs it, renames it and syncs the
// directory: after a power loss the file has either the old or the new text.
type file struct{ m *Machine }

func (f file) Read(_ context.Context, a setting.Address) setting.Reading {
	if err := setting.CheckFile(a.Path); err != nil {
		return setting.CouldNotTell(err.Error())
	}
	text, err := f.m.wholeFile(a.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return setting.Missing("there is no /" + a.Path)
	case err != nil:
		return tree.Unreadable("/"+a.Path, err)
	}
	if text, err = setting.Kinds[setting.File].Canonical(text); err != nil {
		return setting.CouldNotTell("/" + a.Path + ": " + err.Error())
	}
	return setting.Value(text)
}

// wholeFile returns the text of a regular file.
func (m *Machine) wholeFile(name string) (string, error) {
	info, err := m.Lstat(name)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("expected a plain file, found %s", info.Mode().Type())
	}
	return m.Head(name, setting.MaxFile+1)
}

func (f file) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	if err := setting.CheckFile(a.Path); err != nil {
		return a.Errorf("%w", err)
	}
	var err error
	if to.State == setting.Absent {
		err = f.m.Remove(a.Path)
	} else {
		var text string
		if text, err = tree.Canonical(a, to); err == nil {
			err = f.replace(a.Path, text)
		}
	}
	if err == nil {
		err = systemd.ReloadUnits(ctx, f.m.Tree, a.Path)
	}
	if err != nil {
		return a.Errorf("%w", err)
	}
	return nil
}

// draft returns the name under which a file is written before it is renamed. Programs that read a directory of
// configuration ignore names that begin with a dot.
func draft(name string) string {
	dir, base := path.Split(name)
	return dir + "." + base + ".mpps-draft"
}

func (f file) replace(name, text string) (err error) {
	mode, uid, gid := fs.FileMode(0o644), -1, -1
	switch info, err := f.m.Lstat(name); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("expected a plain file, found %s", info.Mode().Type())
	default:
		mode = info.Mode().Perm()
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			uid, gid = int(stat.Uid), int(stat.Gid)
		}
	}
	if path.Dir(name) == setting.Reservations { // only mpps uses this folder, and it is kept
		if err := f.m.MakeFolder(setting.Reservations); err != nil {
			return err
		}
	}
	temporary := draft(name)
	if err := f.m.Root.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	out, err := f.m.Root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = out.WriteString(text)
	err = errors.Join(err, out.Chmod(mode))
	if uid >= 0 {
		err = errors.Join(err, out.Chown(uid, gid))
	}
	err = errors.Join(err, out.Sync(), out.Close())
	if err == nil {
		err = f.m.Root.Rename(temporary, name)
	}
	if err != nil {
		return errors.Join(err, f.m.Root.Remove(temporary))
	}
	return f.m.SyncDir(path.Dir(name))
}

// Tidy removes the draft of an interrupted write.
func (f file) Tidy(_ context.Context, a setting.Address) error {
	if setting.CheckFile(a.Path) != nil {
		return nil
	}
	_, err := f.m.Root.Lstat(draft(a.Path)) // a read-only file system refuses to remove even what is not there
	if err == nil {
		err = f.m.Root.Remove(draft(a.Path))
	}
	if err == nil {
		return f.m.SyncDir(path.Dir(a.Path))
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	return a.Errorf("%w", err)
}

// directories creates and removes directories for files of mpps (setting.Directory).
type directories struct{ m *Machine }

func (d directories) Read(_ context.Context, a setting.Address) setting.Reading {
	if err := setting.CheckDirectory(a.Path); err != nil {
		return setting.CouldNotTell(err.Error())
	}
	info, err := d.m.Stat(a.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return setting.Missing("there is no /" + a.Path)
	case err != nil:
		return tree.Unreadable("/"+a.Path, err)
	case !info.IsDir():
		return setting.CouldNotTell("/" + a.Path + " is not a directory")
	}
	for _, name := range d.m.List(a.Path) {
		if !strings.Contains(name, "mpps") {
			return setting.Value("shared")
		}
	}
	return setting.Value("present")
}

func (d directories) Write(_ context.Context, a setting.Address, to setting.Reading) error {
	err := setting.CheckDirectory(a.Path)
	switch {
	case err != nil:
	case to.State == setting.Absent:
		if err = d.m.Root.Remove(a.Path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	default:
		if err = d.m.Root.Mkdir(a.Path, 0o755); errors.Is(err, fs.ErrExist) {
			err = nil
		}
	}
	if err == nil {
		err = d.m.SyncDir(path.Dir(a.Path))
	}
	if err != nil {
		return a.Errorf("%w", err)
	}
	return nil
}
