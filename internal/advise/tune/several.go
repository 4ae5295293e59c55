package tune

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Bounds of what is tried together.
const (
	maxTwos     = 6 // pairs of candidates that were of no use alone
	maxCombined = 2 // combinations of all near gains
)

// possibly is the least ratio of a candidate that may be slower only by chance.
const possibly = 0.95

// uselessAlone returns the candidates that were tried without success or clear harm and satisfy a condition, the one
// with the highest ratio first.
func (l *loop) uselessAlone(all []Candidate, where func(c Candidate, ratio float64) bool) []Candidate {
	found := slices.DeleteFunc(slices.Clone(all), func(c Candidate) bool {
		h, tried := l.tried[c.Key]
		vain := h.outcome == NotShown || h.outcome == Useless || h.outcome == Hurts
		return !tried || !vain || !c.Needs.IsZero() || h.ratio < possibly || !where(c, h.ratio)
	})
	slices.SortStableFunc(found, func(a, b Candidate) int {
		return cmp.Compare(l.tried[b.Key].ratio, l.tried[a.Key].ratio)
	})
	return found
}

// combineTwo joins the next two candidates that act on the same bottleneck and did no harm alone. It starts with the
// current bottleneck and goes back to earlier ones, since a diagnosis may be wrong.
func (l *loop) combineTwo(all []Candidate) (Candidate, expectation, bool) {
	before := slices.Clone(l.named)
	slices.Reverse(before)
	for _, limit := range slices.Concat(l.limits(), before) {
		here := l.uselessAlone(all, func(c Candidate, _ float64) bool { return namedBy(limit, c) >= 0 })
		for i := range here {
			for j := range i {
				if c := l.combine(here[j], here[i]); l.tried[c.Key].times == 0 {
					return c, expectation{chance: 0.1, log: usual,
						reason: []string{"neither helps alone; both act on what was named (" + string(limit.Kind) +
							")"}}, true
				}
			}
		}
	}
	return Candidate{}, expectation{}, false
}

// revisitTime is the time it takes to try n candidates together, and then each of them again.
func (l *loop) revisitTime(n int) time.Duration {
	return time.Duration(patience+n*revisitPairs) * l.pairTook
}

// shortOfTime reports whether the budget leaves time for little more than to try the near gains together.
func (l *loop) shortOfTime(all []Candidate) bool {
	return l.Budget > 0 && l.remaining() < l.revisitTime(len(l.nearGains(all)))*5/4
}

// nearGains returns the candidates that were ahead alone, but by too little to be proven, and risk no more than a blip;
// the best first.
func (l *loop) nearGains(all []Candidate) []Candidate {
	return l.uselessAlone(all, func(c Candidate, ratio float64) bool {
		return ratio >= 1 && !risky(c.Risk)
	})
}

// combineNearGains joins all near gains, as many as there is time to measure again: small gains add up, and a host
// should not end far behind one to which the whole plan was applied. Candidates that were not tried alone are left out,
// since one that hurts could hide among those that help.
func (l *loop) combineNearGains(all []Candidate) (Candidate, expectation, bool) {
	near := l.nearGains(all)
	for l.Budget > 0 && len(near) > 0 && l.revisitTime(len(near)) > l.remaining() {
		near = near[:len(near)-1]
	}
	if len(near) < 2 {
		return Candidate{}, expectation{}, false
	}
	c := l.combine(near...)
	c.Title = fmt.Sprintf("all that came out ahead by too little to be shown: %s and %d more", near[0].Title,
		len(near)-1)
	return c, expectation{chance: 0.2, log: usual, reason: []string{"small gains add up"}}, l.tried[c.Key].times == 0
}

// combine joins candidates and remembers them as the parts of the result.
func (l *loop) combine(parts ...Candidate) Candidate {
	c := parts[0]
	for _, part := range parts[1:] {
		c = Join(c, part)
	}
	l.combined[c.Key] = parts
	return c
}

// parts returns the candidates that combine joined, or the candidate itself.
func (l *loop) parts(c Candidate) []Candidate {
	if parts, ok := l.combined[c.Key]; ok {
		return parts
	}
	return []Candidate{c}
}
