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

// revisit measures anew, on top of all others, what was kept for a small gain while another bottleneck held the path back, and the two of a pair:
// what paid there may cost since. What is not the faster with it is taken out.
func (l *loop) revisit(ctx context.Context) error {
	limit, n := l.limit(), 0
	for _, c := range slices.Clone(l.kept) {
		h := l.held[c.Key]
		lasts := h.outcome == Kept && (h.limit == limit || h.ratio >= lastingRatio) // not one of a pair
		if len(l.kept) < 2 || n == mostRevisited || lasts || l.spent() {
			continue
		}
		n++
		if err := l.again(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// again measures one kept candidate on top of the others and takes it out where these are no slower without it. What the others need, or
// what cannot be made on top of them, stays.
func (l *loop) again(ctx context.Context, c Candidate) error {
	others := slices.DeleteFunc(slices.Clone(l.kept), func(o Candidate) bool { return o.Key == c.Key })
	switch err := l.stand(ctx, others); {
	case errors.Is(err, ErrRefused):
		return l.stand(ctx, l.kept)
	case err != nil:
		return err
	}
	m, a := l.match(0, l.byLoss || l.held[c.Key].byLoss), Attempt{Key: c.Key, Needed: 2 / wholeAlpha}
	test := m.score
	err := l.measureBy(ctx, c, &a, m, func() bool {
		n := test.Pairs()
		switch {
		case n >= fewest && test.Slower() == n && test.Ratio() < 1-l.MinEffect, test.Futile() >= 1/wholeAlpha:
			a.Outcome = Hurts
			return true
		case test.Gain() >= 1/wholeAlpha, n >= revisitedPairs && test.Ratio() >= 1, m.short >= mostShort, l.spent():
			a.Outcome = Kept
			return true
		case n >= revisitedPairs:
			a.Outcome = Useless
			return true
		}
		return false
	})
	switch {
	case err != nil:
		return err
	case a.Outcome == Refused:
		return l.stand(ctx, l.kept)
	case a.Outcome == Kept:
		return l.host.Keep(ctx)
	}
	for i := range l.result.Attempts {
		t := &l.result.Attempts[i]
		if two, is := l.twos[t.Key]; t.Outcome == Kept && t.Key == c.Key {
			t.Outcome = Overcome
			t.Why += "; beside what was kept later it costs: " + a.Gain.String()
		} else if is && t.Outcome == Kept && (two[0].Key == c.Key || two[1].Key == c.Key) {
			t.Why += fmt.Sprintf("; of the two %s costs (%s) and was taken out", c.Key, a.Gain)
		}
	}
	l.kept = others
	l.result.Kept = slices.DeleteFunc(l.result.Kept, func(key string) bool { return key == c.Key })
	return nil
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
