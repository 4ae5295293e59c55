package systemd

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
)

// Where units of the administrator are, and what multi-user.target starts (systemd.unit(5)).
const (
	unitFolder  = "etc/systemd/system"
	WantsFolder = setting.WantsFolder
)

// unit enables and disables units of mpps (setting.Unit). The link is made here and not by systemctl, which does not
// bring it to disk.
type unit struct{ m *tree.Tree }

func (u unit) Read(ctx context.Context, a setting.Address) setting.Reading {
	if err := setting.CheckUnit(a.Path); err != nil {
		return setting.CouldNotTell(err.Error())
	}
	if _, err := u.m.Root.Lstat(WantsFolder + "/" + a.Path); errors.Is(err, fs.ErrNotExist) {
		return setting.Missing(a.Path + " is not enabled")
	} else if err != nil {
		return tree.Unreadable("/"+WantsFolder+"/"+a.Path, err)
	}
	s := service(u)
	if !s.systemd() {
		return setting.Value("enabled")
	}
	found := s.Read(ctx, setting.Of(setting.Service, strings.TrimSuffix(a.Path, ".service")))
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
	if !service(u).systemd() {
		return nil
	}
	if err := u.systemctl(ctx, "daemon-reload"); err != nil || !start {
		return err
	}
	return u.systemctl(ctx, "start", "--", name)
}

func (u unit) disable(ctx context.Context, name string) error {
	systemd := service(u).systemd()
	if systemd {
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
	if !systemd {
		return nil
	}
	return u.systemctl(ctx, "daemon-reload")
}

func (u unit) systemctl(ctx context.Context, args ...string) error {
	ctx, cancel := tree.Deadline(ctx, tree.WritePatience)
	defer cancel()
	return u.m.Change(ctx, "", "systemctl", args...)
}

// UnitsChanged tells systemd to read its units again where it has the one whose file was written, or removed, in memory
// as it was before. What it does not have in memory it reads when it is asked for, as here; reading all again takes it
// seconds where there are many (src/core/unit.c, unit_need_daemon_reload).
func UnitsChanged(ctx context.Context, m *tree.Tree, name string) error {
	if path.Dir(name) != unitFolder || !(service{m}).systemd() {
		return nil
	}
	reading, cancel := tree.Deadline(ctx, tree.ReadPatience)
	defer cancel()
	text, err := m.Command(reading, "", "systemctl", "show", "--property=LoadState,FragmentPath,NeedDaemonReload", "--",
		path.Base(name))
	if err == nil && knowsUnit(text, "/"+name, m.Exists(name)) {
		return nil
	}
	return unit{m}.systemctl(ctx, "daemon-reload")
}

// knowsUnit tells from what systemctl show prints of a unit whether systemd has it as its file is.
func knowsUnit(text, file string, exists bool) bool {
	if tree.Variable(text, "NeedDaemonReload") != "no" {
		return false
	}
	if exists {
		return tree.Variable(text, "FragmentPath") == file
	}
	return tree.Variable(text, "LoadState") == "not-found"
}

// PackagedUnits are where packages put units.
var PackagedUnits = []string{"usr/lib/systemd/system", "lib/systemd/system"}
