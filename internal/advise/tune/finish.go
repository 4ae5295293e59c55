package tune

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// wholeAlpha is the chance that the proof of the whole passes what does nothing. It is on fresh pairs, so that a run
// keeps something on a host where nothing helps with a chance of no more than the product of both.
const wholeAlpha = 0.05 // both ways together: 0.025 for a gain

// finish proves what was kept against the beginning, in turns and by a last search, and keeps or undoes it as a whole.
// The run is not done where that search misses a target that an earlier one had found, and it is not the last round.
func (l *loop) finish(ctx context.Context, lastRound bool) (done bool, err error) {
	if len(l.kept) > 0 && !l.proven {
		if err := l.prove(ctx); err != nil {
			return false, err
		}
	}
	missed := l.target && !l.reached(l.result.Final.PPS)
	l.target = l.target && !missed
	if missed && !lastRound && len(l.kept) > 0 && l.result.Verdict == "" && !l.notHost(l.result.Final) {
		if l.ending = false; !l.spent() {
			l.byLoss = l.reached(l.last)
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

// prove measures what was kept as a whole and searches for the rate with it. What does not stand that is undone.
func (l *loop) prove(ctx context.Context) error {
	r := l.result
	if err := l.revisit(ctx); err != nil {
		return err
	}
	l.ending = true
	if err := l.whole(ctx); err != nil || len(l.kept) == 0 {
		return err
	}
	l.Progress(Progress{What: "final", Rate: l.last})
	final, err := l.search(ctx)
	if errors.Is(err, errBudget) { // what was kept is proven, only its rate without loss is not known
		final = Rate{LimitedBy: "unknown", Loss: l.found.Loss,
			None: "the budget was spent before the last search ended"}
		r.Verdict = OutOfBudget
	} else if err != nil {
		return err
	}
	final.Loaded = l.last
	if r.After, err = l.host.Diagnose(ctx, l.load); err != nil {
		return err
	}
	l.state = r.After
	if final.UpperPPS != nil && *final.UpperPPS < l.found.PPS {
		if err := l.host.Reset(ctx); err != nil {
			return err
		}
		l.overcome(fmt.Sprintf("the last search found %s where the first had found %s", rate(final.PPS),
			rate(l.found.PPS)))
		return nil
	}
	r.Final, l.proven = final, true
	return nil
}

// whole measures everything that was kept against the beginning, on fresh pairs. In the end it stands, or nothing does.
func (l *loop) whole(ctx context.Context) error {
	if err := l.host.Reset(ctx); err != nil {
		return err
	}
	c, err := l.host.Whole(ctx, l.kept)
	if err != nil {
		return err
	}
	l.Progress(Progress{What: "whole", Rate: l.last})
	a := Attempt{Key: c.Key, Title: "everything that was kept", Needed: 2 / wholeAlpha}
	byLoss := l.byLoss || slices.ContainsFunc(l.kept, func(c Candidate) bool { return l.held[c.Key].byLoss })
	if err := l.measure(ctx, c, &a, byLoss); err != nil {
		return err
	}
	l.result.Whole = a.Gain
	if a.Outcome != Kept {
		l.overcome("all that was kept, measured anew against the beginning: " + a.Why)
		return nil
	}
	return l.host.Keep(ctx)
}

// overcome takes back in the result what was taken back on the host.
func (l *loop) overcome(why string) {
	l.undone()
	l.result.Warnings = append(l.result.Warnings, Warning{
		Code: "not-confirmed", Text: "what was kept did not stand the proof of the whole and was undone: " + why,
		Hint: "run it again with less else going on, or with longer trials",
	})
}

func (l *loop) undone() {
	l.result.Kept, l.kept, l.target = []string{}, nil, false
	for i := range l.result.Attempts {
		if a := &l.result.Attempts[i]; a.Outcome == Kept && !a.Stands(l.stood) {
			a.Outcome = Overcome
		}
	}
	l.result.Kept = append(l.result.Kept, l.stood...)
	l.result.Final = l.found
	l.result.After, l.state = l.result.resumed, l.result.Before
	if l.Earlier != nil {
		l.state = l.result.resumed
	}
	l.result.takenBack()
}
