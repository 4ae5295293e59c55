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
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/ops/bench"
	"mpps/internal/ops/change"
)

// makeLasting makes lasting what was kept, or with --propose only plans it. It is one transaction, or several that
// follow one another if later changes are about what earlier ones create, such as the interrupts of new queues. On an
// error all of it is rolled back, or else the error and the result say what stands.
func (h *trialHost) makeLasting(ctx context.Context, o *Options, r *tune.Result) ([]*plan.Plan, error) {
	plans, err := []*plan.Plan{}, h.Reset(ctx)
	if err == nil {
		plans, err = h.applyChain(ctx, o, r)
	}
	switch {
	case o.Propose:
		err = errors.Join(err, h.Back(ctx))
	case err != nil && len(r.Chain) > 0:
		back := h.rollback(ctx, r.Chain[0]) // with the transactions that follow it
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
		r.MarkUndone(h.found, by, notLastingReason(err))
		return nil, err
	}
	r.Plan = plans[0].Digest
	return plans, nil
}

// applyChain plans and applies what was kept. With --propose, a plan is applied within the session only if another one
// builds on it.
func (h *trialHost) applyChain(ctx context.Context, o *Options, r *tune.Result) (plans []*plan.Plan, err error) {
	r.Chain = []string{}
	for rest := h.whole; len(rest) > 0; {
		n := h.applicable(ctx, rest)
		p := h.subplan(mergeChanges(rest[:n]...))
		rest = rest[n:]
		if !o.RuntimeOnly {
			if err := h.addLasting(ctx, p); err != nil {
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
		result, err := h.engine.Run(ctx, p, h.chainOptions(p, r))
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

// chainOptions returns the options for applying a plan as a transaction that follows the last one of the chain.
func (h *trialHost) chainOptions(p *plan.Plan, r *tune.Result) apply.Options {
	o := apply.Options{Beside: change.CoupledAddresses(p, h.host.Facts)}
	if len(r.Chain) > 0 {
		o.Follows = r.Chain[len(r.Chain)-1]
	}
	return o
}

// applicable returns how many of the parts, counted from the first, one plan can apply to the host as it is. A plan is
// refused if a value is neither as planned from nor as wanted, such as the interrupts of queues that another part of
// the plan creates.
func (h *trialHost) applicable(ctx context.Context, parts [][]plan.Change) int {
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

// addLasting adds to a plan what makes it last, based on fresh readings of the files and of the values that earlier
// transactions set.
func (h *trialHost) addLasting(ctx context.Context, p *plan.Plan) error {
	standing := change.StandingChanges(h.env)
	addresses := lasting.Addresses()
	for _, c := range standing {
		addresses = append(addresses, c.Address)
	}
	machine.Read(ctx, h.engine.Mechanisms, h.host.Facts, addresses)
	return lasting.Add(p, h.host.Facts, standing...)
}

// fullyRestored reports whether a run that ended with an error left nothing changed.
func fullyRestored(err error) bool {
	restored := true
	walkErrors(err, func(one error) {
		back, is := one.(*rollbackError)
		failure, failed := one.(*apply.Failure)
		if is && back != nil || failed && failure.State != journal.FailedUndone {
			restored = false
		}
	})
	return restored
}

// walkErrors calls see for an error and every error that it wraps.
func walkErrors(err error, see func(error)) {
	if err == nil {
		return
	}
	see(err)
	switch wraps := err.(type) {
	case interface{ Unwrap() error }:
		walkErrors(wraps.Unwrap(), see)
	case interface{ Unwrap() []error }:
		for _, one := range wraps.Unwrap() {
			walkErrors(one, see)
		}
	}
}

// notLastingReason says why what a run kept was not made to last.
func notLastingReason(err error) string {
	if !fullyRestored(err) {
		return fmt.Sprintf("what was kept could not be made to last, and not all of it is put back: %v", err)
	}
	return fmt.Sprintf("what was kept could not be made to last, and is put back: %v", err)
}

// withoutInterruption returns an error without the parts that only say that the run was interrupted; nil if nothing
// remains.
func withoutInterruption(ctx context.Context, err error) error {
	if joined, is := err.(interface{ Unwrap() []error }); is {
		rest := facts.Map(joined.Unwrap(), func(one error) error { return withoutInterruption(ctx, one) })
		if reflect.TypeOf(err) == reflect.TypeOf(errors.Join(err)) { // adds no text to its parts
			return errors.Join(rest...)
		}
	}
	if bench.Interrupted(ctx, err) {
		return nil
	}
	return err
}
