package tune

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Bounds of revisit.
const (
	lastingRatio = 1.15 // gains of this ratio and more are not measured again
	maxRevisits  = 3
	revisitPairs = 16
)

// revisit measures again, on top of all others, what was kept for a small gain under another bottleneck, and drops what
// costs by now.
func (l *loop) revisit(ctx context.Context) error {
	limit, n := l.limitName(), 0
	for _, c := range slices.Clone(l.kept) {
		h := l.tried[c.Key]
		if len(l.kept) < 2 || n == maxRevisits || h.limit == limit || h.ratio >= lastingRatio || l.spent() {
			continue
		}
		n++
		if err := l.remeasure(ctx, c, true); err != nil {
			return err
		}
	}
	return nil
}

// revisitParts measures each part of a combination on top of everything that is kept, since the gain of the others may
// hide a part that costs. It drops those, and those that no time is left for, and installs what is still kept.
func (l *loop) revisitParts(ctx context.Context, parts []Candidate) error {
	for _, c := range parts {
		if len(l.kept) < 2 {
			break
		}
		if err := l.remeasure(ctx, c, false); err != nil {
			return err
		}
	}
	err := l.install(ctx, l.kept)
	if errors.Is(err, ErrRefused) { // the rest does not work without the parts that were dropped: drop all of it
		for _, c := range parts {
			if slices.ContainsFunc(l.kept, hasKey(c.Key)) {
				l.drop(c, "what is left of them was refused")
			}
		}
		err = l.install(ctx, l.kept)
	}
	return err
}

func hasKey(key string) func(Candidate) bool {
	return func(c Candidate) bool { return c.Key == key }
}

// remeasure measures one kept candidate on top of the others and drops it if it costs; a part of a combination (alone
// is false) also if the budget ends first. A candidate that the others need, or that is refused on top of them, stays.
// Afterwards the host may not have what is kept: the next step must install it or Reset.
func (l *loop) remeasure(ctx context.Context, c Candidate, alone bool) error {
	others := slices.DeleteFunc(slices.Clone(l.kept), hasKey(c.Key))
	byLoss := l.byLoss || l.tried[c.Key].byLoss
	began, m, last := l.Now(), newComparison(0, byLoss), l.lastRate
	a := l.newAttempt(c, len(l.result.Revisits), 2/wholeAlpha,
		"kept before, measured again on top of the other changes that were kept")
	if !l.spent() {
		switch err := l.install(ctx, others); {
		case errors.Is(err, ErrRefused):
			return nil
		case err != nil:
			return err
		}
		if err := l.measureBy(ctx, c, &a, m, func() bool { return l.decideRevisit(m, &a) }); err != nil {
			return err
		}
	} else {
		l.describe(m, &a)
		a.Outcome = Cut
	}
	if m.short > 0 { // measured at a lower load, at which less arrives
		l.lastRate = last
	}
	test := m.score
	a.Evidence, a.Seconds = test.Gain(), l.Now().Sub(began).Seconds()
	n := test.Pairs()
	switch a.Outcome {
	case Kept:
		a.Why = fmt.Sprintf("it does not cost on top of the others: %s in %d pairs", a.Gain, n)
	case Hurts:
		a.Why = fmt.Sprintf("it costs on top of the others: %s, %s in %d of %d pairs", a.Gain, m.worse(),
			test.Slower(), n)
	case Cut:
		a.Why = fmt.Sprintf("the budget was spent after %d pairs: %s", n, a.Gain)
		l.result.Verdict = OutOfBudget
	}
	l.result.Revisits = append(l.result.Revisits, a)
	h := l.tried[c.Key]
	h.outcome, h.limit, h.ratio, h.kept, h.byLoss = a.Outcome, l.limitName(), test.Ratio(), len(others), byLoss
	l.tried[c.Key] = h
	if a.Outcome == Hurts || !alone && a.Outcome == Cut {
		l.drop(c, a.Why)
	}
	return nil
}

// decideRevisit sets the outcome of a revisit once its pairs are enough, and reports whether they are.
func (l *loop) decideRevisit(m *comparison, a *Attempt) bool {
	least := l.MinEffect
	if m.byLoss {
		least = lossEffect
	}
	n, costs := m.score.Pairs(), m.score.Ratio() < 1-least
	switch {
	case n >= hurtPairs && m.score.Slower() == n && costs, m.score.Futile() >= 1/wholeAlpha, n >= revisitPairs && costs:
		a.Outcome = Hurts
	case m.score.Gain() >= 1/wholeAlpha, n >= revisitPairs, m.short >= maxShort:
		a.Outcome = Kept
	case l.spent():
		a.Outcome = Cut
	default:
		return false
	}
	return true
}

// drop removes a candidate from what is kept, and records that with the attempt that had kept it.
func (l *loop) drop(c Candidate, why string) {
	l.kept = slices.DeleteFunc(l.kept, hasKey(c.Key))
	l.result.Kept = slices.DeleteFunc(l.result.Kept, func(key string) bool { return key == c.Key })
	own := l.ownAttempts()
	for i := range own {
		switch a := &own[i]; {
		case a.Outcome != Kept:
		case a.Key == c.Key:
			a.Outcome = Overcome
			a.Why += "; measured again: " + why
		case slices.Contains(a.Parts, c.Key):
			a.Why += fmt.Sprintf("; of these %s was taken out: %s", c.Key, why)
			if !a.Stands(l.result.Kept) {
				a.Outcome = Overcome
			}
		}
	}
}

// install puts the host in its initial state plus these candidates. After ErrRefused it is in its initial state.
func (l *loop) install(ctx context.Context, these []Candidate) error {
	if err := l.host.Reset(ctx); err != nil || len(these) == 0 {
		return err
	}
	whole, err := l.host.Whole(ctx, these)
	if err != nil {
		return err
	}
	if err := l.host.Try(ctx, whole); err != nil {
		return err
	}
	return l.host.Keep(ctx)
}
