package change

import (
	"errors"
	"fmt"
	"slices"

	"mpps/internal/advise/knob"
	"mpps/internal/advise/lasting"
	"mpps/internal/advise/plan"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// CheckForeign refuses a plan with changes that this version does not itself plan for the host and the plan's goal:
// nothing that a plan file says about a change, its risk and what it writes is trusted. Changes that would write
// nothing are let through. Trials (knob.Trial) are not foreign. The counters in the plan are trusted: they only choose
// among changes that this version makes.
func CheckForeign(env *ops.Env, p *plan.Plan, h *ops.Host) error {
	if p.Watched != nil && h.Facts.Interval == nil {
		watched := *h.Facts
		watched.Interval = p.Watched
		again := *h
		again.Facts, h = &watched, &again
	}
	left := slices.DeleteFunc(slices.Clone(p.Changes), func(c plan.Change) bool {
		return c.Want.Met(h.Facts.Readings.At(c.Address))
	})
	for _, planning := range []planner{planAgain(false), planAgain(true), keepAgain} {
		if len(left) == 0 {
			return nil
		}
		own, err := planning(env, p, h)
		if err != nil {
			return err
		}
		left = slices.DeleteFunc(left, func(c plan.Change) bool {
			return slices.ContainsFunc(own.Changes, c.Same)
		})
	}
	if len(left) == 0 {
		return nil
	}
	// A half-changed host gives another plan. Then that is what is wrong.
	e, err := Open(env, nil)
	if err != nil {
		return err
	}
	if err := errors.Join(e.Settled(), e.Close()); err != nil {
		return err
	}
	return foreign(left)
}

// planner makes changes of a plan's goal for a host.
type planner func(env *ops.Env, p *plan.Plan, h *ops.Host) (*plan.Plan, error)

func planAgain(trials bool) planner {
	return func(env *ops.Env, p *plan.Plan, h *ops.Host) (*plan.Plan, error) {
		return Plan(env, h, Target{Goal: p.Goal, Trials: trials})
	}
}

// keepAgain returns the changes that make a plan last: the plan may have only a part of the changes that this version
// plans, and then its files have only a part of the entries.
func keepAgain(env *ops.Env, p *plan.Plan, h *ops.Host) (*plan.Plan, error) {
	full, err := plan.MakeTrials(h.Facts, p.Goal, knob.Catalogue(), h.Site.Adjust)
	if err != nil {
		return nil, err
	}
	part := *p
	part.Changes = slices.Clone(p.Changes)
	lasting.Strip(&part)
	for i := range part.Changes {
		if at := slices.IndexFunc(full.Changes, part.Changes[i].Same); at >= 0 {
			part.Changes[i] = full.Changes[at] // with the file that it brings itself, if it does
		}
	}
	if err := lasting.Add(&part, h.Facts, StandingChanges(env)...); err != nil {
		return nil, err
	}
	if err := lasting.Watch(&part, h.Facts); err != nil && !errors.Is(err, lasting.ErrNoWatch) {
		return nil, err
	}
	part.Changes = slices.DeleteFunc(part.Changes, func(c plan.Change) bool { return !lasting.MakesLast(c.ID) })
	return &part, nil
}

// foreign returns the error for a plan with foreign changes.
func foreign(changes []plan.Change) error {
	const shown = 5
	names := ""
	for i, c := range changes[:min(shown, len(changes))] {
		if i > 0 {
			names += ", "
		}
		names += c.ID + " " + c.Address.String()
	}
	if more := len(changes) - shown; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return outcome.Failed(fmt.Errorf("changes that mpps does not plan for this host and goal: %s", names),
		"make the plan again with 'mpps plan -o FILE'; --foreign makes the changes all the same, so read them as you "+
			"would read a script")
}
