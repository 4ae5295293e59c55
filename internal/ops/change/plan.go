package change

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"mpps/internal/advise/knob"
	"mpps/internal/advise/lasting"
	"mpps/internal/advise/plan"
	"mpps/internal/change/journal"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// Target is what a plan is made for.
type Target struct {
	Goal        goal.Goal
	RuntimeOnly bool // change nothing that outlasts a reboot or an ifup
	Watch       bool // install the watching service
	Trials      bool // also what only a measurement can show to be better
}

// Plan makes a plan for a host. Unless the target is RuntimeOnly, the plan includes what makes its values last, and
// those of earlier applies that do not last yet.
func Plan(env *ops.Env, h *ops.Host, t Target) (*plan.Plan, error) {
	if err := ops.CheckGoal(h.Facts, t.Goal); err != nil {
		return nil, err
	}
	planning := plan.Make
	if t.Trials {
		planning = plan.MakeTrials
	}
	p, err := planning(h.Facts, t.Goal, knob.Catalogue(), h.Site.Adjust)
	if err != nil {
		return nil, err
	}
	var standing []plan.Change
	if h.Mechanisms != nil {
		standing = StandingChanges(env)
	}
	if err := lasting.Add(p, h.Facts, standing...); err != nil {
		return nil, err
	}
	if t.RuntimeOnly {
		lasting.Strip(p)
	}
	if t.Watch {
		if err := lasting.Watch(p, h.Facts); err != nil {
			return nil, outcome.Failed(fmt.Errorf("--watch: %w", err),
				"'mpps verify --watch' can be started by any other means")
		}
	}
	return p, nil
}

// StandingChanges returns the changes of transactions that still stand, one per address. It returns none if the journal
// cannot be read: apply refuses that itself.
func StandingChanges(env *ops.Env) []plan.Change {
	j, err := journal.Open(env.Root)
	if err != nil {
		return nil
	}
	defer j.Close()
	ledger, err := j.Ledger()
	if err != nil {
		return nil
	}
	var all []plan.Change
	for _, t := range ledger.Open() {
		for _, c := range t.Changes() {
			if c.State != journal.ChangeDone {
				continue
			}
			i := slices.IndexFunc(all, func(o plan.Change) bool { return o.Address == c.Address })
			if i < 0 {
				i, all = len(all), append(all, plan.Change{})
			}
			all[i] = plan.Change{
				ID: c.ID, Address: c.Address, From: c.Before, To: c.After, Want: c.Want, Lasts: c.Lasts,
			}
		}
	}
	return all
}

// Source is where a plan is read from.
type Source struct {
	Name        string // of the file; "-": Stdin
	Stdin       io.Reader
	RuntimeOnly bool // leave out what makes the changes last
	Foreign     bool // also changes that mpps would not plan
}

// File reads a plan and the host, and refuses a plan that does not fit the host or, unless asked to, one with changes
// that mpps would not plan for it.
func File(ctx context.Context, env *ops.Env, from Source) (*Planned, error) {
	p, err := read(from.Name, from.Stdin)
	if err != nil {
		return nil, err
	}
	if from.RuntimeOnly {
		lasting.Strip(p)
	}
	h, err := env.Gather(ctx, ops.Look{Guest: p.Goal.Guest})
	if err != nil {
		return nil, err
	}
	h.Read(ctx, p.Addresses()...)
	cuts, err := fits(p, h.Facts)
	if err == nil && !from.Foreign {
		err = CheckForeign(env, p, h)
	}
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return &Planned{Plan: p, Host: h, Cuts: cuts}, nil
}

// CheckFile refuses a file that holds no plan.
func CheckFile(name string) error {
	_, err := read(name, nil)
	return err
}

func read(name string, stdin io.Reader) (p *plan.Plan, err error) {
	defer func() {
		if err != nil {
			err = outcome.Failed(fmt.Errorf("plan %s: %w", name, outcome.FileCause(err)),
				"make one with 'mpps plan -o FILE'")
		}
	}()
	if name == "-" {
		return plan.Decode(ops.JSON(stdin))
	}
	f, err := ops.OpenJSON(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return plan.Decode(f)
}

// Planned is a plan and the host that it fits.
type Planned struct {
	Plan *plan.Plan
	Host *ops.Host
	Cuts bool // the plan can cut off the operator's connection
}

// planNow gathers the host as it is now and makes a plan for it.
func planNow(ctx context.Context, env *ops.Env, guest string,
	make func(*ops.Host) (*plan.Plan, error)) (*Planned, error) {
	h, err := env.Gather(ctx, ops.Look{Guest: guest})
	if err != nil {
		return nil, err
	}
	p, err := make(h)
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return &Planned{Plan: p, Host: h, Cuts: p.Risks(goal.Connectivity)}, nil
}

// fits refuses a stale plan: one made from other values, or one that is riskier on the host as it is now. Values that
// already are as planned do not make it stale. cuts reports whether the plan can cut off the operator's connection.
func fits(p *plan.Plan, h *facts.Host) (cuts bool, err error) {
	var stale, riskier *plan.Stale
	if err := plan.Check(p, h); err != nil && !errors.As(err, &stale) {
		return false, err
	}
	if stale != nil {
		met := map[string]bool{}
		for _, c := range p.Changes {
			met[c.Address.String()] = c.Want.Met(h.Readings.At(c.Address))
		}
		stale.Changed = slices.DeleteFunc(stale.Changed, func(d plan.Difference) bool { return met[d.What] })
	}
	cuts, err = plan.Recheck(p, h, knob.Catalogue())
	switch {
	case err != nil && !errors.As(err, &riskier):
		return cuts, err
	case riskier == nil:
		riskier = &plan.Stale{}
	}
	if stale != nil {
		riskier.Changed = append(stale.Changed, riskier.Changed...)
	}
	if len(riskier.Changed) > 0 {
		return cuts, riskier
	}
	return cuts, nil
}

// CoupledAddresses returns the settings that a plan may reset without changing them: the catalogue's settings of NICs
// whose rings, channels or features it changes, for which a driver requests its interrupts and queues again. Settings
// that move by themselves (adaptive coalescing) or come back by themselves (dependent features) are left out.
func CoupledAddresses(p *plan.Plan, h *facts.Host) []setting.Address {
	recreated, channels, changed := map[string]bool{}, map[string]bool{}, map[setting.Address]bool{}
	for _, c := range p.Changes {
		changed[c.Address] = true
		switch c.Address.Kind {
		case setting.NICRing, setting.NICChannels, setting.NICFeature, setting.NICFlag:
			recreated[c.Address.Object()] = true
		case setting.VFCount: // the PF's driver then resizes its own channels to what is left
			recreated[c.Address.Object()] = true
			channels[c.Address.Object()] = true
		}
	}
	if len(recreated) == 0 {
		return nil
	}
	return slices.DeleteFunc(knob.Addresses(h, knob.Catalogue()), func(a setting.Address) bool {
		nic := a.Object()
		switch a.Kind {
		case setting.SysfsCPUs:
			nic, _, _ = strings.Cut(strings.TrimPrefix(a.Path, "class/net/"), "/")
		case setting.NICRing, setting.NICChannels, setting.NICFlowHash, setting.IRQAffinity:
		default:
			return true
		}
		return !recreated[nic] || changed[a] || a.Kind == setting.NICChannels && channels[nic]
	})
}
