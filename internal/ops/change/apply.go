package change

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"mpps/internal/apply"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/journal"
	"mpps/internal/ops"
	"mpps/internal/outcome"
	"mpps/internal/plan"
)

// defaultConfirm is the time to confirm changes that can cut the path that the operator came by.
const defaultConfirm = time.Minute

// ConfirmByRisk asks for a confirmation where a change can cut the path that the operator came by.
const ConfirmByRisk = -1

// Options are how changes are made.
type Options struct {
	DryRun  bool
	Confirm time.Duration // within which they are to be confirmed; 0: never; ConfirmByRisk
}

// confirm is the time for a plan that can cut the path that the operator came by, or cannot.
func (o Options) confirm(cuts bool) time.Duration {
	switch {
	case o.Confirm != ConfirmByRisk:
		return o.Confirm
	case cuts:
		return defaultConfirm
	}
	return 0
}

// Ask is what 'mpps apply' is to apply: the plan of a file, what remains of the newest plan that waited, or a plan for
// a target.
type Ask struct {
	Options
	File   string
	Stdin  io.Reader // for the file "-"
	Resume bool
	Target
}

// Done is what became of changes.
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
	return d.Result.TX != "" || d.DryRun && slices.ContainsFunc(d.Result.Changes, func(c apply.Outcome) bool { return c.State == journal.ChangeIntended })
}

// Apply carries out what is asked for. Where changes were tried and put back, Done comes with the error.
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

// looks is how often a plan is made anew where values do not stand still.
const looks = 3

// whileMoving plans anew where a value has changed since the host was looked at: a host that is not tuned yet has irqbalance, and
// NICs that come up, which move interrupts every few seconds. Nothing was written then.
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

// apply applies a plan that fits the host. remains is the transaction that it goes on with, if any.
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

// Transact runs a plan as a transaction of its own. Where changes were tried and put back, Done comes with the error.
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
	// A shell that goes away ends an apply like Ctrl-C: what was begun is put back.
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

// afterwards is what there is to know about a transaction that came about: what it moved besides, and what waits.
func afterwards(p *plan.Plan, result apply.Result) []outcome.Warning {
	var all []outcome.Warning
	known := map[string]bool{}
	for _, c := range p.Changes {
		if p.Why == plan.AskedFor && c.Warning != "" && !known[c.Warning] { // nobody has seen the plan
			known[c.Warning] = true
			all = append(all, outcome.Warning{Code: "careful", Text: c.Warning})
		}
	}
	for _, moved := range result.Moved {
		all = append(all, outcome.Warning{
			Code: "moved", Text: fmt.Sprintf("%s moved from %s to %s when its device was set up anew, and could not be put back", moved.Address, moved.From, moved.Found),
			Hint: moved.Why,
		})
	}
	for _, r := range p.Restarts {
		all = append(all, outcome.Warning{
			Code: "restart-pending", Text: TakeEffect(len(r.Addresses)) + " after " + r.What,
			Hint: "mpps never restarts anything; 'mpps status' tells when it has taken effect",
		})
	}
	return all
}

// TakeEffect says that so many changes take effect.
func TakeEffect(n int) string {
	if n == 1 {
		return "1 change takes effect"
	}
	return fmt.Sprintf("%d changes take effect", n)
}

// wayIn says how the operator comes to the host now, and whether a plan changes that. A plan that cannot cut it and does not
// touch it need not say so.
func wayIn(env *ops.Env, p *plan.Plan, h *facts.Host) {
	cuts, found := p.Risks(goal.Connectivity), false
	for _, nic := range h.NICs {
		if nic.Management == "" {
			continue
		}
		found = true
		touched := slices.ContainsFunc(p.Management, func(w plan.Management) bool { return w.NIC == nic.Name && w.Touched })
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
