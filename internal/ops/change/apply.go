package change

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"mpps/internal/advise/lasting"
	"mpps/internal/advise/plan"
	"mpps/internal/change/apply"
	"mpps/internal/change/journal"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/ops"
	"mpps/internal/outcome"
	"mpps/internal/owner"
)

// defaultConfirm is how long the operator has to confirm changes that can cut off his connection.
const defaultConfirm = time.Minute

// ConfirmByRisk requires confirmation only for changes that can cut off the operator's connection.
const ConfirmByRisk = -1

// Options are how changes are made.
type Options struct {
	DryRun  bool
	Confirm time.Duration // how long the operator has to confirm; 0: no confirmation; or ConfirmByRisk
}

// confirm returns the time to confirm a plan; cuts says whether it can cut off the operator's connection.
func (o Options) confirm(cuts bool) time.Duration {
	switch {
	case o.Confirm != ConfirmByRisk:
		return o.Confirm
	case cuts:
		return defaultConfirm
	}
	return 0
}

// Request is what 'mpps apply' applies: the plan of a file, the rest of the newest waiting plan, or a plan for a
// target.
type Request struct {
	Options
	File    string
	Stdin   io.Reader // for the file "-"
	Foreign bool      // of a file: also changes that mpps would not plan
	Resume  bool
	Target
	// Approve reports whether the operator approves a plan that would change something; nil: nobody is asked
	Approve func(context.Context, *plan.Plan) (bool, error)

	approved *plan.Plan // the last plan that was approved
}

// Outcome is the outcome of changes.
type Outcome struct {
	Host     string
	Plan     *plan.Plan
	Result   apply.Result
	Warnings []outcome.Warning
	DryRun   bool
	AfterErr error // of Wish.After
}

// Changed reports whether anything was written, or with DryRun would be.
func (d *Outcome) Changed() bool {
	intended := func(c apply.Outcome) bool { return c.State == journal.ChangeIntended }
	return d.Result.TX != "" || d.DryRun && slices.ContainsFunc(d.Result.Changes, intended)
}

// Apply carries out a request. If changes were made and undone, it returns both the outcome and the error.
func Apply(ctx context.Context, env *ops.Env, a Request) (*Outcome, error) {
	if err := env.NeedsRoot("apply"); err != nil && !a.DryRun {
		return nil, err
	}
	if a.File != "" {
		p, err := File(ctx, env, Source{a.File, a.Stdin, a.RuntimeOnly, a.Foreign})
		if err != nil {
			return nil, err
		}
		return a.apply(ctx, env, p, nil)
	}
	return retryStale(env, func() (*Outcome, error) {
		if a.Resume {
			return a.resume(ctx, env)
		}
		p, err := planNow(ctx, env, a.Goal.Guest, func(h *ops.Host) (*plan.Plan, error) {
			return Plan(env, h, a.Target)
		})
		if err != nil {
			return nil, err
		}
		return a.apply(ctx, env, p, nil)
	})
}

// maxAttempts bounds how often Apply plans while values keep changing.
const maxAttempts = 3

// retryStale plans again if a value has changed since the host was read: on an untuned host, irqbalance and NICs coming
// up move interrupts every few seconds. Nothing has been written at that point.
func retryStale(env *ops.Env, once func() (*Outcome, error)) (*Outcome, error) {
	for attempt := 1; ; attempt++ {
		d, err := once()
		var stale *plan.Stale
		if !errors.As(err, &stale) || attempt == maxAttempts {
			return d, err
		}
		env.Out.Step("looking again: %s", strings.TrimPrefix(stale.Error(), "plan is stale: "))
	}
}

// apply applies a plan that fits the host. remains is the transaction that it resumes; nil: none.
func (a *Request) apply(ctx context.Context, env *ops.Env, p *Planned, remains *apply.Remains) (d *Outcome, err error) {
	defer func() { err = errors.Join(err, p.Host.Close()) }()
	o := apply.Options{DryRun: a.DryRun, Confirm: a.confirm(p.Cuts), Beside: CoupledAddresses(p.Plan, p.Host.Facts)}
	if remains != nil {
		newest := remains.Newest()
		o.Follows, o.Newest = remains.TX, &newest
	}
	if o.Resume, err = ResumeState(env, p, a.RuntimeOnly); err != nil {
		return nil, err
	}
	if err := a.approve(ctx, p); err != nil {
		return nil, err
	}
	return Transact(ctx, env, p.Plan, p.Host, o)
}

// approve asks for approval of a plan, unless every value is as planned already, or the same changes were approved
// before: values that move by themselves while the operator reads are planned again, but not asked about again.
func (a *Request) approve(ctx context.Context, p *Planned) error {
	pending := slices.ContainsFunc(p.Plan.Changes, func(c plan.Change) bool {
		return !c.Want.Met(p.Host.Facts.Readings.At(c.Address))
	})
	if a.Approve == nil || a.DryRun || !pending || p.Plan.SameChanges(a.approved) {
		return nil
	}
	switch yes, err := a.Approve(ctx, p.Plan); {
	case err != nil:
		return err
	case !yes:
		return outcome.Failed(errors.New("not approved: nothing was changed"), "")
	}
	a.approved = p.Plan
	return nil
}

// Transact applies a plan as one transaction. If changes were made and undone, it returns both the outcome and the
// error.
func Transact(ctx context.Context, env *ops.Env, p *plan.Plan, h *ops.Host, o apply.Options) (*Outcome, error) {
	if err := env.NeedsRoot("apply"); err != nil && !o.DryRun {
		return nil, err
	}
	e, err := Open(env, h.Mechanisms)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	if o.Confirm > 0 && o.Arm == nil {
		o.Arm = armGuard(ctx, env, o.Confirm)
	}
	if err := checkProgram(p, h.Facts); err != nil {
		return nil, err
	}
	reportWayIn(env, p, h.Facts)
	e.Journal.Appended = func(_ string, r journal.Record) {
		if r.Address != nil {
			env.Out.Progress("change %d of %d: %s", r.N, len(p.Changes), r.Address)
		}
	}
	d := &Outcome{Host: h.Facts.Name, Plan: p, DryRun: o.DryRun}
	d.Result, err = e.Run(ctx, p, o)
	var failure *apply.Failure
	switch {
	case err == nil:
		d.Warnings = append(TunedCaveats(p, h.Facts), transactWarnings(p, d.Result)...)
		return d, nil
	case !errors.As(err, &failure):
		return nil, err
	}
	if failure.State == journal.FailedUndone && o.Confirm > 0 {
		cancelGuard(ctx, e.Machine, failure.TX)
	}
	return d, err
}

// checkProgram refuses a plan that writes a unit that would run this program, if others than root can change it.
func checkProgram(p *plan.Plan, h *facts.Host) error {
	if h.Lasting == nil || h.Lasting.Program == "" {
		return nil
	}
	for _, unit := range lasting.WrittenUnits(p) {
		if err := owner.Program(h.Lasting.Program); err != nil {
			return outcome.Failed(fmt.Errorf("%s would run %s as root at each boot: %w", unit, h.Lasting.Program, err),
				"install mpps where only root can write, such as /usr/bin, and apply with that; or leave the services "+
					"out with --runtime-only")
		}
		if err := owner.ForAll(h.Lasting.Program); err != nil && unit == lasting.WatchName {
			return outcome.Failed(fmt.Errorf("%s would run %s under a separate account: %w", unit, h.Lasting.Program,
				err), "chmod 755 it")
		}
	}
	return nil
}

// transactWarnings returns the warnings of a completed transaction: its side effects, and the restarts it waits for.
func transactWarnings(p *plan.Plan, result apply.Result) []outcome.Warning {
	var all []outcome.Warning
	shown := map[string]bool{}
	for _, c := range p.Changes {
		if p.Asked && c.Warning != "" && !shown[c.Warning] { // nobody has seen the plan
			shown[c.Warning] = true
			all = append(all, outcome.Warning{Code: "careful", Text: c.Warning})
		}
	}
	for _, moved := range result.Moved {
		all = append(all, outcome.Warning{
			Code: "moved",
			Text: fmt.Sprintf("%s moved from %s to %s when its device was set up again, and could not be put back",
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

// TakeEffect returns "1 change takes effect" or "N changes take effect".
func TakeEffect(n int) string {
	if n == 1 {
		return "1 change takes effect"
	}
	return fmt.Sprintf("%d changes take effect", n)
}

// reportWayIn reports the NIC that the operator is connected by and whether the plan changes it. It says nothing about
// a plan that neither touches that NIC nor can cut off the connection.
func reportWayIn(env *ops.Env, p *plan.Plan, h *facts.Host) {
	cuts, found := p.Risks(goal.Connectivity), false
	for _, nic := range h.NICs {
		if nic.Management == "" {
			continue
		}
		found = true
		touched := slices.ContainsFunc(p.Management, func(w plan.Management) bool {
			return w.NIC == nic.Name && w.Touched
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
