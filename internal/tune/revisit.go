package tune

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Bounds of revisit: gains of this ratio and more are taken to last, and so many changes are looked at again by so many pairs.
const (
	lastingRatio   = 1.15
	mostRevisited  = 3
	revisitedPairs = 16
)

// revisit measures anew, on top of all others, what was kept for a small gain while another bottleneck held the path back, and each part of
// what was kept at once: what paid there may cost since, and a part may cost that the others outweigh. What does is taken out.
func (l *loop) revisit(ctx context.Context) error {
	limit, n := l.limit(), 0
	for _, c := range slices.Clone(l.kept) {
		h := l.held[c.Key]
		alone := h.outcome == Kept // and not a part of several
		if alone && (n == mostRevisited || h.limit == limit || h.ratio >= lastingRatio) || len(l.kept) < 2 || l.spent() {
			continue
		}
		if alone {
			n++
		}
		if err := l.again(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// again measures one kept candidate on top of the others and takes it out where it costs. What the others need, or what cannot be made on
// top of them, stays. What stands then is not always what was kept: who comes next begins anew.
func (l *loop) again(ctx context.Context, c Candidate) error {
	others := slices.DeleteFunc(slices.Clone(l.kept), func(o Candidate) bool { return o.Key == c.Key })
	switch err := l.stand(ctx, others); {
	case errors.Is(err, ErrRefused):
		return nil
	case err != nil:
		return err
	}
	began, m := l.Now(), l.match(0, l.byLoss || l.held[c.Key].byLoss)
	a := Attempt{
		N: len(l.result.Revisits) + 1, Key: c.Key, IDs: c.IDs, Title: c.Title, Stage: c.Stage, Risk: c.Risk, Changes: c.Changes,
		Because: []string{"kept before, measured anew on top of what was kept beside it"}, Limit: l.kindOfLimit(), Needed: 2 / wholeAlpha,
	}
	test := m.score
	err := l.measureBy(ctx, c, &a, m, func() bool {
		n := test.Pairs()
		switch {
		case n >= surely && test.Slower() == n && test.Ratio() < 1-l.MinEffect, test.Futile() >= 1/wholeAlpha, n >= revisitedPairs && test.Ratio() < 1-l.MinEffect:
			a.Outcome = Hurts
			return true
		case test.Gain() >= 1/wholeAlpha, n >= revisitedPairs, m.short >= mostShort, l.spent():
			a.Outcome = Kept
			return true
		}
		return false
	})
	a.Evidence, a.Seconds = test.Gain(), l.Now().Sub(began).Seconds()
	if a.Outcome == Kept {
		a.Why = fmt.Sprintf("it does not cost beside the others: %s in %d pairs", a.Gain, test.Pairs())
	}
	l.result.Revisits = append(l.result.Revisits, a)
	if err != nil || a.Outcome != Hurts {
		return err
	}
	l.kept = others
	l.result.Kept = slices.DeleteFunc(l.result.Kept, func(key string) bool { return key == c.Key })
	h := l.held[c.Key]
	h.outcome, h.ratio, h.kept = Hurts, a.Gain.Ratio, len(others)
	l.held[c.Key] = h
	l.tellTakenOut(c.Key, a.Gain)
	return nil
}

// tellTakenOut says with the attempt by which a candidate was kept that it was taken out.
func (l *loop) tellTakenOut(key string, gain Gain) {
	for i := range l.result.Attempts {
		t := &l.result.Attempts[i]
		switch {
		case t.Outcome != Kept:
		case t.Key == key:
			t.Outcome = Overcome
			t.Why += "; beside what was kept later it costs: " + gain.String()
		case slices.Contains(t.Parts, key):
			t.Why += fmt.Sprintf("; of these %s costs (%s) and was taken out", key, gain)
			if !t.Stands(l.result.Kept) {
				t.Outcome = Overcome
			}
		}
	}
}

// stand has candidates stand, and nothing else. After ErrRefused nothing stands.
func (l *loop) stand(ctx context.Context, these []Candidate) error {
	if err := l.host.Begin(ctx); err != nil {
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
