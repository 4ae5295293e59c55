package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"mpps/internal/model/goal"
)

// Bounds of revisit.
const (
	lastingRatio = 1.15 // gains of this ratio and more are not measured again
	maxRevisits  = 3
	revisitPairs = 16
)

// revisit measures kept candidates again on top of all others, the smallest gain first, if they were kept for a small
// gain while the bottleneck was another or while a candidate was in force that has been dropped since. It drops those
// that cost or gain nothing by now.
func (l *loop) revisit(ctx context.Context) error {
	limit, n := l.limitName(), 0
	kept := slices.Clone(l.kept)
	slices.SortStableFunc(kept, func(a, b Candidate) int {
		return cmp.Compare(l.tried[a.Key].ratio, l.tried[b.Key].ratio)
	})
	for _, c := range kept {
		h := l.tried[c.Key]
		same := h.limit == limit && (h.ratio >= 1 || h.kept == len(l.kept)-1)
		if len(l.kept) < 2 || n == maxRevisits || same || h.ratio == 0 || h.ratio >= lastingRatio || l.spent() {
			continue
		}
		n++
		if err := l.remeasure(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

func hasKey(key string) func(Candidate) bool {
	return func(c Candidate) bool { return c.Key == key }
}

// remeasure measures a kept candidate, or several as one, on top of the others, and drops it if it costs or gains
// nothing. One that the others need, or that is refused on top of them, stays. Afterwards the host may lack some of
// what is kept: the next step must install it or Reset.
func (l *loop) remeasure(ctx context.Context, c Candidate) error {
	parts := l.parts(c)
	others := slices.DeleteFunc(slices.Clone(l.kept), func(k Candidate) bool {
		return slices.ContainsFunc(parts, hasKey(k.Key))
	})
	byLoss := l.byLoss || slices.ContainsFunc(parts, func(p Candidate) bool { return l.tried[p.Key].byLoss })
	began, m, last := l.Now(), l.compare(0, byLoss), l.lastRate
	a := l.newAttempt(c, len(l.result.Revisits), 1/wholeAlpha,
		"kept before, measured again on top of the other changes that were kept")
	a.setParts(parts)
	if !l.spent() {
		switch err := l.install(ctx, others); {
		case errors.Is(err, ErrRefused):
			return nil
		case err != nil:
			return err
		}
		most := revisitPairs
		if len(parts) > 1 { // its parts are measured after it
			most /= 2
		}
		if err := l.measureBy(ctx, c, &a, m, func() bool { return l.decideRevisit(m, &a, most) }); err != nil {
			return err
		}
	} else {
		l.describe(m, &a)
		a.Outcome = Cut
	}
	if m.short > 0 || a.Outcome != Kept { // measured at a lower load, at which less arrives; or taken out
		l.lastRate = last
	}
	a.Seconds = l.Now().Sub(began).Seconds()
	l.recordRevisit(m, &a, parts, history{limit: l.limitName(), kept: len(others), byLoss: byLoss})
	return nil
}

// recordRevisit records a revisit with its outcome, and drops what costs or gains nothing.
func (l *loop) recordRevisit(m *comparison, a *Attempt, parts []Candidate, h history) {
	test := m.score
	a.Evidence = test.Gain()
	n := test.Pairs()
	switch a.Outcome {
	case Kept:
		a.Why = fmt.Sprintf("it does not cost on top of the others: %s in %d pairs", a.Gain, n)
		if a.Evidence >= a.Needed {
			a.Why = fmt.Sprintf("it gains on top of the others: %s in %d pairs", a.Gain, n)
		}
	case Hurts:
		a.Why = fmt.Sprintf("it costs on top of the others: %s, %s in %d of %d pairs", a.Gain, m.worse(),
			test.Slower(), n)
	case Useless:
		a.Why = fmt.Sprintf("it was not shown to gain anything on top of the others: %s in %d pairs%s", a.Gain, n,
			atMost(test.AtMost(1/wholeAlpha)))
		if !m.byLoss {
			l.takenOut += max(0, math.Log(test.Ratio()))
		}
	case Cut:
		a.Why = fmt.Sprintf("the budget was spent after %d pairs: %s; it stays", n, a.Gain)
		l.result.Verdict = OutOfBudget
	}
	l.result.Revisits = append(l.result.Revisits, *a)
	for _, part := range parts {
		if a.Outcome == Hurts && len(parts) > 1 { // one of them does, and is found next
			continue
		}
		was := l.tried[part.Key]
		h.times, h.outcome, h.ratio = max(1, was.times), a.Outcome, test.Ratio()
		l.tried[part.Key] = h
		if a.Outcome == Hurts || a.Outcome == Useless {
			l.drop(part, a.Why)
		}
	}
}

// decideRevisit sets the outcome of a revisit once its pairs are enough, and reports whether they are.
func (l *loop) decideRevisit(m *comparison, a *Attempt, most int) bool {
	least := l.MinEffect
	if m.byLoss {
		least = lossEffect
	}
	n, costs := m.score.Pairs(), m.score.Ratio() < 1-least
	switch {
	case n >= hurtPairs && m.score.Slower() == n && costs, m.score.Futile() >= 1/wholeAlpha,
		n >= most && costs && len(a.Parts) == 0:
		a.Outcome = Hurts
	case m.score.Gain() >= a.Needed:
		a.Outcome = Kept
	case l.useless(m), n >= most && len(a.Parts) == 0 && risky(a.Risk):
		a.Outcome = Useless
	case n >= most, m.short >= maxShort:
		a.Outcome = Kept
	case l.spent():
		a.Outcome = Cut
	default:
		return false
	}
	return true
}

// risky reports whether a change of a risk stays only if it is shown to gain something itself.
func risky(r goal.Risk) bool { return r != "" && r != goal.None && r != goal.Blip }

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
