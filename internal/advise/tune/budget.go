package tune

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// provingPairs is how many pairs a clear gain of the whole takes to be proven, and some.
const provingPairs = 12

// reserved is the time of the budget that candidates leave to what comes behind them, by what such took so far: the
// proof of the whole, which may use up all that is left, and the last search.
func (l *loop) reserved() time.Duration {
	if l.ending {
		return 0
	}
	return max(l.Budget/4, provingPairs*l.pairTook+l.searchTook)
}

// left is what is left of the budget, where there is one.
func (l *loop) left() time.Duration { return l.Budget - l.reserved() - l.Now().Sub(l.began) }

// spent reports whether the budget leaves no time for more.
func (l *loop) spent() bool { return l.Budget > 0 && l.left() < 0 }

// errBudget ends a search for which no time is left.
var errBudget = errors.New("the budget is spent")

// search finds the highest rate, as far as the budget has time for it: errBudget where it has not. The first one may
// have all of it, since without it nothing is known.
func (l *loop) search(ctx context.Context) (Rate, error) {
	within := ctx
	if l.Budget > 0 {
		left := l.left()
		if l.result.Searches == 0 {
			left = l.Budget
		}
		var cancel context.CancelFunc
		within, cancel = context.WithTimeoutCause(ctx, left, errBudget)
		defer cancel()
		if left <= 0 {
			return Rate{}, errBudget
		}
	}
	began := l.Now()
	r, err := l.host.Search(within)
	l.searchTook = max(l.searchTook, l.Now().Sub(began))
	switch {
	case err != nil && ctx.Err() == nil && within.Err() != nil:
		return r, errBudget
	case err == nil:
		l.result.Searches++
	}
	return r, err
}

// tooShort words that a budget does not even hold the first search.
func (l *loop) tooShort() error {
	return fmt.Errorf("the budget of %v ended within the first search: expected time for two searches, a proof and "+
		"the trials between", l.Budget)
}
