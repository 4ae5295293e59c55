package systemd

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
)

// The folders of the administrator's units, and of those that multi-user.target starts (systemd.unit(5)).
const (
	unitFolder  = "etc/systemd/system"
	WantsFolder = setting.WantsFolder
)

// unit enables and disables units of mpps (setting.Unit). It makes the link itself: systemctl does not sync it.
type unit struct{ m *tree.Tree }

func (u unit) Read(ctx context.Context, a setting.Address) setting.Reading {
	if err := setting.CheckUnit(a.Path); err != nil {
		return setting.CouldNotTell(err.Error())
	}
	if _, err := u.m.Lstat(WantsFolder + "/" + a.Path); errors.Is(err, fs.ErrNotExist) {
		return setting.Missing(a.Path + " is not enabled")
	} else if err != nil {
		return tree.Unreadable("/"+WantsFolder+"/"+a.Path, err)
	}
	if !booted(u.m) {
		return setting.Value("enabled")
	}
	found := service(u).Read(ctx, setting.Of(setting.Service, strings.TrimSuffix(a.Path, ".service")))
	if found.State == setting.Known && found.Value == Running {
		return setting.Value("enabled")
	}
	return setting.Value("idle")
}

func (u unit) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	if err := setting.CheckUnit(a.Path); err != nil {
		return a.Errorf("%w", err)
	}
	var err error
	if to.State == setting.Absent {
		err = u.disable(ctx, a.Path)
	} else {
		err = u.enable(ctx, a.Path, to.Value == "enabled")
	}
	if err != nil {
		return a.Errorf("%w", err)
	}
	return nil
}

func (u unit) enable(ctx context.Context, name string, start bool) error {
	target := "/" + unitFolder + "/" + name
	if !u.m.Exists(unitFolder + "/" + name) {
		target = "/" + PackagedUnits[0] + "/" + name
	}
	if err := u.m.Root.Symlink(target, WantsFolder+"/"+name); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := errors.Join(u.m.SyncDir(WantsFolder), u.m.SyncDir(unitFolder)); err != nil {
		return err
	}
	if !booted(u.m) {
		return nil
	}
	if err := u.systemctl(ctx, "daemon-reload"); err != nil || !start {
		return err
	}
	return u.systemctl(ctx, "start", "--", name)
}

// disable stops a unit and removes its link. The unit that this process runs in ends with the process: to stop it would
// end what the process still has to undo, such as an apply that was not confirmed before a reboot.
func (u unit) disable(ctx context.Context, name string) error {
	if booted(u.m) && !inside(u.m, name) {
		if err := u.systemctl(ctx, "stop", "--", name); err != nil && !tree.Mentions(err, "not loaded") {
			return err
		}
	}
	if err := u.m.Root.Remove(WantsFolder + "/" + name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := u.m.SyncDir(WantsFolder); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !booted(u.m) {
		return nil
	}
	return u.systemctl(ctx, "daemon-reload")
}

// inside reports whether this process belongs to a unit, by its control groups (cgroups(7)).
func inside(m *tree.Tree, name string) bool {
	groups, err := m.Read("proc/self/cgroup")
	return err == nil && slices.Contains(strings.FieldsFunc(groups, func(r rune) bool { return r == '/' || r == '\n' }),
		name)
}

func (u unit) systemctl(ctx context.Context, args ...string) error {
	ctx, cancel := tree.Deadline(ctx, tree.WritePatience)
	defer cancel()
	return u.m.Change(ctx, "", "systemctl", args...)
}

// ReloadUnits makes systemd reload its units if it has the unit whose file was written or removed in memory, in its old
// form. A unit that it does not have in memory it loads on demand, as this does. A reload takes seconds with many units
// (src/core/unit.c, unit_need_daemon_reload).
func ReloadUnits(ctx context.Context, m *tree.Tree, name string) error {
	if path.Dir(name) != unitFolder || !booted(m) {
		return nil
	}
	reading, cancel := tree.Deadline(ctx, tree.ReadPatience)
	defer cancel()
	text, err := m.Command(reading, "systemctl", "show", "--property=LoadState,FragmentPath,NeedDaemonReload", "--",
		path.Base(name))
	if err == nil && isCurrent(text, "/"+name, m.Exists(name)) {
		return nil
	}
	return unit{m}.systemctl(ctx, "daemon-reload")
}

// isCurrent reports whether systemd has a unit as its file is, from the output of systemctl show.
func isCurrent(text, file string, exists bool) bool {
	if tree.Variable(text, "NeedDaemonReload") != "no" {
		return false
	}
	if exists {
		return tree.Variable(text, "FragmentPath") == file
	}
	return tree.Variable(text, "LoadState") == "not-found"
}

// PackagedUnits are the folders of packages' units.
var PackagedUnits = []string{"usr/lib/systemd/system", "lib/systemd/system"}
