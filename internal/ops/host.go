package ops

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mpps/internal/advise/knob"
	"mpps/internal/advise/lasting"
	"mpps/internal/advise/realtime"
	"mpps/internal/advise/site"
	"mpps/internal/machine"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/outcome"
)

// NoGuest is the Look.Guest with which no guest is looked into.
const NoGuest = machine.NoGuest

// Look is which host is looked at, and how closely.
type Look struct {
	Snapshot string        // a file of 'mpps snapshot' instead of the machine below the root
	Guest    string        // the guest to look into; empty: the only one that runs
	Interval time.Duration // how long the machine's counters are watched; 0: not at all

	Read func(*facts.Host) []setting.Address // the values that are read besides the inventory; nil: none
	Site bool                                // with the site file
}

// Host is the host that a verb is about.
type Host struct {
	Facts      *facts.Host
	Mechanisms setting.Mechanisms // that read and change it; nil of a snapshot
	Site       *site.File         // nil where there is none, where it was not asked for, and of a snapshot
	Machine    *machine.Machine   // nil of a snapshot
}

// Gather looks at a host for judging it: with the values that the catalogue knows and the site file.
func (e *Env) Gather(ctx context.Context, l Look) (*Host, error) {
	l.Read, l.Site = values, true
	return e.Host(ctx, l)
}

// values are the addresses that audits, plans and checks of realtime need.
func values(h *facts.Host) []setting.Address {
	return slices.Concat(knob.Addresses(h, knob.Catalogue()), lasting.Addresses(), realtime.Addresses(h))
}

// Host looks at a host.
func (e *Env) Host(ctx context.Context, l Look) (*Host, error) {
	if l.Interval < 0 {
		return nil, outcome.Usage(fmt.Errorf("--interval %v: expected a time such as 2s", l.Interval),
			"leave it out for a look at one moment")
	}
	if l.Snapshot != "" {
		if l.Interval > 0 {
			return nil, outcome.Usage(errors.New("--interval watches a live machine, --snapshot is a file"),
				"give one of the two")
		}
		h, err := ReadSnapshot(l.Snapshot)
		return &Host{Facts: h}, err
	}
	m, err := e.Open()
	if err != nil {
		return nil, err
	}
	h := &Host{Machine: m, Mechanisms: m.Mechanisms()}
	if l.Site {
		h.Site, err = site.Load(e.Root)
	}
	if err == nil {
		err = e.look(ctx, h, l)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return h, nil
}

// look fills in the facts.
func (e *Env) look(ctx context.Context, h *Host, l Look) error {
	m := h.Machine
	m.LookInside(l.Guest)
	if l.Interval > 0 {
		m.LookInside(NoGuest) // the second look shows it
	}
	h.Facts = m.Inventory(ctx)
	if l.Interval > 0 {
		e.Out.Progress("watching the counters for %v", l.Interval)
		before := h.Facts
		observed, err := watch(ctx, m, before, l.Interval)
		if err != nil {
			return err
		}
		m.LookInside(l.Guest)
		h.Facts = m.Inventory(ctx)
		h.Facts.Interval, h.Facts.Observed = facts.Between(before, h.Facts), observed
		facts.Watch(before, h.Facts)
	}
	if l.Read != nil {
		h.Read(ctx, l.Read(h.Facts)...)
	}
	return nil
}

// watch lets an interval pass. Where CPUs are set aside for realtime it watches what runs on them.
func watch(ctx context.Context, m *machine.Machine, h *facts.Host, interval time.Duration) (*facts.Observation, error) {
	var observed *facts.Observation
	if s := realtime.Find(h, nil, ""); len(s.CPUs) > 0 && m.Live() {
		observed = m.Observe(ctx, h, s.CPUs, interval, machine.ObserveShare)
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

// Read adds readings to the facts.
func (h *Host) Read(ctx context.Context, addresses ...setting.Address) {
	machine.Read(ctx, h.Mechanisms, h.Facts, addresses)
}

// Close closes the machine, if there is one.
func (h *Host) Close() error {
	if h.Machine == nil {
		return nil
	}
	return h.Machine.Close()
}

// Has refuses what is no machine (a mistyped --root, an empty snapshot), CPUs that the host lacks, and a guest that it
// does not have.
func (h *Host) Has(g goal.Goal) error { return Has(h.Facts, g) }

// Has is Host.Has of facts alone.
func Has(h *facts.Host, g goal.Goal) error {
	if len(h.Topology.CPUs) == 0 {
		return outcome.Failed(errors.New("there is no machine to judge: not one CPU was found"),
			RootHint+", --snapshot a file of 'mpps snapshot'")
	}
	var cpus []int
	for _, c := range h.Topology.CPUs {
		cpus = append(cpus, c.ID)
	}
	if there := setting.CPUs(cpus...); len(g.CPUs.Minus(there)) > 0 {
		return outcome.Failed(fmt.Errorf("no CPU %s on this host", g.CPUs.Minus(there)),
			"CPUs of this host: "+there.String())
	}
	if g.Guest == "" {
		return nil
	}
	return HasGuest(h, g.Guest)
}

// HasGuest refuses a guest that a host does not have.
func HasGuest(h *facts.Host, name string) error {
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
	return outcome.Failed(fmt.Errorf("no guest %q on this host", name), hint)
}

// Unseen returns what could not be seen of a host as warnings for programs; text views draw it themselves.
func Unseen(h *facts.Host) []outcome.Warning {
	var warnings []outcome.Warning
	for _, u := range h.Unseen {
		warnings = append(warnings, outcome.Warning{Code: "unseen", Text: u.What + ": " + u.Why})
	}
	return warnings
}

// NotRoot is Unseen, with what only root sees.
func NotRoot(h *facts.Host) []outcome.Warning {
	warnings := Unseen(h)
	if !h.AsRoot {
		warnings = append(warnings, outcome.Warning{
			Code: "not-root",
			Text: "run without root: some values could not be read",
			Hint: "repeat as root for the whole picture",
		})
	}
	return warnings
}

// Caveats returns what a reader must know about a host and a target before relying on the answer.
func Caveats(h *facts.Host, g goal.Goal) []outcome.Warning {
	warnings := NotRoot(h)
	if !g.NearLimit() {
		return warnings
	}
	near := outcome.Warning{
		Code: "near-limit", Hint: "from 3M on a virtual function is the way: --nic vf judges the host for one",
		Text: goal.FormatRate(g.PPS) + " packets per second are near the limit of a guest's own kernel: " +
			"tuning the host may not be enough",
	}
	return slices.Insert(warnings, len(h.Unseen), near)
}
