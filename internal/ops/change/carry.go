package change

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"mpps/internal/advise/lasting"
	"mpps/internal/advise/plan"
	"mpps/internal/change/apply"
	"mpps/internal/change/journal"
	"mpps/internal/machine"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// Wish is what a verb wants changed.
type Wish struct {
	Goal goal.Goal
	// Changes returns the changes for a host whose readings include lasting.Addresses. It may read more.
	Changes func(*ops.Host) ([]plan.Change, []outcome.Warning, error)
	// After, if set, runs once the changes are made, for actions that are not settings. Its warnings are part of the
	// answer.
	After func(context.Context, *machine.Machine) ([]outcome.Warning, error)
}

// CarryOut applies the changes of a wish, and those that make them last, as an ordinary plan.
func CarryOut(ctx context.Context, env *ops.Env, w Wish, o Options) (*Outcome, error) {
	return carryOut(ctx, env, w, o, nil)
}

// carryOut is CarryOut. If newest is set, any later transaction in the journal makes the plan stale.
func carryOut(ctx context.Context, env *ops.Env, w Wish, o Options, newest *string) (*Outcome, error) {
	h, err := env.Host(ctx, ops.Look{Guest: ops.NoGuest})
	if err != nil {
		return nil, err
	}
	defer h.Close()
	h.Read(ctx, lasting.Addresses()...)
	h.Machine.Progress = env.Out.Progress
	changes, notes, err := w.Changes(h)
	if err == nil {
		err = refuseUnreadable(changes)
	}
	if err != nil {
		return nil, err
	}
	p := plan.OfChanges(h.Facts, w.Goal, changes)
	if err := lasting.Add(p, h.Facts); err != nil {
		return nil, err
	}
	options := apply.Options{
		DryRun: o.DryRun, Confirm: o.confirm(p.Risks(goal.Connectivity)), Beside: CoupledAddresses(p, h.Facts),
		Newest: newest,
	}
	for _, c := range p.Changes {
		if c.Address.Kind == setting.VFCount {
			options.Beside = append(options.Beside, vfAttributes(h.Facts, c.Address.Path)...)
		}
	}
	d, err := Transact(ctx, env, p, h, options)
	if err != nil {
		return d, err
	}
	d.Warnings = append(notes, d.Warnings...)
	if w.After != nil {
		var more []outcome.Warning
		more, d.AfterErr = w.After(ctx, h.Machine)
		d.Warnings = append(d.Warnings, more...)
	}
	return d, nil
}

// refuseUnreadable refuses changes of settings that cannot be read: they could not be undone.
func refuseUnreadable(changes []plan.Change) error {
	for _, c := range changes {
		if c.From.State == setting.Unknown {
			return outcome.Failed(fmt.Errorf("%s cannot be read: %s", c.Address,
				cmp.Or(c.From.Why, "no reason is known")), "what cannot be read could not be put back; "+
				"a recorded tree (--root) holds neither attributes of functions nor what programs are attached")
		}
	}
	return nil
}

// vfAttributes returns the VF attributes that mpps maintains for a PF: changing the number of VFs resets them.
func vfAttributes(h *facts.Host, pf string) []setting.Address {
	values, err := DesiredValues(h)
	if err != nil {
		return nil
	}
	var all []setting.Address
	for _, v := range values {
		if v.Address.Kind == setting.VFAttr && v.Address.Object() == pf {
			all = append(all, v.Address)
		}
	}
	return all
}

// DesiredValues returns the values that mpps-restore.service puts back, from the readings of a host.
func DesiredValues(h *facts.Host) ([]lasting.Value, error) {
	found := h.Readings.At(setting.Of(setting.File, lasting.DesiredFile))
	if found.State != setting.Known {
		return nil, nil
	}
	return lasting.ParseDesired(found.Value)
}

// CarryOutRetrying is CarryOut, but if another transaction came in between it reads the host again, for up to wait.
func CarryOutRetrying(ctx context.Context, env *ops.Env, w Wish, o Options, wait time.Duration) (d *Outcome,
	err error) {
	progress := func(who string, try int) { env.Out.Progress("%s: looking again, attempt %d", who, try) }
	err = retryConflicts(ctx, wait, progress, func() error {
		var newest string
		if newest, err = newestTX(env); err == nil {
			d, err = carryOut(ctx, env, w, o, &newest)
		}
		return err
	})
	return d, err
}

// newestTX returns the newest transaction in the journal; empty if there is none.
func newestTX(env *ops.Env) (string, error) {
	j, err := journal.Open(env.Root)
	if err != nil {
		return "", err
	}
	defer j.Close()
	ledger, err := j.Ledger()
	if err != nil {
		return "", err
	}
	return ledger.Newest(), nil
}

// retryConflicts repeats once while another mpps is running or has changed something since the host was read. It gives
// up after wait, or when a plan is stale three times for the same reason: then the cause is not another mpps.
func retryConflicts(ctx context.Context, wait time.Duration, progress func(who string, try int),
	once func() error) error {
	var last []plan.Difference
	same := 0
	for began, try := time.Now(), 1; ; try++ {
		err := once()
		var stale *plan.Stale
		var locked *journal.Locked
		who := "another mpps is at work"
		switch {
		case errors.As(err, &locked):
		case errors.As(err, &stale):
			who = "another mpps was at work in between"
			if same++; !slices.Equal(stale.Changed, last) {
				last, same = stale.Changed, 1
			}
		default:
			return err
		}
		if time.Since(began) > wait || same >= 3 {
			return err
		}
		progress(who, try)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20*time.Millisecond + rand.N(200*time.Millisecond)): // not in step with the others
		}
	}
}
