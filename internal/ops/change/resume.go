package change

import (
	"context"
	"encoding/json"
	"errors"

	"mpps/internal/advise/plan"
	"mpps/internal/advise/site"
	"mpps/internal/change/apply"
	"mpps/internal/change/journal"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// GoalOf returns what a transaction keeps so that its plan can be resumed after a reboot or a guest's restart.
func GoalOf(env *ops.Env, p *Planned, runtimeOnly bool) (json.RawMessage, error) {
	digest, err := site.Digest(env.Root)
	if err != nil {
		return nil, err
	}
	return journal.Resume{
		Goal: p.Plan.Goal, RuntimeOnly: runtimeOnly, Site: digest, Kernel: nextKernel(p), Later: postponed(p.Plan),
	}.Encode()
}

func postponed(p *plan.Plan) []journal.Postponed {
	var all []journal.Postponed
	for _, l := range p.Later {
		all = append(all, journal.Postponed{After: l.After, IDs: l.IDs, Why: l.Why})
	}
	return all
}

// nextKernel returns the release that the host will boot next once the plan is applied; empty if unknown.
func nextKernel(p *Planned) string {
	for _, c := range p.Plan.Changes {
		if c.Address.Kind == setting.BootKernel {
			return c.To.Value
		}
	}
	for a, r := range p.Host.Facts.Readings {
		if a.Kind == setting.BootKernel && r.State == setting.Known {
			return r.Value
		}
	}
	return ""
}

// resume continues the newest plan that waited: it plans again for its goal, and applies the rest as a transaction
// that follows the first one.
func (a *Ask) resume(ctx context.Context, env *ops.Env) (*Done, error) {
	e, err := Open(env, nil)
	if err != nil {
		return nil, err
	}
	e.WatchGuests(ctx)
	r, err := e.Resumable(ctx)
	if err := errors.Join(err, e.Close()); err != nil {
		return nil, err
	}
	p, err := lookAgain(ctx, env, r)
	if err != nil {
		return nil, err
	}
	var notes []outcome.Warning
	for _, note := range r.Notes {
		notes = append(notes, outcome.Warning{
			Code: "changed-since", Text: note, Hint: "'mpps status' shows what remains before it is applied",
		})
	}
	env.Out.Step("going on with transaction %s: %s", r.TX, r.Flags)
	for _, c := range r.Changes {
		env.Out.Step("remains: %s %s", c.ID, c.Address)
	}
	again := *a
	again.RuntimeOnly = r.Resume().RuntimeOnly
	d, err := again.apply(ctx, env, p, r)
	if err == nil {
		d.Warnings = append(notes, d.Warnings...)
	}
	return d, err
}

// lookAgain plans the rest for the host as it is now.
func lookAgain(ctx context.Context, env *ops.Env, r *apply.Remains) (*Planned, error) {
	h, err := env.Gather(ctx, ops.Look{Guest: r.Resume().Goal.Guest})
	if err != nil {
		return nil, err
	}
	p, err := remaining(env, h, r)
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return &Planned{Plan: p, Host: h, Cuts: p.Risks(goal.Connectivity)}, nil
}

func remaining(env *ops.Env, h *ops.Host, r *apply.Remains) (*plan.Plan, error) {
	way := r.Resume()
	digest, err := site.Digest(env.Root)
	if err != nil {
		return nil, err
	}
	if err := r.Fits(h.Facts.Kernel.Release, digest); err != nil {
		return nil, err
	}
	p, err := Plan(env, h, Target{Goal: way.Goal, RuntimeOnly: way.RuntimeOnly})
	if err != nil {
		return nil, err
	}
	var changes, cannot []apply.Left
	for _, c := range p.Changes {
		changes = append(changes, apply.Left{
			ID: c.ID, Address: c.Address, From: c.Address.Brief(c.From), To: c.Address.Brief(c.To), Needs: c.Needs,
		})
	}
	for _, s := range p.Skipped {
		cannot = append(cannot, apply.Left{ID: s.ID, Address: s.Address, From: s.Found, To: s.Wanted, Why: s.Why})
	}
	r.Found(changes, cannot, postponed(p))
	return p, nil
}

// whatRemains adds to a status what is left of the plan that could be resumed now. A host that cannot be planned for
// is part of the answer.
func whatRemains(ctx context.Context, env *ops.Env, s *apply.Status) {
	if s.Remains == nil || s.Remains.Against != "" || s.Holder != nil {
		return
	}
	p, err := lookAgain(ctx, env, s.Remains)
	if err == nil {
		err = p.Host.Close()
	}
	if err != nil {
		s.Remains.Against = err.Error()
		if _, hint := outcome.Of(err); hint != "" {
			s.Remains.Next = hint
		}
		return
	}
	s.Looked()
}
