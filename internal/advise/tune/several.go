package tune

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"mpps/internal/model/goal"
)

// mostTwos is how many pairs of candidates are tried that were of no use alone, mostRests how often all that came out
// ahead is.
const (
	mostTwos  = 6
	mostRests = 2
)

// possibly is the least ratio of what may have been slower by chance alone.
const possibly = 0.95

// useless reports whether a candidate was tried, in vain and without harm that is clear.
func (l *loop) useless(c Candidate) bool {
	h, tried := l.held[c.Key]
	vain := h.outcome == NotShown || h.outcome == Useless || h.outcome == Hurts
	return tried && vain && c.Needs.IsZero() && h.ratio >= possibly
}

// pairUp finds the next two candidates that act on the same bottleneck and did no harm alone: on what was named last,
// or before, since a diagnosis may be mistaken; those with the better figures first.
func (l *loop) pairUp(all []Candidate) (Candidate, expectation, bool) {
	before := slices.Clone(l.named)
	slices.Reverse(before)
	for _, limit := range slices.Concat(l.limits(), before) {
		here := slices.DeleteFunc(slices.Clone(all), func(c Candidate) bool {
			return !l.useless(c) ||
				namedBy(limit, c) < 0
		})
		slices.SortStableFunc(here, func(a, b Candidate) int {
			return cmp.Compare(l.held[b.Key].ratio,
				l.held[a.Key].ratio)
		})
		for i := range here {
			for j := range i {
				if c := l.several(here[j], here[i]); l.held[c.Key].times == 0 {
					return c, expectation{chance: 0.1, log: usual,
						reason: []string{"neither helps alone; both act on what was named (" + string(limit.Kind) +
							")"}}, true
				}
			}
		}
	}
	return Candidate{}, expectation{}, false
}

// apart is the time that it takes to try so many candidates as one, and then each of them again.
func (l *loop) apart(n int) time.Duration {
	return time.Duration(patience+n*revisitedPairs) * l.pairTook
}

// late reports whether the budget leaves time for little more than to try what came out ahead as one.
func (l *loop) late(all []Candidate) bool {
	return l.Budget > 0 && l.left() < l.apart(len(l.ahead(all)))*5/4
}

// ahead are the candidates that came out ahead alone, by too little to be shown, the best first.
func (l *loop) ahead(all []Candidate) []Candidate {
	ahead := slices.DeleteFunc(slices.Clone(all), func(c Candidate) bool {
		return !l.useless(c) || l.held[c.Key].ratio < 1 || c.Risk != goal.None && c.Risk != goal.Blip
	})
	slices.SortStableFunc(ahead, func(a, b Candidate) int {
		return cmp.Compare(l.held[b.Key].ratio,
			l.held[a.Key].ratio)
	})
	return ahead
}

// rest is all that came out ahead as one: small gains add up, and a host should not end far behind one to which the
// whole plan was applied. What was not tried alone is no part of it, since what hurts could hide behind what helps; nor
// is what risks more than a blip, nor those for which no time is left to be measured again.
func (l *loop) rest(all []Candidate) (Candidate, expectation, bool) {
	ahead := l.ahead(all)
	for l.Budget > 0 && len(ahead) > 0 && l.apart(len(ahead)) > l.left() {
		ahead = ahead[:len(ahead)-1]
	}
	if len(ahead) < 2 {
		return Candidate{}, expectation{}, false
	}
	c := l.several(ahead...)
	c.Title = fmt.Sprintf("all that came out ahead by too little to be shown: %s and %d more", ahead[0].Title,
		len(ahead)-1)
	return c, expectation{chance: 0.2, log: usual, reason: []string{"small gains add up"}}, l.held[c.Key].times == 0
}

// several is candidates as one.
func (l *loop) several(parts ...Candidate) Candidate {
	c := parts[0]
	for _, part := range parts[1:] {
		c = Join(c, part)
	}
	l.made[c.Key] = parts
	return c
}

// parts are the candidates that one is made of, or the candidate itself.
func (l *loop) parts(c Candidate) []Candidate {
	if parts, is := l.made[c.Key]; is {
		return parts
	}
	return []Candidate{c}
}
