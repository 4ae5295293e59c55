package tune

import (
	"cmp"
	"fmt"
	"slices"
)

// mostTwos is how many pairs of candidates are tried that were of no use alone, mostRests how often all that is left is.
const (
	mostTwos  = 6
	mostRests = 2
)

// possibly is the least ratio of what may have been slower by chance alone.
const possibly = 0.95

// harmless tells whether a candidate takes effect at once, is not refused, and did no clear harm alone, as far as it was tried.
func (l *loop) harmless(c Candidate) bool {
	h := l.held[c.Key]
	return c.Needs == "" && h.outcome != Refused && (h.outcome != Hurts || h.ratio >= possibly)
}

// pairUp finds the next two candidates that act on the same bottleneck and did no harm alone, those with the better figures first.
func (l *loop) pairUp(all []Candidate) (Candidate, expectation, bool) {
	for _, limit := range l.limits() {
		here := slices.DeleteFunc(slices.Clone(all), func(c Candidate) bool {
			h, tried := l.held[c.Key]
			useless := h.outcome == NotShown || h.outcome == Useless || h.outcome == Hurts
			return !tried || !useless || !l.harmless(c) || namedBy(limit, c) < 0
		})
		slices.SortStableFunc(here, func(a, b Candidate) int { return cmp.Compare(l.held[b.Key].ratio, l.held[a.Key].ratio) })
		for i := range here {
			for j := range i {
				if c := l.several(here[j], here[i]); l.held[c.Key].times == 0 {
					return c, expectation{chance: 0.1, log: usual, reason: []string{"neither helps alone; both act on the bottleneck (" + string(limit.Kind) + ")"}}, true
				}
			}
		}
	}
	return Candidate{}, expectation{}, false
}

// late tells whether the budget leaves candidates little time: what was not tried by then is tried at once.
func (l *loop) late() bool { return l.Budget > 0 && l.left() < l.Budget/3 }

// rest is all that is left of the plan as one: what gains too little to be shown alone, or only together, may be much. So a host does not end
// behind one to which the plan was applied as a whole.
func (l *loop) rest(all []Candidate) (Candidate, expectation, bool) {
	left := slices.DeleteFunc(slices.Clone(all), func(c Candidate) bool { return !l.harmless(c) })
	if len(left) < 2 {
		return Candidate{}, expectation{}, false
	}
	c := l.several(left...)
	c.Title = fmt.Sprintf("all that is left: %s and %d more", left[0].Title, len(left)-1)
	return c, expectation{chance: 0.2, log: usual, reason: []string{"what gains too little to be shown alone may be much together"}}, l.held[c.Key].times == 0
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
