package tuning

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"mpps/internal/advise/lasting"
	"mpps/internal/advise/plan"
	"mpps/internal/advise/tune"
	"mpps/internal/change/apply"
	"mpps/internal/change/journal"
	"mpps/internal/machine"
	"mpps/internal/model/setting"
	"mpps/internal/ops/bench"
	"mpps/internal/ops/change"
)

// final makes lasting what was kept, or with --propose only plans it: one transaction, or several that follow one
// another where what
// was planned on top of something kept is about what that makes, such as the interrupts of new queues. On an error
// nothing of it stands,
// or the error says what does, and so does the result.
func (h *trialHost) final(ctx context.Context, o *Options, r *tune.Result) ([]*plan.Plan, error) {
	plans, err := []*plan.Plan{}, h.Reset(ctx)
	if err == nil {
		plans, err = h.chain(ctx, o, r)
	}
	switch {
	case o.Propose:
		err = errors.Join(err, h.Back(ctx))
	case err != nil && len(r.Chain) > 0:
		back := h.rollback(ctx, r.Chain[0]) // with those that follow it
		if back == nil {
			r.TX, r.Chain = "", []string{}
		}
		err = errors.Join(err, back)
	}
	if err != nil {
		by := tune.Failed
		if bench.Interrupted(ctx, err) {
			by = tune.Interrupted
		}
		r.Undone(h.found, by, unmade(err))
		return nil, err
	}
	r.Plan = plans[0].Digest
	return plans, nil
}

// chain plans, and applies, what was kept. What is only proposed is applied as far as the next plan needs it, as a part
// of the session.
func (h *trialHost) chain(ctx context.Context, o *Options, r *tune.Result) (plans []*plan.Plan, err error) {
	r.Chain = []string{}
	for rest := h.whole; len(rest) > 0; {
		n := h.atOnce(ctx, rest)
		p := h.part(merged(rest[:n]...))
		rest = rest[n:]
		if !o.RuntimeOnly {
			if err := h.toLast(ctx, p); err != nil {
				return plans, err
			}
		}
		plans = append(plans, p)
		if o.Propose {
			if len(rest) == 0 {
				break
			}
			if err := h.apply(ctx, p); err != nil {
				return plans, fmt.Errorf("make what the next plan builds on: %w", err)
			}
			continue
		}
		how := apply.Options{Beside: change.Besides(p, h.host.Facts)}
		if len(r.Chain) > 0 {
			how.Follows = r.Chain[len(r.Chain)-1]
		}
		result, err := h.engine.Run(ctx, p, how)
		if err != nil {
			return plans, fmt.Errorf("make lasting what was kept: %w", err)
		}
		if result.TX != "" {
			r.Chain = append(r.Chain, result.TX)
			r.TX = r.Chain[0]
		}
	}
	return plans, nil
}

// atOnce is how many of some parts, from the first on, can be made by one plan on the host as it stands: a plan is
// refused where a value
// is neither as it says nor as it wants, as the interrupts of queues are that another part of it makes.
func (h *trialHost) atOnce(ctx context.Context, parts [][]plan.Change) int {
	changed := map[setting.Address]bool{}
	for i, part := range parts {
		for _, c := range part {
			if i == 0 || changed[c.Address] {
				continue
			}
			found := h.engine.Mechanisms.Read(ctx, c.Address)
			if !c.Want.Met(found) && (found.State == setting.Unknown || !found.Same(c.From)) {
				return i
			}
		}
		for _, c := range part {
			changed[c.Address] = true
		}
	}
	return len(parts)
}

// toLast adds to a plan what makes it last, by what the files and the values of earlier transactions are now.
func (h *trialHost) toLast(ctx context.Context, p *plan.Plan) error {
	standing := change.Given(h.env)
	addresses := lasting.Addresses()
	for _, c := range standing {
		addresses = append(addresses, c.Address)
	}
	machine.Read(ctx, h.engine.Mechanisms, h.host.Facts, addresses)
	return lasting.Add(p, h.host.Facts, standing...)
}

// asFound reports whether all was put back of a run that ended with an error.
func asFound(err error) bool {
	found := true
	each(err, func(one error) {
		back, is := one.(*notBack)
		failure, failed := one.(*apply.Failure)
		if is && back != nil || failed && failure.State != journal.FailedUndone {
			found = false
		}
	})
	return found
}

// each goes through an error and all that it wraps.
func each(err error, see func(error)) {
	if err == nil {
		return
	}
	see(err)
	switch wraps := err.(type) {
	case interface{ Unwrap() error }:
		each(wraps.Unwrap(), see)
	case interface{ Unwrap() []error }:
		for _, one := range wraps.Unwrap() {
			each(one, see)
		}
	}
}

// unmade words why nothing that a run kept was made to last.
func unmade(err error) string {
	if !asFound(err) {
		return fmt.Sprintf("what was kept could not be made to last, and not all of it is put back: %v", err)
	}
	return fmt.Sprintf("what was kept could not be made to last, and is put back: %v", err)
}

// beyond is what an error says beside that the run was interrupted; nil where that is all.
func beyond(ctx context.Context, err error) error {
	if joined, is := err.(interface{ Unwrap() []error }); is {
		var rest []error
		for _, one := range joined.Unwrap() {
			rest = append(rest, beyond(ctx, one))
		}
		if reflect.TypeOf(err) == reflect.TypeOf(errors.Join(err)) { // no words of its own
			return errors.Join(rest...)
		}
	}
	if bench.Interrupted(ctx, err) {
		return nil
	}
	return err
}
