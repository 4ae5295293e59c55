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

// CheckForeign refuses a plan with changes that this version does not itself plan for the host and the plan's goal: a
// plan file says what a change is, what it risks and what it writes, and none of that is believed. Changes that would
// write nothing are let through. What only a measurement can show to be better (knob.Trial) is not foreign. The
// counters that the plan was made of are believed: they choose among changes that this version makes.
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
	for _, planning := range []planner{planAgain, tryAgain, keepAgain} {
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
	// On a host that is half changed no plan comes out the same. That is what is wrong then.
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

func planAgain(env *ops.Env, p *plan.Plan, h *ops.Host) (*plan.Plan, error) {
	return Plan(env, h, Target{Goal: p.Goal})
}

func tryAgain(env *ops.Env, p *plan.Plan, h *ops.Host) (*plan.Plan, error) {
	return Plan(env, h, Target{Goal: p.Goal, Trials: true})
}

// keepAgain makes the changes of a plan last again: a plan may be a part of what this version would plan, and what
// makes a part last is a part of the files.
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

// foreign is the refusal of a plan with foreign changes.
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
