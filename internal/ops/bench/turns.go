package bench

import (
	"context"
	"errors"
	"fmt"

	"mpps/internal/change/apply"
	"mpps/internal/change/journal"
	"mpps/internal/measure"
	"mpps/internal/ops"
	"mpps/internal/ops/change"
	"mpps/internal/outcome"
)

// InTurns measures the machine as found and with the plan of a file, alternately, and rolls the plan back. The
// comparison is nil if there is nothing to show.
func (m *Measurement) InTurns(ctx context.Context, env *ops.Env, from change.Source, blocks int,
	seed uint64) (ab *measure.AB, saved []string, err error) {
	by, err := openTurns(ctx, env, from)
	if err != nil {
		return nil, nil, err
	}
	defer by.close()
	o, before, stop, err := m.begin(ctx, env)
	if err != nil {
		return nil, nil, err
	}
	after := *before
	before.Name, after.Name = "as found", "as planned"
	sides := [2]measure.Configuration{measure.A: {Run: before, Switch: by.Back},
		measure.B: {Run: &after, Switch: by.Apply}}
	result, err := o.inTurns(ctx, sides, blocks, seed)
	if Interrupted(ctx, err) {
		err = nil
	}
	back := by.Back(ctx)
	o.after(before)
	o.after(&after)
	err = errors.Join(back, err, stop())
	if len(result.Order) == 0 {
		if err == nil {
			err = outcome.Failed(errors.New("interrupted before the first block was complete"),
				"everything is as it was found")
		}
		return nil, nil, err
	}
	ab, failure := measure.NewAB(result, before, &after, blocks)
	if failure != nil {
		return nil, nil, errors.Join(err, failure)
	}
	ab.Name = m.Name
	by.Describe(ab)
	warn := func(w measure.Warning) { ab.Warnings = append(ab.Warnings, w) }
	saved, failure = Save(env, m.Keep, ab, before.Started, string(ab.Kind)+"-ab", warn)
	switch {
	case failure != nil:
		return nil, nil, errors.Join(err, failure)
	case err != nil:
	case ab.Partial:
		err = outcome.Failed(fmt.Errorf("interrupted: %d of %d blocks were completed", len(ab.Order), ab.Blocks),
			"everything is as it was found")
	case !ab.Valid():
		err = outcome.Exit(outcome.CodeNotDevice)
	}
	return ab, saved, err
}

// Interrupted reports whether an error says only that the user ended the command.
func Interrupted(ctx context.Context, err error) bool {
	var failure *apply.Failure
	if errors.As(err, &failure) && failure.State != journal.FailedUndone {
		return false
	}
	return ctx.Err() != nil && (errors.Is(err, context.Cause(ctx)) || errors.Is(err, ctx.Err()))
}
