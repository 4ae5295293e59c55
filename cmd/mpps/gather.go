package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/host"
	"mpps/internal/knob"
	"mpps/internal/lasting"
	"mpps/internal/realtime"
	"mpps/internal/report"
	"mpps/internal/setting"
	"mpps/internal/site"
)

// machine is the host that a command is about: its facts, and the mechanisms that change it (none for a snapshot).
type machine struct {
	facts      *facts.Host
	mechanisms setting.Mechanisms
	site       *site.File // nil where there is none, or where a snapshot is looked at
	close      func() error
	act        func(context.Context) ([]report.Warning, error) // behind the changes, where it is set
}

// gather takes the facts of the machine below --root, or reads them from a snapshot file. It looks inside no guest.
func (a *app) gather(ctx context.Context, snapshot string) (*machine, error) {
	return a.gatherOver(ctx, snapshot, 0, host.NoGuest)
}

// gatherOver also watches the counters of the live machine for an interval, and looks inside the named guest (empty: the only
// one that runs).
func (a *app) gatherOver(ctx context.Context, snapshot string, interval time.Duration, guest string) (*machine, error) {
	if interval < 0 {
		return nil, usage(fmt.Errorf("--interval %v: expected a time such as 2s", interval), "leave it out for a look at one moment")
	}
	if snapshot != "" {
		if interval > 0 {
			return nil, usage(fmt.Errorf("--interval watches a live machine, --snapshot is a file"), "give one of the two")
		}
		h, err := readSnapshot(snapshot)
		if err != nil {
			return nil, err
		}
		return &machine{facts: h, close: func() error { return nil }}, nil
	}
	m, err := host.Open(a.root)
	if err != nil {
		return nil, failed(err, "--root takes a directory that holds proc/ and sys/ of a machine")
	}
	wishes, err := site.Load(a.root)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	m.LookInside(guest)
	if interval > 0 {
		m.LookInside(host.NoGuest) // the second look shows it
	}
	h := m.Inventory(ctx)
	if interval > 0 {
		a.out.Progress("watching the counters for %v", interval)
		observed, err := watch(ctx, m, h, interval)
		if err != nil {
			return nil, errors.Join(err, m.Close())
		}
		before := h
		m.LookInside(guest)
		h = m.Inventory(ctx)
		h.Interval, h.Observed = facts.Between(before, h), observed
		facts.Watch(before, h)
	}
	mechanisms := m.Mechanisms()
	host.Read(ctx, mechanisms, h, slices.Concat(knob.Addresses(h, knob.Catalogue()), lasting.Addresses(), realtime.Addresses(h)))
	return &machine{facts: h, mechanisms: mechanisms, site: wishes, close: m.Close}, nil
}

// watch lets an interval pass. Where CPUs are set aside for realtime it watches what runs on them.
func watch(ctx context.Context, m *host.Machine, h *facts.Host, interval time.Duration) (*facts.Observation, error) {
	var observed *facts.Observation
	if s := realtime.Find(h, nil, ""); len(s.CPUs) > 0 && m.Live() {
		observed = m.Observe(ctx, h, s.CPUs, interval)
	} else {
		select {
		case <-time.After(interval):
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return observed, nil
}

func readSnapshot(file string) (*facts.Host, error) {
	f, err := openJSON(file)
	if err != nil {
		return nil, failed(fmt.Errorf("snapshot: %w", err), "make one with 'mpps snapshot -o FILE'")
	}
	defer f.Close()
	h, err := facts.ReadSnapshot(f)
	if err != nil {
		return nil, failed(fmt.Errorf("snapshot %s: %w", file, err), "make a new one with 'mpps snapshot -o FILE'")
	}
	return h, nil
}

// has refuses to judge what is no machine (a mistyped --root, an empty snapshot), and a goal for a guest that the host
// does not have.
func (m *machine) has(g goal.Goal) error {
	if len(m.facts.Topology.CPUs) == 0 {
		return failed(fmt.Errorf("there is no machine to judge: not one CPU was found"),
			"--root takes a directory that holds proc/ and sys/ of a machine, --snapshot a file of 'mpps snapshot'")
	}
	var cpus []int
	for _, c := range m.facts.Topology.CPUs {
		cpus = append(cpus, c.ID)
	}
	if there := setting.CPUs(cpus...); len(g.CPUs.Minus(there)) > 0 {
		return failed(fmt.Errorf("no CPU %s on this host", g.CPUs.Minus(there)), "CPUs of this host: "+there.String())
	}
	if g.Guest == "" {
		return nil
	}
	return hasGuest(m.facts, g.Guest)
}

// hasGuest refuses a guest that a host does not have.
func hasGuest(h *facts.Host, name string) error {
	var names []string
	for _, guest := range h.Guests {
		names = append(names, guest.Name)
	}
	if slices.Contains(names, name) {
		return nil
	}
	hint := "this host has no guests, or they could not be seen"
	if len(names) > 0 {
		hint = "guests of this host: " + strings.Join(names[:min(len(names), 12)], ", ")
	}
	return failed(fmt.Errorf("no guest %q on this host", name), hint)
}

// caveats are what a reader must know of a host, and of the target, before relying on what is said of it.
func (a *app) caveats(h *facts.Host, g goal.Goal) []report.Warning {
	warnings := unseen(h)
	if g.NearLimit() {
		warnings = append(warnings, report.Warning{
			Code: "near-limit", Text: goal.FormatRate(g.PPS) + " packets per second are near the limit of a guest's own kernel: tuning the host may not be enough",
			Hint: "from 3M on a virtual function is the way: --nic vf judges the host for one",
		})
	}
	if !h.AsRoot {
		warnings = append(warnings, report.Warning{Code: "not-root", Text: "run without root: some values could not be read", Hint: "repeat as root for the whole picture"})
	}
	return warnings
}
