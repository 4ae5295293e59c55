package tune

import (
	"context"
	"errors"
	"math"
	"time"
)

// provingPairs is the number of pairs reserved for the proof of everything kept: more than a clear gain needs.
const provingPairs = 12

// reserve is the part of the budget that candidates leave to the proof of the whole and the last search, estimated from
// the longest pair and search so far.
func (l *loop) reserve() time.Duration {
	if l.ending {
		return 0
	}
	return max(l.Budget/4, provingPairs*l.pairTook+l.searchTook)
}

// remaining is the time left for candidates; only meaningful with a budget.
func (l *loop) remaining() time.Duration { return l.Budget - l.reserve() - l.Now().Sub(l.began) }

// provable returns the least gain of one candidate that what is left of the budget can prove; 0: none.
func (l *loop) provable() float64 {
	pairs := l.MaxPairs
	if l.Budget > 0 && l.trialTook > 0 {
		pairs = min(pairs, int(l.remaining()/(2*l.trialTook)))
	}
	ratio := Provable(pairs, l.rateNoise.Scale(), l.MinEffect, 1/spend(l.Alpha, 1, 1, 0))
	if math.IsInf(ratio, 1) {
		return 0
	}
	return ratio
}

// spent reports whether the budget leaves no time for another step.
func (l *loop) spent() bool { return l.Budget > 0 && l.remaining() < 0 }

// errBudget ends a search that the budget has no time for.
var errBudget = errors.New("the budget is spent")

// search finds the highest rate within the remaining budget, or returns errBudget. The first search may use the whole
// budget: without it nothing is known.
func (l *loop) search(ctx context.Context) (Rate, error) {
	within := ctx
	if l.Budget > 0 {
		left := l.remaining()
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
		l.result.Measured += r.Seconds
	}
	return r, err
}
