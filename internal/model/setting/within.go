package setting

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrInDoubt marks a write that did not return in time: whether it took effect, or still will, is unknown.
var ErrInDoubt = errors.New("in doubt: it is not known whether it took effect")

// Within runs a call that can hang in the kernel (sysfs stores and ethtool ioctls sleep on driver locks) and stops
// waiting when ctx ends, with ErrInDoubt and the cause. The call itself cannot be cancelled.
func Within(ctx context.Context, call func() error) error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	default:
		return fmt.Errorf("%w: %w", ErrInDoubt, context.Cause(ctx))
	}
}

// WithPatience is context.WithTimeoutCause by a clock that stands still while this process does (SIGSTOP, a frozen
// control group, no CPU time): what returned meanwhile has returned in time. Once the limit is over, Err is
// context.Canceled and context.Cause is cause. A limit of ctx counts too, whichever comes first.
func WithPatience(ctx context.Context, limit time.Duration, cause error) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		const ticks = 100
		tick := time.NewTicker(max(limit/ticks, 1)) // a ticker drops what its reader misses
		defer tick.Stop()
		for range ticks {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
		cancel(cause)
	}()
	return patience{ctx, time.Now().Add(limit)}, func() { cancel(context.Canceled) }
}

// patience is a context whose Deadline is the earliest time at which it ends.
type patience struct {
	context.Context
	end time.Time
}

// Deadline returns the earliest end.
func (p patience) Deadline() (time.Time, bool) {
	if end, limited := p.Context.Deadline(); limited && end.Before(p.end) {
		return end, true
	}
	return p.end, true
}
