// Package systemd reads and writes services and units, by systemctl where systemd runs, and starts this program in the
// background.
package systemd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"mpps/internal/machine/threads"
	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
)

// Mechanisms are those of services and units.
func Mechanisms(m *tree.Tree) setting.Mechanisms {
	return setting.Mechanisms{
		setting.Service: service{m},
		setting.Unit:    unit{m},
	}
}

// service reads and starts or stops a daemon that owns settings of ours (irqbalance, numad, ksmtuned). Where systemd is
// the init system it is asked; elsewhere the processes tell whether the daemon runs, and nothing here can change it.
// Stopping does not disable: the daemon is back after a reboot.
type service struct{ m *tree.Tree }

// The states of a daemon.
const (
	Running = "running"
	Stopped = "stopped"
)

// systemd reports whether systemd is the init system (sd_booted(3)).
func (s service) systemd() bool { return s.m.Live() && s.m.Exists("run/systemd/system") }

func (s service) Read(ctx context.Context, a setting.Address) setting.Reading {
	if err := ServiceName(a.Path); err != nil {
		return setting.CouldNotTell(err.Error())
	}
	if !s.systemd() {
		return s.byProcess(a.Path)
	}
	ctx, cancel := tree.Deadline(ctx, tree.ReadPatience)
	defer cancel()
	text, err := s.m.Command(ctx, "", "systemctl", "show", "--property=LoadState,ActiveState", "--", a.Path+".service")
	if err != nil {
		return setting.CouldNotTell(err.Error())
	}
	return UnitState(text, a.Path)
}

// UnitState reads what systemctl show prints of a unit.
func UnitState(text, name string) setting.Reading {
	switch active := tree.Variable(text, "ActiveState"); {
	case tree.Variable(text, "LoadState") == "not-found" && active != "active":
		return setting.Missing("there is no service " + name)
	case active == "active" || active == "reloading":
		return setting.Value(Running)
	case active == "inactive" || active == "failed":
		return setting.Value(Stopped)
	case active == "":
		return setting.CouldNotTell("systemd does not tell the state of " + name)
	default: // activating, deactivating
		return setting.CouldNotTell(name + " is " + active + " just now")
	}
}

// byProcess looks for a process of that name. The kernel cuts names to 15 characters.
func (s service) byProcess(name string) setting.Reading {
	processes := threads.Processes(s.m)
	if len(processes) == 0 {
		return setting.CouldNotTell("no processes to be seen")
	}
	r := setting.Value(Stopped)
	r.ReadOnly, r.Why = true, "systemd is not the init system here"
	for _, p := range processes {
		if p.Comm == name[:min(len(name), 15)] {
			r.Value = Running
		}
	}
	return r
}

func (s service) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	value, err := tree.Canonical(a, to)
	if err != nil {
		return err
	}
	verb, known := map[string]string{Running: "start", Stopped: "stop"}[value]
	if !known {
		return tree.Refusal(a, value, fmt.Errorf("expected %s or %s", Running, Stopped))
	}
	if err := ServiceName(a.Path); err != nil {
		return tree.Refusal(a, value, err)
	}
	if !s.systemd() {
		return tree.Refusal(a, value, errors.New("systemd is not the init system here"))
	}
	ctx, cancel := tree.Deadline(ctx, tree.WritePatience)
	defer cancel()
	if err := s.m.Change(ctx, "", "systemctl", verb, "--", a.Path+".service"); err != nil {
		return tree.Refusal(a, value, err)
	}
	return nil
}

// ServiceName refuses what is no plain name of a unit.
func ServiceName(name string) error {
	if name == "" || name[0] == '-' || strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.@:", r)
	}) {
		return fmt.Errorf("expected the name of a service, found %q", name)
	}
	return nil
}
