package tuning

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"mpps/internal/advise/plan"
	"mpps/internal/advise/tune"
	"mpps/internal/change/apply"
	"mpps/internal/change/journal"
	"mpps/internal/ops"
	"mpps/internal/ops/bench"
	"mpps/internal/ops/change"
	"mpps/internal/outcome"
)

// Try applies a candidate as a transaction of the session. Everything that was kept is applied as one transaction after
// the other: a later one may be about what an earlier one created, such as the interrupts of new queues.
func (h *trialHost) Try(ctx context.Context, c tune.Candidate) error {
	if len(h.tried) > 0 {
		return fmt.Errorf("transaction %s is tried already", h.tried[0])
	}
	parts := h.whole
	h.triedKeys = nil
	if c.Key != wholeKey {
		changes, err := h.changesOf(c)
		if err != nil {
			return err
		}
		parts, h.triedKeys = [][]plan.Change{changes}, keysOf(c)
	}
	for _, changes := range parts {
		if err := h.apply(ctx, h.subplan(changes)); errors.Is(err, tune.ErrRefused) {
			return errors.Join(err, h.Back(ctx))
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (h *trialHost) apply(ctx context.Context, p *plan.Plan) error {
	h.fresh = true
	result, err := h.engine.Run(ctx, p, apply.Options{Beside: change.CoupledAddresses(p, h.host.Facts),
		Session: h.session,
		Arm:     h.guard})
	var failure *apply.Failure
	var stale *plan.Stale
	var unwritable *apply.Unwritable
	switch {
	case errors.As(err, &failure) && failure.State != journal.FailedUndone:
		h.tried = append(h.tried, failure.TX)
		return err
	case ctx.Err() != nil && err != nil:
		return err
	case errors.As(err, &failure), errors.As(err, &unwritable), errors.As(err, &stale):
		h.stale = h.stale || stale != nil // somebody else changed a value: plan again before the next candidate
		return errors.Join(fmt.Errorf("%w: %w", tune.ErrRefused, err), h.orphans.Set(h.tried...))
	case err != nil:
		return err
	case result.TX == "":
		return fmt.Errorf("%w: everything is as planned already: somebody else changed it meanwhile", tune.ErrRefused)
	}
	h.tried = append(h.tried, result.TX)
	return nil
}

// guard arranges that the transactions under trial, and tx, are rolled back if this process dies.
func (h *trialHost) guard(tx string) error {
	return h.orphans.Set(append(slices.Clone(h.tried), tx)...)
}

// Back rolls back the transactions under trial.
func (h *trialHost) Back(ctx context.Context) (err error) {
	h.tried, err = h.rollbackAll(ctx, h.tried)
	if len(h.tried) > 0 {
		return err // the orphan guard may still have to roll them back
	}
	return errors.Join(err, h.orphans.Set())
}

// Reset rolls back every transaction of the session, newest first.
func (h *trialHost) Reset(ctx context.Context) error {
	problem := h.Back(ctx)
	if len(h.kept) == 0 {
		return problem
	}
	left, err := h.rollbackAll(ctx, h.kept)
	h.kept, h.stale = left, true
	return errors.Join(problem, err)
}

// rollbackAll rolls back transactions, newest first. It continues past errors. left are the transactions that still
// stand.
func (h *trialHost) rollbackAll(ctx context.Context, all []string) (left []string, err error) {
	var problems []error
	for _, tx := range slices.Backward(all) {
		problem := h.rollback(ctx, tx)
		var back *rollbackError
		if errors.As(problem, &back) && !back.drifted {
			left = append([]string{tx}, left...)
		}
		problems = append(problems, problem)
	}
	return left, errors.Join(problems...)
}

// rollbackError says that a transaction of a run was not, or not wholly, rolled back.
type rollbackError struct {
	tx      string
	drifted bool // it was rolled back except for values that somebody else changed
	err     error
}

func (n *rollbackError) Error() string { return n.err.Error() }

func (n *rollbackError) Unwrap() error { return n.err }

// Is reports whether the error is tune.ErrDrifted: only values that somebody else changed were left.
func (n *rollbackError) Is(target error) bool { return n.drifted && target == tune.ErrDrifted }

// rollback rolls back one transaction with those that build on it. Its error is a *rollbackError.
func (h *trialHost) rollback(ctx context.Context, tx string) error {
	h.fresh = true
	o := apply.RollbackOptions{TX: tx, Session: h.session, Why: "mpps tune", WithLater: true}
	restored, err := bench.Rollback(ctx, h.engine, o)
	if err != nil {
		return &rollbackError{tx: tx, err: outcome.Failed(fmt.Errorf("put back transaction %s: %w", tx, err),
			"'mpps rollback' restores the beginning of the run")}
	}
	n := 0
	for _, r := range restored {
		n += r.Drifted()
	}
	if n == 0 {
		return nil
	}
	return &rollbackError{tx: tx, drifted: true, err: outcome.Failed(fmt.Errorf("%s of transaction %s: somebody else "+
		"changed them while they were measured, and they were left alone", ops.Count(n, "value"), tx),
		"find out who ('mpps history "+tx+"' names them), then run it again")}
}

// Keep keeps the transactions under trial.
func (h *trialHost) Keep(context.Context) error {
	if len(h.tried) == 0 {
		return errors.New("nothing is tried that could be kept")
	}
	h.kept, h.tried, h.stale = append(h.kept, h.tried...), nil, true
	for _, key := range h.triedKeys {
		h.keptKeys[key] = true
	}
	return h.orphans.Set()
}
