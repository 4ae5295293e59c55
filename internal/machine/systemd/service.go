// Package systemd reads and writes services and units with systemctl, and starts this program in the background.
package systemd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/machine/threads"
	"mpps/internal/machine/tree"
	"mpps/internal/machine/trust"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Mechanisms returns the mechanisms of services and units.
func Mechanisms(m *tree.Tree) setting.Mechanisms {
	return setting.Mechanisms{
		setting.Service: service{m},
		setting.Unit:    unit{m},
	}
}

// service reads, starts and stops a daemon that also sets values of ours (irqbalance, numad, ksmtuned). Without systemd
// as the init system it looks for the process and cannot change it. Stopping does not disable: the daemon is back after
// a reboot.
type service struct{ m *tree.Tree }

// The states of a daemon.
const (
	Running = "running"
	Stopped = "stopped"
)

// booted reports whether systemd is the init system (sd_booted(3)).
func booted(m *tree.Tree) bool { return m.Live() && m.Exists("run/systemd/system") }

func (s service) Read(ctx context.Context, a setting.Address) setting.Reading {
	if err := ServiceName(a.Path); err != nil {
		return setting.CouldNotTell(err.Error())
	}
	if !booted(s.m) {
		return s.byProcess(a.Path)
	}
	ctx, cancel := tree.Deadline(ctx, tree.ReadPatience)
	defer cancel()
	text, err := s.m.Command(ctx, "systemctl", "show", "--property=LoadState,ActiveState", "--", a.Path+".service")
	if err != nil {
		return setting.CouldNotTell(err.Error())
	}
	return UnitState(text, a.Path)
}

// UnitState returns whether a unit runs, from the output of systemctl show.
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

// byProcess returns whether a daemon of that name runs.
func (s service) byProcess(name string) setting.Reading {
	all := trust.Processes(s.m)
	if len(all) == 0 {
		return setting.CouldNotTell("no processes to be seen")
	}
	r := setting.Value(Stopped)
	r.ReadOnly, r.Why = true, "systemd is not the init system here"
	if len(trust.Daemons(s.m, all, name)) > 0 {
		r.Value = Running
	}
	return r
}

func (s service) Write(ctx context.Context, a setting.Address, to setting.Reading) error {
	return tree.Set(a, to, func(value string) error {
		verb, known := map[string]string{Running: "start", Stopped: "stop"}[value]
		if !known {
			return fmt.Errorf("expected %s or %s", Running, Stopped)
		}
		if err := ServiceName(a.Path); err != nil {
			return err
		}
		if !booted(s.m) {
			return errors.New("systemd is not the init system here")
		}
		ctx, cancel := tree.Deadline(ctx, tree.WritePatience)
		defer cancel()
		return s.m.Change(ctx, "", "systemctl", verb, "--", a.Path+".service")
	})
}

// ServiceName returns an error unless a name is a plain unit name.
func ServiceName(name string) error {
	if name == "" || name[0] == '-' || strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.@:", r)
	}) {
		return fmt.Errorf("expected the name of a service, found %q", name)
	}
	return nil
}

// watchedServices are the daemons that set values which mpps sets too, by their process's name. tuned, a Python
// program, sets its own.
var watchedServices = []string{"irqbalance", "tuned", "NetworkManager", "numad", "ksmtuned", "systemd-networkd",
	"tuned-ppd"}

// Inventory reads which of these daemons run, and the storage daemons.
func Inventory(_ context.Context, m *tree.Tree, h *facts.Host) {
	all := trust.Processes(m)
	for _, d := range trust.Daemons(m, all, storageDaemons...) {
		storage(m, h, d)
	}
	running := map[string]int{}
	for _, d := range trust.Daemons(m, all, watchedServices...) {
		if _, seen := running[d.Service]; !seen {
			running[d.Service] = d.PID
		}
	}
	for _, name := range watchedServices {
		pid, found := running[name]
		h.Services = append(h.Services, facts.Service{Name: name, Running: found, PID: pid})
	}
}

// storageDaemons serve one disk each, on hosts that have guests too. Each needs a CPU (from experience: the number of
// OSDs decides how many vCPUs fit on the host).
var storageDaemons = []string{"ceph-osd", "glusterfsd", "beegfs-storage"}

// storage counts one such daemon on the node of its CPUs.
func storage(m *tree.Tree, h *facts.Host, d trust.Daemon) {
	if len(h.Topology.Nodes) == 0 {
		return
	}
	node := h.Topology.Nodes[0].ID
	bound := threads.Affinity(m, d.PID, d.PID)
	for _, n := range h.Topology.Nodes {
		if len(bound) > 0 && len(bound.Minus(n.CPUs)) == 0 {
			node = n.ID
		}
	}
	at := slices.IndexFunc(h.Storage, func(s facts.Storage) bool { return s.Name == d.Service && s.Node == node })
	if at < 0 {
		at = len(h.Storage)
		h.Storage = append(h.Storage, facts.Storage{Name: d.Service, Node: node})
	}
	h.Storage[at].Count++
	h.Storage[at].Memory += threads.Resident(m, d.PID)
}
