package main

import (
	"context"
	"errors"

	"mpps/internal/apply"
	"mpps/internal/journal"
	"mpps/internal/ops"
	"mpps/internal/outcome"
	"mpps/internal/plan"
	"mpps/internal/setting"
	"mpps/internal/site"
)

// keepGoal has a transaction keep what it takes to go on with its plan behind a reboot or a guest's restart.
func (a *app) keepGoal(o *apply.Options, p *plan.Plan, m *ops.Host, runtimeOnly bool) error {
	digest, err := site.Digest(a.root)
	if err != nil {
		return err
	}
	way := journal.Resume{Goal: p.Goal, RuntimeOnly: runtimeOnly, Site: digest, Kernel: nextKernel(p, m)}
	way.Later = postponed(p)
	o.Resume, err = way.Encode()
	return err
}

func postponed(p *plan.Plan) []journal.Postponed {
	var all []journal.Postponed
	for _, l := range p.Later {
		all = append(all, journal.Postponed{After: l.After, IDs: l.IDs, Why: l.Why})
	}
	return all
}

// nextKernel is the release that the host boots next once a plan is applied; empty where that is not known.
func nextKernel(p *plan.Plan, m *ops.Host) string {
	for _, c := range p.Changes {
		if c.Address.Kind == setting.BootKernel {
			return c.To.Value
		}
	}
	for a, r := range m.Facts.Readings {
		if a.Kind == setting.BootKernel && r.State == setting.Known {
			return r.Value
		}
	}
	return ""
}

// resume goes on with the plan of the newest transaction that waited for something: looks at the host anew with its goal, and
// applies what remains as a transaction that follows it.
func (a *app) resume(ctx context.Context, apply func(p *plan.Plan, m *ops.Host, runtimeOnly bool, r *apply.Remains) error) error {
	e, err := a.engine(nil)
	if err != nil {
		return err
	}
	e.watchGuests(ctx, a.root)
	r, err := e.Resumable(ctx)
	if err := errors.Join(err, e.close()); err != nil {
		return err
	}
	p, m, err := a.lookAnew(ctx, r)
	if err != nil {
		return err
	}
	defer m.Close()
	for _, note := range r.Notes {
		a.notes = append(a.notes, outcome.Warning{Code: "changed-since", Text: note, Hint: "'mpps status' shows what remains before it is applied"})
	}
	a.out.Step("going on with transaction %s: %s", r.TX, r.Flags)
	for _, c := range r.Changes {
		a.out.Step("remains: %s %s", c.ID, c.Address)
	}
	return apply(p, m, r.Resume().RuntimeOnly, r)
}

// lookAnew plans what remains for the host as it is now.
func (a *app) lookAnew(ctx context.Context, r *apply.Remains) (*plan.Plan, *ops.Host, error) {
	way := r.Resume()
	m, err := a.env().Gather(ctx, ops.Look{Guest: way.Goal.Guest})
	if err != nil {
		return nil, nil, err
	}
	p, err := a.planAnew(m, r)
	if err != nil {
		return nil, nil, errors.Join(err, m.Close())
	}
	return p, m, nil
}

func (a *app) planAnew(m *ops.Host, r *apply.Remains) (*plan.Plan, error) {
	way := r.Resume()
	digest, err := site.Digest(a.root)
	if err != nil {
		return nil, err
	}
	if err := r.Fits(m.Facts.Kernel.Release, digest); err != nil {
		return nil, err
	}
	if err := m.Has(way.Goal); err != nil {
		return nil, err
	}
	p, err := a.lastingPlan(m, way.Goal, way.RuntimeOnly)
	if err != nil {
		return nil, err
	}
	var changes, cannot []apply.Left
	for _, c := range p.Changes {
		changes = append(changes, apply.Left{ID: c.ID, Address: c.Address, From: c.Address.Brief(c.From), To: c.Address.Brief(c.To), Needs: c.Needs})
	}
	for _, s := range p.Skipped {
		cannot = append(cannot, apply.Left{ID: s.ID, Address: s.Address, From: s.Found, To: s.Wanted, Why: s.Why})
	}
	r.Found(changes, cannot, postponed(p))
	return p, nil
}

// whatRemains has a status tell what is left of the plan that could be gone on with now, for which the host is looked at anew. That
// it could not be looked at is part of the answer.
func (a *app) whatRemains(ctx context.Context, s *apply.Status) {
	if s.Remains == nil || s.Remains.Against != "" || s.Holder != nil {
		return
	}
	_, m, err := a.lookAnew(ctx, s.Remains)
	if err == nil {
		err = m.Close()
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
