package tuning

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mpps/internal/advise/plan"
	"mpps/internal/advise/tune"
	"mpps/internal/change/apply"
	"mpps/internal/change/journal"
	"mpps/internal/ops"
	"mpps/internal/ops/bench"
	"mpps/internal/ops/change"
	"mpps/internal/outcome"
)

// Try applies a candidate as a transaction of the session; everything that was kept as one after the other, since what
// was planned
// behind one may be about what it made: interrupts of new queues.
func (h *trialHost) Try(ctx context.Context, c tune.Candidate) error {
	if len(h.tried) > 0 {
		return fmt.Errorf("transaction %s is tried already", h.tried[0])
	}
	parts := h.whole
	h.trying = nil
	if c.Key != wholeKey {
		changes, err := h.of(c)
		if err != nil {
			return err
		}
		parts, h.trying = [][]plan.Change{changes}, keysOf(c)
	}
	for _, changes := range parts {
		if err := h.apply(ctx, h.part(changes)); errors.Is(err, tune.ErrRefused) {
			return errors.Join(err, h.Back(ctx))
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (h *trialHost) apply(ctx context.Context, p *plan.Plan) error {
	h.fresh = true
	result, err := h.engine.Run(ctx, p, apply.Options{Beside: change.Besides(p, h.host.Facts), Session: h.session,
		Arm: h.arm})
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
		h.stale = h.stale || stale != nil // somebody else changed it: look anew before the next
		return errors.Join(fmt.Errorf("%w: %w", tune.ErrRefused, err), h.alone.Stand(h.tried...))
	case err != nil:
		return err
	case result.TX == "":
		return fmt.Errorf("%w: everything is as planned already: somebody else changed it meanwhile", tune.ErrRefused)
	}
	h.tried = append(h.tried, result.TX)
	return nil
}

// arm has put back what is tried already, and one transaction more, should this process die.
func (h *trialHost) arm(tx string) error { return h.alone.Stand(append(slices.Clone(h.tried), tx)...) }

// Back rolls back what is tried.
func (h *trialHost) Back(ctx context.Context) (err error) {
	h.tried, err = h.rollbackAll(ctx, h.tried)
	if len(h.tried) > 0 {
		return err // who watches over it may have to put it back yet
	}
	return errors.Join(err, h.alone.Stand())
}

// Reset rolls back everything of the session, the latest first.
func (h *trialHost) Reset(ctx context.Context) error {
	problem := h.Back(ctx)
	if len(h.stack) == 0 {
		return problem
	}
	left, err := h.rollbackAll(ctx, h.stack)
	h.stack, h.stale = left, true
	return errors.Join(problem, err)
}

// rollbackAll rolls back transactions, the last first. It goes on past errors: what stands in the way of one is no
// reason to leave the
// others. left are those that still stand.
func (h *trialHost) rollbackAll(ctx context.Context, all []string) (left []string, err error) {
	var problems []error
	for _, tx := range slices.Backward(all) {
		problem := h.rollback(ctx, tx)
		var back *notBack
		if errors.As(problem, &back) && !back.drifted {
			left = append([]string{tx}, left...)
		}
		problems = append(problems, problem)
	}
	return left, errors.Join(problems...)
}

// notBack says that a transaction of a run is not, or not wholly, put back.
type notBack struct {
	tx      string
	drifted bool // it is put back, but for values that somebody else changed
	err     error
}

func (n *notBack) Error() string { return n.err.Error() }

func (n *notBack) Unwrap() error { return n.err }

// Is tells the loop that values are left which somebody else changed.
func (n *notBack) Is(target error) bool { return n.drifted && target == tune.ErrDrifted }

// rollback puts back one transaction, with those that were built on it. Its error is a *notBack.
func (h *trialHost) rollback(ctx context.Context, tx string) error {
	ctx = context.WithoutCancel(ctx)
	h.fresh = true
	o := apply.RollbackOptions{TX: tx, Session: h.session, Why: "mpps tune", WithLater: true}
	restored, err := h.engine.Rollback(ctx, o)
	var locked *journal.Locked
	for deadline := time.Now().Add(bench.Patience); errors.As(err, &locked) && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond)
		restored, err = h.engine.Rollback(ctx, o)
	}
	if err != nil {
		return &notBack{tx: tx, err: outcome.Failed(fmt.Errorf("put back transaction %s: %w", tx, err),
			"'mpps rollback' restores the beginning of the run")}
	}
	n := 0
	for _, r := range restored {
		n += r.Drifted()
	}
	if n == 0 {
		return nil
	}
	return &notBack{tx: tx, drifted: true, err: outcome.Failed(fmt.Errorf("%s of transaction %s: somebody else "+
		"changed them while they were measured, and they were left alone", ops.Count(n, "value"), tx),
		"find out who ('mpps history "+tx+"' names them), then run it again")}
}

// Keep lets stand what is tried.
func (h *trialHost) Keep(context.Context) error {
	if len(h.tried) == 0 {
		return errors.New("nothing is tried that could be kept")
	}
	h.stack, h.tried, h.stale = append(h.stack, h.tried...), nil, true
	for _, key := range h.trying {
		h.proven[key] = true
	}
	return h.alone.Stand()
}
