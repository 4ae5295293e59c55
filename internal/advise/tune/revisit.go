package tune

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Bounds of revisit: gains of this ratio and more are taken to last, and so many changes are looked at again by so many
// pairs.
const (
	lastingRatio   = 1.15
	mostRevisited  = 3
	revisitedPairs = 16
)

// revisit measures again, on top of all others, what was kept for a small gain while another bottleneck held the path
// back: what paid there may cost since. What does is taken out.
func (l *loop) revisit(ctx context.Context) error {
	limit, n := l.limit(), 0
	for _, c := range slices.Clone(l.kept) {
		h := l.held[c.Key]
		if len(l.kept) < 2 || n == mostRevisited || h.limit == limit || h.ratio >= lastingRatio || l.spent() {
			continue
		}
		n++
		if err := l.again(ctx, c, true); err != nil {
			return err
		}
	}
	return nil
}

// takeApart measures each part of what was kept at once on top of all that stands: a part may cost that the others
// outweigh. Such are taken out, and those for which no time is left. What is kept stands then.
func (l *loop) takeApart(ctx context.Context, parts []Candidate) error {
	for _, c := range parts {
		if len(l.kept) < 2 {
			break
		}
		if err := l.again(ctx, c, false); err != nil {
			return err
		}
	}
	err := l.stand(ctx, l.kept)
	if errors.Is(err, ErrRefused) { // without some of its parts it cannot be made: none of it, then
		for _, c := range parts {
			if slices.ContainsFunc(l.kept, func(k Candidate) bool { return k.Key == c.Key }) {
				l.takeOut(c, "what is left of them was refused")
			}
		}
		err = l.stand(ctx, l.kept)
	}
	return err
}

// again measures one kept candidate on top of the others and takes it out where it costs, and a part of several also
// where it cannot be measured to the end. What the others need, or what cannot be made on top of them, stays. What
// stands then is not always what was kept: who comes next starts over.
func (l *loop) again(ctx context.Context, c Candidate, alone bool) error {
	others := slices.DeleteFunc(slices.Clone(l.kept), func(o Candidate) bool { return o.Key == c.Key })
	byLoss := l.byLoss || l.held[c.Key].byLoss
	began, m, last := l.Now(), l.match(0, byLoss), l.last
	a := Attempt{
		N: len(l.result.Revisits) + 1, Key: c.Key, IDs: c.IDs, Title: c.Title, Stage: c.Stage, Risk: c.Risk,
		Changes: c.Changes,
		Because: []string{"kept before, measured anew on top of what was kept beside it"}, Limit: l.kindOfLimit(),
		Needed: 2 / wholeAlpha,
	}
	if !l.spent() {
		switch err := l.stand(ctx, others); {
		case errors.Is(err, ErrRefused):
			return nil
		case err != nil:
			return err
		}
		if err := l.measureBy(ctx, c, &a, m, func() bool { return l.enoughAgain(m, &a) }); err != nil {
			return err
		}
	} else {
		l.describe(m, &a)
		a.Outcome = Cut
	}
	if m.short > 0 { // at a lower load less comes through
		l.last = last
	}
	test := m.score
	a.Evidence, a.Seconds = test.Gain(), l.Now().Sub(began).Seconds()
	n, worse := test.Pairs(), "slower"
	if byLoss {
		worse = "with more loss"
	}
	switch a.Outcome {
	case Kept:
		a.Why = fmt.Sprintf("it does not cost beside the others: %s in %d pairs", a.Gain, n)
	case Hurts:
		a.Why = fmt.Sprintf("it costs beside the others: %s, %s in %d of %d pairs", a.Gain, worse, test.Slower(), n)
	case Cut:
		a.Why = fmt.Sprintf("the budget was spent after %d pairs: %s", n, a.Gain)
		l.result.Verdict = OutOfBudget
	}
	l.result.Revisits = append(l.result.Revisits, a)
	h := l.held[c.Key]
	h.outcome, h.limit, h.ratio, h.kept, h.byLoss = a.Outcome, l.limit(), test.Ratio(), len(others), byLoss
	l.held[c.Key] = h
	if a.Outcome == Hurts || !alone && a.Outcome == Cut {
		l.takeOut(c, a.Why)
	}
	return nil
}

// takeOut has a candidate not be kept any more, and says so with the attempt by which it was.
func (l *loop) takeOut(c Candidate, why string) {
	l.kept = slices.DeleteFunc(l.kept, func(o Candidate) bool { return o.Key == c.Key })
	l.result.Kept = slices.DeleteFunc(l.result.Kept, func(key string) bool { return key == c.Key })
	l.tellTakenOut(c.Key, why)
}

// enoughAgain reports whether the pairs of a revisit are enough, and what follows from them.
func (l *loop) enoughAgain(m *match, a *Attempt) bool {
	least := l.MinEffect
	if m.byLoss {
		least = lossEffect
	}
	n, costs := m.score.Pairs(), m.score.Ratio() < 1-least
	switch {
	case n >= surely && m.score.Slower() == n && costs, m.score.Futile() >= 1/wholeAlpha, n >= revisitedPairs && costs:
		a.Outcome = Hurts
	case m.score.Gain() >= 1/wholeAlpha, n >= revisitedPairs, m.short >= mostShort:
		a.Outcome = Kept
	case l.spent():
		a.Outcome = Cut
	default:
		return false
	}
	return true
}

// tellTakenOut says with the attempt by which a candidate was kept that it was taken out.
func (l *loop) tellTakenOut(key, why string) {
	for i := range l.own() {
		t := &l.own()[i]
		switch {
		case t.Outcome != Kept:
		case t.Key == key:
			t.Outcome = Overcome
			t.Why += "; measured anew: " + why
		case slices.Contains(t.Parts, key):
			t.Why += fmt.Sprintf("; of these %s was taken out: %s", key, why)
			if !t.Stands(l.result.Kept) {
				t.Outcome = Overcome
			}
		}
	}
}

// stand has candidates stand, and nothing else. After ErrRefused nothing stands.
func (l *loop) stand(ctx context.Context, these []Candidate) error {
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
