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
	// Changes returns the changes for a host whose readings include the addresses of lasting. It may read more.
	Changes func(*ops.Host) ([]plan.Change, []outcome.Warning, error)
	// After, if set, does what is not a value, once the changes are made. Its warnings are part of the answer.
	After func(context.Context, *machine.Machine) ([]outcome.Warning, error)
}

// CarryOut makes the changes of a wish on this host, and those that make them last, as a plan like any other.
func CarryOut(ctx context.Context, env *ops.Env, w Wish, o Options) (*Done, error) {
	return carryOut(ctx, env, w, o, nil)
}

// carryOut is CarryOut; if newest is set, a later transaction in the journal makes the plan stale.
func carryOut(ctx context.Context, env *ops.Env, w Wish, o Options, newest *string) (*Done, error) {
	h, err := env.Host(ctx, ops.Look{Guest: ops.NoGuest})
	if err != nil {
		return nil, err
	}
	defer h.Close()
	h.Read(ctx, lasting.Addresses()...)
	h.Machine.Progress = env.Out.Progress
	changes, notes, err := w.Changes(h)
	if err == nil {
		err = unread(changes)
	}
	if err != nil {
		return nil, err
	}
	p := plan.Of(h.Facts, w.Goal, changes)
	if err := lasting.Add(p, h.Facts); err != nil {
		return nil, err
	}
	options := apply.Options{
		DryRun: o.DryRun, Confirm: o.confirm(p.Risks(goal.Connectivity)), Beside: Besides(p, h.Facts), Newest: newest,
	}
	for _, c := range p.Changes {
		if c.Address.Kind == setting.VFCount {
			options.Beside = append(options.Beside, attributes(h.Facts, c.Address.Path)...)
		}
	}
	d, err := Transact(ctx, env, p, h, options)
	if err != nil {
		return d, err
	}
	d.Warnings = append(notes, d.Warnings...)
	if w.After != nil {
		var more []outcome.Warning
		more, d.Acted = w.After(ctx, h.Machine)
		d.Warnings = append(d.Warnings, more...)
	}
	return d, nil
}

// unread refuses changes of values that cannot be read: they could not be undone.
func unread(changes []plan.Change) error {
	for _, c := range changes {
		if c.From.State == setting.Unknown {
			return outcome.Failed(fmt.Errorf("%s cannot be read: %s", c.Address,
				cmp.Or(c.From.Why, "no reason is known")),
				"what cannot be read could not be put back; "+
					"a recorded tree (--root) holds neither attributes of functions nor what programs are attached")
		}
	}
	return nil
}

// attributes returns the attributes that mpps keeps of a NIC's functions: another number of functions resets them.
func attributes(h *facts.Host, pf string) []setting.Address {
	values, err := Kept(h)
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

// Kept returns the values that are put back.
func Kept(h *facts.Host) ([]lasting.Value, error) {
	found := h.Readings.At(setting.Of(setting.File, lasting.DesiredFile))
	if found.State != setting.Known {
		return nil, nil
	}
	return lasting.ParseDesired(found.Value)
}

// Again is CarryOut that reads the host again, for up to wait, if another transaction came in between.
func Again(ctx context.Context, env *ops.Env, w Wish, o Options, wait time.Duration) (d *Done, err error) {
	progress := func(who string, try int) { env.Out.Progress("%s: looking again, attempt %d", who, try) }
	err = untilAlone(ctx, wait, progress, func() error {
		var newest string
		if newest, err = newestOf(env); err == nil {
			d, err = carryOut(ctx, env, w, o, &newest)
		}
		return err
	})
	return d, err
}

// newestOf returns the last transaction in the journal; empty if there is none.
func newestOf(env *ops.Env) (string, error) {
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

// untilAlone repeats once while another mpps is running or has changed something since the host was read. It gives up
// after wait, or when a plan is stale three times for the same reason: then nobody else is the cause.
func untilAlone(ctx context.Context, wait time.Duration, progress func(who string, try int), once func() error) error {
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
