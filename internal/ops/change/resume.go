package change

import (
	"context"
	"encoding/json"

	"mpps/internal/advise/plan"
	"mpps/internal/advise/site"
	"mpps/internal/change/apply"
	"mpps/internal/change/journal"
	"mpps/internal/model/setting"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// ResumeState returns the record by which a plan is resumed after a reboot or a guest's restart.
func ResumeState(env *ops.Env, p *Planned, runtimeOnly bool) (json.RawMessage, error) {
	digest, err := site.Digest(env.Root)
	if err != nil {
		return nil, err
	}
	return journal.Resume{
		Goal: p.Plan.Goal, RuntimeOnly: runtimeOnly, Site: digest, Kernel: nextKernel(p), Later: postponedSteps(p.Plan),
	}.Encode()
}

func postponedSteps(p *plan.Plan) []journal.Postponed {
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

// resume continues the newest waiting plan: it plans again for that plan's goal and applies the rest as a transaction
// that follows the first one.
func (a *Request) resume(ctx context.Context, env *ops.Env) (*Outcome, error) {
	var r *apply.Remains
	err := withEngine(env, func(e *Engine) (err error) {
		e.WatchGuests(ctx)
		r, err = e.Resumable(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	p, err := planRest(ctx, env, r)
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
	a.RuntimeOnly = r.Resume().RuntimeOnly
	d, err := a.apply(ctx, env, p, r)
	if err == nil {
		d.Warnings = append(notes, d.Warnings...)
	}
	return d, err
}

// planRest plans the rest for the host as it is now.
func planRest(ctx context.Context, env *ops.Env, r *apply.Remains) (*Planned, error) {
	return planNow(ctx, env, r.Resume().Goal.Guest, func(h *ops.Host) (*plan.Plan, error) {
		return restOfPlan(env, h, r)
	})
}

func restOfPlan(env *ops.Env, h *ops.Host, r *apply.Remains) (*plan.Plan, error) {
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
	r.Found(changes, cannot, postponedSteps(p))
	return p, nil
}

// addRest adds to a status what is left of the plan that could be resumed now, or the reason why the host cannot be
// planned for.
func addRest(ctx context.Context, env *ops.Env, s *apply.Status) {
	if s.Remains == nil || s.Remains.Against != "" || s.Holder != nil {
		return
	}
	p, err := planRest(ctx, env, s.Remains)
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
