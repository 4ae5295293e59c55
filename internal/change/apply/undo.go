package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"mpps/internal/change/journal"
	"mpps/internal/model/setting"
)

// undo restores what a failed run has written, in reverse order and past every error, and ends the transaction. It
// continues even if the journal can no longer be written: the intents that a later rollback needs are on disk.
func (r *run) undo(ctx context.Context, cause error) error {
	ctx = context.WithoutCancel(ctx)
	failure := &Failure{TX: r.writer.TX(), State: journal.FailedUndone, Cause: cause}
	for end := len(r.changes); end > 0; {
		n := r.together(end, func(k int) setting.Address { return r.changes[end-1-k].Address })
		failure.note(r.undoTogether(ctx, r.changes[end-n:end]))
		end -= n
	}
	r.undoAgain(ctx, failure)
	r.settle(ctx, failure)
	moved, err := r.keep(ctx)
	failure.note(err)
	r.moved = moved
	var left []error
	if len(moved) > 0 {
		left = append(left, unkept(moved))
	}
	for _, c := range r.changes {
		if c.Doubted {
			failure.State = journal.Doubtful
			failure.Doubted = append(failure.Doubted, c.Address)
		}
		switch c.State {
		case journal.ChangeUndoFailed:
			left = append(left, r.left[c.N])
		case journal.ChangeUndone:
			failure.Undone++
		}
	}
	failure.Left = left
	end := journal.Record{Event: journal.RolledBack}
	if len(left) > 0 || failure.State == journal.Doubtful {
		end = journal.Record{Event: journal.Incomplete, Error: errors.Join(append([]error{cause}, left...)...).Error()}
	}
	if len(left) > 0 && failure.State != journal.Doubtful {
		failure.State = journal.FailedPartly
	}
	failure.note(r.record(end))
	return failure
}

// undoOne restores one value. The error is the journal's; a refusal by the machine is recorded in the change.
func (r *run) undoOne(ctx context.Context, c *journal.Change) error {
	found := r.read(ctx, c.Address)
	written := []error{}
	if !found.Same(c.Before) && !gone(c.Address, found) || c.Doubted {
		written = append(written, r.record(journal.Record{Event: journal.UndoIntent, N: c.N}))
		var err error
		if found, err = r.put(ctx, c.Address, c.Before); err != nil {
			r.left[c.N] = fmt.Errorf("put back: %w", err)
			c.State, c.Error = journal.ChangeUndoFailed, r.left[c.N].Error()
			written = append(written, r.record(journal.Record{Event: journal.UndoFailed, N: c.N, Error: c.Error}))
			return errors.Join(written...)
		}
	}
	c.State, c.Found = journal.ChangeUndone, &found
	written = append(written, r.record(journal.Record{Event: journal.Undone, N: c.N, Found: &found}))
	return errors.Join(written...)
}

// undoAgain retries values that could not be restored before others were: the kernel refuses a thread its former CPUs
// as long as its cpuset is narrower.
func (r *run) undoAgain(ctx context.Context, failure *Failure) {
	for i := range slices.Backward(r.changes) {
		c := &r.changes[i]
		if c.State != journal.ChangeUndoFailed || errors.Is(r.left[c.N], setting.ErrInDoubt) {
			continue
		}
		failure.note(r.undoOne(ctx, c))
		if c.State == journal.ChangeUndone {
			delete(r.left, c.N)
			c.Error = ""
		}
	}
}

// settle checks every restored value again: a later restore may have moved an earlier one (fewer channels reset masks).
// Twice is enough, since values that move others come first in the plan's order.
func (r *run) settle(ctx context.Context, failure *Failure) {
	for range 2 {
		moved := false
		for i := range r.changes {
			c := &r.changes[i]
			if !c.Wrote() || c.State == journal.ChangeUndoFailed {
				continue
			}
			if found := r.read(ctx, c.Address); !found.Same(c.Before) && !gone(c.Address, found) {
				moved = true
				failure.note(r.undoOne(ctx, c))
			}
		}
		if !moved {
			return
		}
	}
}
