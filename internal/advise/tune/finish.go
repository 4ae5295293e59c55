package tune

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// wholeAlpha bounds the probability that the proof of the whole passes changes that do nothing, two-sided: 0.025 for a
// gain. The proof uses fresh pairs, so on a host where nothing helps a run keeps something with a probability of at
// most the product of this and alpha.
const wholeAlpha = 0.05

// finish proves what was kept against the initial state, in pairs and by a last search, and keeps or undoes it as a
// whole. It returns false, for another round, if that search misses a target that an earlier one had found and this is
// not the last round.
func (l *loop) finish(ctx context.Context, lastRound bool) (done bool, err error) {
	if len(l.kept) > 0 && !l.proven {
		if err := l.prove(ctx); err != nil {
			return false, err
		}
	}
	missed := l.met && !l.reachesTarget(l.result.Final.PPS)
	l.met = l.met && !missed
	if missed && !lastRound && len(l.kept) > 0 && l.result.Verdict == "" && !l.limitedOutside(l.result.Final) {
		if l.ending = false; !l.spent() {
			l.byLoss = l.reachesTarget(l.lastRate)
			return false, nil
		}
		l.result.Verdict = OutOfBudget
	}
	if l.Propose && len(l.kept) > 0 {
		if err := l.host.Reset(ctx); err != nil {
			return false, err
		}
	}
	l.conclude()
	return true, nil
}

// prove measures what was kept as a whole, then searches for its rate. It undoes everything if either fails to confirm
// the gain.
func (l *loop) prove(ctx context.Context) error {
	r := l.result
	if err := l.revisit(ctx); err != nil {
		return err
	}
	l.ending = true
	if err := l.whole(ctx); err != nil || len(l.kept) == 0 {
		return err
	}
	l.Progress(Progress{What: "final", Rate: l.lastRate})
	final, err := l.search(ctx)
	if errors.Is(err, errBudget) { // the gain is proven, only the rate without loss is unknown
		final = Rate{LimitedBy: "unknown", Loss: l.initial.Loss,
			None: "the budget was spent before the last search ended"}
		r.Verdict = OutOfBudget
	} else if err != nil {
		return err
	}
	final.Loaded = l.lastRate
	if r.After, err = l.host.Diagnose(ctx, l.load); err != nil {
		return err
	}
	l.diagnosis = r.After
	if final.UpperPPS != nil && *final.UpperPPS < l.initial.PPS {
		if err := l.host.Reset(ctx); err != nil {
			return err
		}
		l.rejectWhole(fmt.Sprintf("the last search found %s where the first had found %s", rate(final.PPS),
			rate(l.initial.PPS)))
		return nil
	}
	r.Final, l.proven = final, true
	return nil
}

// whole measures everything that was kept against the initial state, on fresh pairs, and keeps all of it or nothing.
func (l *loop) whole(ctx context.Context) error {
	if err := l.host.Reset(ctx); err != nil {
		return err
	}
	c, err := l.host.Whole(ctx, l.kept)
	if err != nil {
		return err
	}
	l.Progress(Progress{What: "whole", Rate: l.lastRate})
	a := Attempt{Key: c.Key, Title: "everything that was kept", Needed: 2 / wholeAlpha}
	byLoss := l.byLoss || slices.ContainsFunc(l.kept, func(c Candidate) bool { return l.tried[c.Key].byLoss })
	if err := l.measure(ctx, c, &a, byLoss); err != nil {
		return err
	}
	l.result.Whole = a.Gain
	if a.Outcome != Kept {
		l.rejectWhole("all that was kept, measured again against the initial state: " + a.Why)
		return nil
	}
	return l.host.Keep(ctx)
}

// rejectWhole records in the result that the host was reset after the proof failed.
func (l *loop) rejectWhole(why string) {
	l.markUndone()
	l.result.Warnings = append(l.result.Warnings, Warning{
		Code: "not-confirmed", Text: "what was kept was not confirmed when measured as a whole, and was undone: " + why,
		Hint: "run it again with less else going on, or with longer trials",
	})
}

// markUndone records that the host is back in the state this run found.
func (l *loop) markUndone() {
	l.kept, l.met, l.diagnosis = nil, false, l.result.Before
	if l.Earlier != nil {
		l.diagnosis = l.result.resumed
	}
	l.result.markUndone(l.inherited, l.initial)
}
