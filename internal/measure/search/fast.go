package search

import "context"

const (
	// enough is after how many seconds of traffic a belief that is wide only because seconds differ is left at that.
	enough = 24
	// tries is how often a bound is tried that trials contradict.
	tries = 3
)

// fast narrows the capacity down with trials of a few seconds, those first that promise the most, until the belief is
// narrow, and then tries both bounds of both goals. The belief is empty where the device carries the most that may be
// sent, or not even the least.
func (h *hunt) fast(ctx context.Context) (belief, error) {
	b, err := h.rough(ctx)
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

// rough approaches the capacity and tells a buffer from it by a longer trial.
func (h *hunt) rough(ctx context.Context) (belief, error) {
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

// next is the trial to be done, and whether there is one.
func (h *hunt) next(b belief) (proposal, bool) {
	if !h.narrow(b) && (h.spent < enough || b.split()) {
		return b.most(), true
	}
	buffer := b.mean(func(h hypothesis) float64 { return h.buffer })
	for _, goal := range h.o.goals() {
		lower, upper := h.bounds(b, goal.Name, goal.LossRatio)
		for _, c := range []bound{lower, upper} {
			switch {
			case c.pps > h.o.MaxPPS || goal.LossRatio <= h.floor && h.floor > 0:
			case !c.lower && buffer > c.seconds*margin(b): // what is too much by so little fits into the buffer
			case !h.settles(c) && h.attempts(c.purpose) < tries && h.spent < enough+6:
				return proposal{c.pps, c.seconds, c.purpose}, true
			}
		}
	}
	return proposal{}, false
}

// narrow reports whether the belief leaves room for the bounds beside it.
func (h *hunt) narrow(b belief) bool {
	lo, hi, _ := b.interval()
	return hi/lo-1 <= 0.6*h.o.Width
}

func (h *hunt) settles(b bound) bool {
	_, ok := h.settled(b)
	return ok
}
