package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"mpps/internal/change/journal"
	"mpps/internal/model/setting"
)

// undo puts back what a failed run has written, the last first, going on past every error, and ends the transaction.
// It goes on where the journal cannot be written any more: the intents that a later rollback needs are on disk.
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
	failure.note(r.writer.Append(end))
	return failure
}

// undoOne puts one value back. The error is of the journal; what the machine refuses is kept in the change.
func (r *run) undoOne(ctx context.Context, c *journal.Change) error {
	found := r.read(ctx, c.Address)
	written := []error{}
	if !found.Same(c.Before) && !gone(c.Address, found) || c.Doubted {
		written = append(written, r.writer.Append(journal.Record{Event: journal.UndoIntent, N: c.N}))
		var err error
		if found, err = r.put(ctx, c.Address, c.Before); err != nil {
			r.left[c.N] = fmt.Errorf("put back: %w", err)
			c.State, c.Error = journal.ChangeUndoFailed, r.left[c.N].Error()
			written = append(written, r.writer.Append(journal.Record{Event: journal.UndoFailed, N: c.N,
				Error: c.Error}))
			return errors.Join(written...)
		}
	}
	c.State, c.Found = journal.ChangeUndone, &found
	written = append(written, r.writer.Append(journal.Record{Event: journal.Undone, N: c.N, Found: &found}))
	return errors.Join(written...)
}

// undoAgain tries once more what could not be put back while others stood: the kernel refuses to a thread the CPUs that
// it had before as long as its cpuset is narrower.
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

// settle looks once more at everything that was put back: what was put back later may have moved what was put back
// before it (fewer channels reset masks). Twice is enough, since what moves others comes first in the plan's order.
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
