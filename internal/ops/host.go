package ops

import (
	"cmp"
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
	"mpps/internal/machine/inside"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/outcome"
)

// NoGuest as Look.Guest looks inside no guest.
const NoGuest = inside.NoGuest

// Look says which host to inspect, and how closely.
type Look struct {
	Snapshot string        // a file of 'mpps snapshot' instead of the machine below the root
	Guest    string        // the guest to look inside; empty: the only running one
	Interval time.Duration // how long to watch the machine's counters; 0: not at all

	Read func(*facts.Host) []setting.Address // settings to read in addition to the inventory; nil: none
	Site bool                                // load the site file
}

// Host is the host that a verb is about.
type Host struct {
	Facts      *facts.Host
	Mechanisms setting.Mechanisms // read and change it; nil for a snapshot
	Site       *site.File         // nil if there is none, if Look.Site was not set, and for a snapshot
	Machine    *machine.Machine   // nil for a snapshot
}

// Gather inspects a host for audits and plans: Host with every setting of the catalogue and the site file.
func (e *Env) Gather(ctx context.Context, l Look) (*Host, error) {
	l.Read, l.Site = judgedAddresses, true
	return e.Host(ctx, l)
}

// judgedAddresses returns the addresses that audits, plans and realtime checks need.
func judgedAddresses(h *facts.Host) []setting.Address {
	return slices.Concat(knob.Addresses(h, knob.Catalogue()), lasting.Addresses(), realtime.Addresses())
}

// Host inspects a host.
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
		err = e.gather(ctx, h, l)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return h, nil
}

// gather fills in the facts.
func (e *Env) gather(ctx context.Context, h *Host, l Look) error {
	m := h.Machine
	if l.Interval == 0 {
		m.Inside.Select(l.Guest)
		h.Facts = m.Inventory(ctx)
	} else {
		m.Inside.Select(NoGuest) // the second inventory looks inside
		before := m.Inventory(ctx)
		done := e.Countdown("watching the counters", l.Interval)
		observed, err := watch(ctx, m, before, l.Interval)
		done()
		if err != nil {
			return err
		}
		m.Inside.Select(l.Guest)
		h.Facts = m.Inventory(ctx)
		h.Facts.Interval, h.Facts.Observed = facts.Between(before, h.Facts), observed
		facts.ConfirmByTraffic(before, h.Facts)
	}
	h.Site.Claim(h.Facts)
	if l.Read != nil {
		h.Read(ctx, l.Read(h.Facts)...)
	}
	return Complete(ctx)
}

// Complete returns an error if ctx was cancelled, and facts that were read under it are therefore incomplete.
func Complete(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return outcome.Failed(fmt.Errorf("given up while reading: %w", context.Cause(ctx)), "")
	}
	return nil
}

// watch waits for an interval and observes what runs on the CPUs reserved for realtime, if there are any.
func watch(ctx context.Context, m *machine.Machine, h *facts.Host, interval time.Duration) (*facts.Observation, error) {
	var observed *facts.Observation
	if s := realtime.FindScope(h, nil, ""); len(s.CPUs) > 0 && m.Live() {
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

// Read reads settings into the facts.
func (h *Host) Read(ctx context.Context, addresses ...setting.Address) {
	mechanisms := h.Mechanisms
	if h.Machine != nil {
		mechanisms = h.Machine.Within(ctx).Mechanisms()
	}
	machine.Read(ctx, mechanisms, h.Facts, addresses)
}

// Close closes the machine, if the host is not a snapshot.
func (h *Host) Close() error {
	if h.Machine == nil {
		return nil
	}
	return h.Machine.Close()
}

// CheckGoal refuses a host without CPUs (a mistyped --root, an empty snapshot) and a goal for CPUs or a guest that the
// host does not have.
func CheckGoal(h *facts.Host, g goal.Goal) error {
	if len(h.Topology.CPUs) == 0 {
		return outcome.Failed(errors.New("there is no machine to judge: not one CPU was found"),
			RootHint+", --snapshot a file of 'mpps snapshot'")
	}
	cpus := facts.Map(h.Topology.CPUs, func(c facts.CPU) int { return c.ID })
	if there := setting.CPUs(cpus...); len(g.CPUs.Minus(there)) > 0 {
		return outcome.Failed(fmt.Errorf("no CPU %s on this host", g.CPUs.Minus(there)),
			"CPUs of this host: "+there.String())
	}
	return cmp.Or(CheckGuest(h, g.Guest), checkDataNICs(h, g))
}

// checkDataNICs refuses a name of data NICs that no guest of the goal has.
func checkDataNICs(h *facts.Host, g goal.Goal) error {
	var there []string
	for guest := range facts.Each(h.Guests) {
		if g.ForGuest(guest.Name) {
			for _, i := range guest.NICs() {
				there = append(there, i.Names()...)
			}
		}
	}
	for _, name := range g.DataNICs {
		if !slices.ContainsFunc(there, func(n string) bool { return strings.EqualFold(n, name) }) {
			return outcome.Failed(fmt.Errorf("--data-nic %s: no guest of the goal has such a NIC", name),
				"name one by its MAC address, tap, bridge or network, as 'mpps inspect' shows them")
		}
	}
	return nil
}

// CheckGuest refuses a guest that a host does not have. An empty name is no guest and accepted.
func CheckGuest(h *facts.Host, name string) error {
	if name == "" {
		return nil
	}
	names := facts.Map(h.Guests, func(guest facts.Guest) string { return guest.Name })
	if slices.Contains(names, name) {
		return nil
	}
	hint := "this host has no guests, or they could not be seen"
	if len(names) > 0 {
		hint = "guests of this host: " + strings.Join(names[:min(len(names), 12)], ", ")
	}
	return outcome.Failed(fmt.Errorf("no guest %q on this host", name), hint)
}

// UnseenWarnings returns the parts of a host that could not be read, and processes that only have the name of a
// guest's, as warnings for JSON; text views draw them themselves.
func UnseenWarnings(h *facts.Host) []outcome.Warning {
	var warnings []outcome.Warning
	for _, u := range h.Unseen {
		warnings = append(warnings, outcome.Warning{Code: "unseen", Text: u.What + ": " + u.Why})
	}
	for _, u := range h.Unverified {
		warnings = append(warnings, outcome.Warning{Code: "unverified", Text: u.String(),
			Hint: "nothing is judged by it, and nothing is written to it"})
	}
	return warnings
}

// AccessWarnings returns UnseenWarnings and, if the host was read without root, a warning that values are missing.
func AccessWarnings(h *facts.Host) []outcome.Warning {
	warnings := UnseenWarnings(h)
	if !h.AsRoot {
		warnings = append(warnings, outcome.Warning{
			Code: "not-root",
			Text: "run without root: some values could not be read",
			Hint: "repeat as root for the whole picture",
		})
	}
	return warnings
}

// Caveats returns AccessWarnings and, if the target is near the limit of a guest's kernel, a warning that says so.
func Caveats(h *facts.Host, g goal.Goal) []outcome.Warning {
	warnings := AccessWarnings(h)
	if !g.NearLimit() {
		return warnings
	}
	near := outcome.Warning{
		Code: "near-limit", Hint: "from 3M on a virtual function is the way: --nic vf judges the host for one",
		Text: goal.FormatRate(g.PPS) + " packets per second are near the limit of a guest's own kernel: " +
			"tuning the host may not be enough",
	}
	return slices.Insert(warnings, len(h.Unseen)+len(h.Unverified), near)
}
