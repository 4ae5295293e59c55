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

// revisit measures anew, on top of all others, what was kept for a small gain while another bottleneck held the path back, and the parts of
// what was tried as one: what paid there may cost since. What is not the faster with it is taken out.
func (l *loop) revisit(ctx context.Context) error {
	limit, n := l.limit(), 0
	for _, c := range slices.Clone(l.kept) {
		h := l.held[c.Key]
		if len(l.kept) < 2 || n == mostRevisited || l.ofSeveral(c) || h.limit == limit || h.ratio >= lastingRatio || l.spent() {
			continue
		}
		n++
		if _, err := l.again(ctx, []Candidate{c}); err != nil {
			return err
		}
	}
	for _, a := range slices.Clone(l.result.Attempts) {
		if parts, is := l.made[a.Key]; is && a.Outcome == Kept {
			if err := l.partsAgain(ctx, parts); err != nil {
				return err
			}
		}
	}
	return nil
}

// ofSeveral tells whether a candidate was kept as a part of one.
func (l *loop) ofSeveral(c Candidate) bool { return l.held[c.Key].outcome != Kept }

// partsAgain measures the halves of what is better as a whole, and the halves of those, down to single candidates: a half that costs may
// hold what helps. Only one that is neither goes as a whole.
func (l *loop) partsAgain(ctx context.Context, parts []Candidate) error {
	if len(parts) < 2 {
		return nil
	}
	for _, half := range [][]Candidate{parts[:len(parts)/2], parts[len(parts)/2:]} {
		if len(l.kept) < 2 || l.spent() {
			return nil
		}
		stays := true
		if len(half) < len(l.kept) { // else it is all that was kept, and was measured
			var err error
			if stays, err = l.again(ctx, half); err != nil {
				return err
			}
		}
		if stays {
			if err := l.partsAgain(ctx, half); err != nil {
				return err
			}
		}
	}
	return nil
}

// again measures kept candidates on top of the others and takes them out where these are no slower without. What the others need, or
// what cannot be made on top of them, stays; so do several that cost, while there is time to look for those of them that do.
func (l *loop) again(ctx context.Context, these []Candidate) (stays bool, err error) {
	among := func(key string) bool {
		return slices.ContainsFunc(these, func(c Candidate) bool { return c.Key == key })
	}
	others := slices.DeleteFunc(slices.Clone(l.kept), func(o Candidate) bool { return among(o.Key) })
	switch err := l.stand(ctx, others); {
	case errors.Is(err, ErrRefused):
		return true, l.stand(ctx, l.kept)
	case err != nil:
		return true, err
	}
	c := these[0]
	for _, more := range these[1:] {
		c = Join(c, more)
	}
	byLoss := l.byLoss || slices.ContainsFunc(these, func(c Candidate) bool { return l.held[c.Key].byLoss })
	m, a := l.match(0, byLoss), Attempt{Key: c.Key, Title: c.Title, Needed: 2 / wholeAlpha}
	test := m.score
	err = l.measureBy(ctx, c, &a, m, func() bool {
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
		return true, err
	case a.Outcome == Refused:
		return true, l.stand(ctx, l.kept)
	case a.Outcome == Kept:
		return true, l.host.Keep(ctx)
	case a.Outcome == Hurts && len(these) > 1 && !l.spent():
		return true, l.stand(ctx, l.kept)
	}
	l.kept = others
	l.result.Kept = slices.DeleteFunc(l.result.Kept, among)
	l.tellTakenOut(c.Key, a.Gain, among)
	return false, nil
}

// tellTakenOut says with the attempts by which something was kept that it was taken out.
func (l *loop) tellTakenOut(key string, gain Gain, among func(string) bool) {
	stands := func(c Candidate) bool { return slices.Contains(l.result.Kept, c.Key) }
	for i := range l.result.Attempts {
		t := &l.result.Attempts[i]
		parts, several := l.made[t.Key]
		switch {
		case t.Outcome != Kept:
		case !several && among(t.Key):
			t.Outcome = Overcome
			t.Why += "; beside what was kept later it costs: " + gain.String()
		case several && slices.ContainsFunc(parts, func(c Candidate) bool { return among(c.Key) }):
			t.Why += fmt.Sprintf("; of these %s costs (%s) and was taken out", key, gain)
			if !slices.ContainsFunc(parts, stands) {
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
