package change

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"mpps/internal/advise/plan"
	"mpps/internal/change/apply"
	"mpps/internal/change/journal"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// defaultConfirm is the time to confirm changes that can cut off the operator's connection.
const defaultConfirm = time.Minute

// ConfirmByRisk requires a confirmation only of changes that can cut off the operator's connection.
const ConfirmByRisk = -1

// Options are how changes are made.
type Options struct {
	DryRun  bool
	Confirm time.Duration // within which they are to be confirmed; 0: never; ConfirmByRisk
}

// confirm returns the time to confirm a plan; cuts reports whether it can cut off the operator's connection.
func (o Options) confirm(cuts bool) time.Duration {
	switch {
	case o.Confirm != ConfirmByRisk:
		return o.Confirm
	case cuts:
		return defaultConfirm
	}
	return 0
}

// Ask is what 'mpps apply' applies: the plan of a file, the rest of the newest plan that waited, or a plan for a
// target.
type Ask struct {
	Options
	File   string
	Stdin  io.Reader // for the file "-"
	Resume bool
	Target
}

// Done is the outcome of changes.
type Done struct {
	Host     string
	Plan     *plan.Plan
	Result   apply.Result
	Warnings []outcome.Warning
	DryRun   bool
	Acted    error // of what follows the changes (Wish.After)
}

// Changed reports whether something was written, or with DryRun would be.
func (d *Done) Changed() bool {
	intended := func(c apply.Outcome) bool { return c.State == journal.ChangeIntended }
	return d.Result.TX != "" || d.DryRun && slices.ContainsFunc(d.Result.Changes, intended)
}

// Apply applies what is asked for. If changes were tried and undone, Done comes with the error.
func Apply(ctx context.Context, env *ops.Env, a Ask) (*Done, error) {
	if a.File != "" {
		p, err := File(ctx, env, a.File, a.Stdin, a.RuntimeOnly)
		if err != nil {
			return nil, err
		}
		return a.apply(ctx, env, p, nil)
	}
	return whileMoving(env, func() (*Done, error) {
		if a.Resume {
			return a.resume(ctx, env)
		}
		p, err := now(ctx, env, a.Target)
		if err != nil {
			return nil, err
		}
		return a.apply(ctx, env, p, nil)
	})
}

// looks is how often to plan while values keep changing.
const looks = 3

// whileMoving plans again if a value has changed since the host was read: on an untuned host, irqbalance and NICs that
// come up move interrupts every few seconds. Nothing has been written at that point.
func whileMoving(env *ops.Env, once func() (*Done, error)) (*Done, error) {
	for look := 1; ; look++ {
		d, err := once()
		var stale *plan.Stale
		if !errors.As(err, &stale) || look == looks {
			return d, err
		}
		env.Out.Step("looking anew: %s", strings.TrimPrefix(stale.Error(), "plan is stale: "))
	}
}

// apply applies a plan that fits the host. remains is the transaction that it resumes, if any.
func (a *Ask) apply(ctx context.Context, env *ops.Env, p *Planned, remains *apply.Remains) (d *Done, err error) {
	defer func() { err = errors.Join(err, p.Host.Close()) }()
	o := apply.Options{DryRun: a.DryRun, Confirm: a.confirm(p.Cuts), Beside: Besides(p.Plan, p.Host.Facts)}
	if remains != nil {
		newest := remains.Newest()
		o.Follows, o.Newest = remains.TX, &newest
	}
	if o.Resume, err = GoalOf(env, p, a.RuntimeOnly); err != nil {
		return nil, err
	}
	return Transact(ctx, env, p.Plan, p.Host, o)
}

// Transact applies a plan as one transaction. If changes were tried and undone, Done comes with the error.
func Transact(ctx context.Context, env *ops.Env, p *plan.Plan, h *ops.Host, o apply.Options) (*Done, error) {
	if err := env.NeedsRoot("apply"); err != nil && !o.DryRun {
		return nil, err
	}
	e, err := Open(env, h.Mechanisms)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	if o.Confirm > 0 && o.Arm == nil {
		o.Arm = guard(ctx, env, o.Confirm)
	}
	wayIn(env, p, h.Facts)
	e.Journal.Appended = func(_ string, r journal.Record) {
		if r.Address != nil {
			env.Out.Progress("%d/%d %s", r.N, len(p.Changes), r.Address)
		}
	}
	// A hang-up ends an apply like Ctrl-C: what was begun is undone.
	ctx, stop := ops.UntilHangup(ctx)
	defer stop()
	d := &Done{Host: h.Facts.Name, Plan: p, DryRun: o.DryRun}
	d.Result, err = e.Run(ctx, p, o)
	var failure *apply.Failure
	switch {
	case err == nil:
		d.Warnings = append(TunedCaveats(p, h.Facts), afterwards(p, d.Result)...)
		return d, nil
	case !errors.As(err, &failure):
		return nil, err
	}
	if failure.State == journal.FailedUndone && o.Confirm > 0 {
		unguard(ctx, e.Machine, failure.TX)
	}
	return d, err
}

// afterwards returns the warnings of a completed transaction: what it moved besides, and what waits.
func afterwards(p *plan.Plan, result apply.Result) []outcome.Warning {
	var all []outcome.Warning
	known := map[string]bool{}
	for _, c := range p.Changes {
		if p.Asked && c.Warning != "" && !known[c.Warning] { // nobody has seen the plan
			known[c.Warning] = true
			all = append(all, outcome.Warning{Code: "careful", Text: c.Warning})
		}
	}
	for _, moved := range result.Moved {
		all = append(all, outcome.Warning{
			Code: "moved",
			Text: fmt.Sprintf("%s moved from %s to %s when its device was set up anew, and could not be put back",
				moved.Address, moved.From, moved.Found),
			Hint: moved.Why,
		})
	}
	for _, r := range p.Restarts {
		all = append(all, outcome.Warning{
			Code: "restart-pending", Text: TakeEffect(len(r.Addresses)) + " after " + r.What.String(),
			Hint: "mpps never restarts anything; 'mpps status' tells when it has taken effect",
		})
	}
	return all
}

// TakeEffect says that n changes take effect.
func TakeEffect(n int) string {
	if n == 1 {
		return "1 change takes effect"
	}
	return fmt.Sprintf("%d changes take effect", n)
}

// wayIn reports how the operator is connected to the host, and whether the plan changes that. Nothing is said of a
// plan that neither touches the connection nor can cut it off.
func wayIn(env *ops.Env, p *plan.Plan, h *facts.Host) {
	cuts, found := p.Risks(goal.Connectivity), false
	for _, nic := range h.NICs {
		if nic.Management == "" {
			continue
		}
		found = true
		touched := slices.ContainsFunc(p.Management, func(w plan.Management) bool {
			return w.NIC == nic.Name &&
				w.Touched
		})
		switch {
		case touched:
			env.Out.Step("your way in: %s (%s); this plan changes it", nic.Name, nic.Management)
		case cuts:
			env.Out.Step("your way in: %s (%s); this plan does not change it", nic.Name, nic.Management)
		}
	}
	if cuts && !found {
		env.Out.Step("your way in was not found: there is no default route and no SSH session by a NIC of this host")
	}
}
