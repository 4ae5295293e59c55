package search

import "context"

const (
	// enoughSeconds of traffic end the narrowing of a belief that is wide only because seconds differ.
	enoughSeconds = 24
	// maxTries is how often a bound is tried if trials contradict it.
	maxTries = 3
)

// fast narrows the capacity with trials of a few seconds, the most promising first, and once it is narrow tries both
// bounds of both goals. The belief is empty if the device carries the highest rate allowed, or not even the lowest.
func (h *hunt) fast(ctx context.Context) (belief, error) {
	b, err := h.approximate(ctx)
	if err != nil || len(b.all) == 0 {
		return b, err
	}
	for {
		next, more := h.next(b)
		if !more || h.starved() || !h.afford(next.seconds) {
			return b, nil
		}
		if h.floor == 0 && h.afford(6) && h.attempts(purpose{lowerBound, "NDR"}) == 2 &&
			h.attempts(purpose{aim: anyLoad}) == 0 {
			if lower, _ := h.bounds(b, "NDR", 0); !h.settles(lower) {
				if err := h.seekFloor(ctx, b.quantile(0.5)); err != nil {
					return b, err
				}
				b = h.believe()
				continue
			}
		}
		if _, err := h.try(ctx, next.pps, next.seconds, next.purpose); err != nil {
			return b, err
		}
		b = h.believe()
	}
}

// approximate approaches the capacity, and distinguishes a buffer from it by a longer trial.
func (h *hunt) approximate(ctx context.Context) (belief, error) {
	over, err := h.approach(ctx)
	switch {
	case err != nil || !over:
		return belief{}, err
	case !h.afford(3):
		return h.believe(), nil
	}
	if _, err := h.try(ctx, h.trials[len(h.trials)-1].rate()*1.06, 3, purpose{aim: longer}); err != nil {
		return h.believe(), err
	}
	return h.believe(), nil
}

// next returns the next trial, and whether there is one.
func (h *hunt) next(b belief) (proposal, bool) {
	if !h.narrow(b) && (h.spent < enoughSeconds || b.split()) {
		return b.bestProposal(), true
	}
	buffer := b.mean(func(h hypothesis) float64 { return h.buffer })
	for _, goal := range h.o.goals() {
		lower, upper := h.bounds(b, goal.Name, goal.LossRatio)
		for _, c := range []bound{lower, upper} {
			switch {
			case c.pps > h.o.MaxPPS || goal.LossRatio <= h.floor && h.floor > 0:
			case !c.lower && buffer > c.seconds*margin(b): // the buffer holds so small an excess
			case !h.settles(c) && h.attempts(c.purpose) < maxTries && h.spent < enoughSeconds+6:
				return proposal{c.pps, c.seconds, c.purpose}, true
			}
		}
	}
	return proposal{}, false
}

// narrow reports whether the belief is narrow enough to fit the bounds around it.
func (h *hunt) narrow(b belief) bool {
	lo, hi, _ := b.interval()
	return hi/lo-1 <= 0.6*h.o.Width
}

func (h *hunt) settles(b bound) bool {
	_, ok := h.settled(b)
	return ok
}
