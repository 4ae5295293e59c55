package search

// bound is a load that, by the belief, should pass a goal (a lower bound) or should fail it (an upper bound).
type bound struct {
	purpose purpose
	pps     float64 // to be tried
	// Trials at loads from here to there count for the bound as well.
	from, to float64
	lower    bool
	loss     float64 // share of loss that the goal allows
	seconds  float64 // of trials needed
}

// bounds returns the bounds of a goal. Its load is the capacity times scale.
func (h *hunt) bounds(b belief, name string, loss float64) (lower, upper bound) {
	lo, hi, middle := b.interval()
	m, half := margin(b), h.o.Width/2
	scale := h.scale(loss)
	lower = bound{purpose: purpose{lowerBound, name}, pps: scale * lo * (1 - m),
		from: scale * min(middle*(1-half), lo*(1-m)),
		to:   scale * lo * (1 - m/4), lower: true, loss: loss, seconds: 1}
	upper = bound{purpose: purpose{upperBound, name}, pps: scale * hi * (1 + m), from: scale * hi * (1 + m/4),
		to: scale * max(middle*(1+half), hi*(1+m)), loss: loss, seconds: 1}
	if loss == 0 {
		lower.seconds = 2
	}
	return lower, upper
}

// margin returns how far beyond the belief's interval the bounds are tried, relative, so that differing seconds rarely
// contradict them.
func margin(b belief) float64 {
	return min(max(0.0005, 2*b.mean(func(h hypothesis) float64 { return h.sigma })), 0.001)
}

// interval returns the interval that holds the capacity with the reported Confidence, and its median.
func (b belief) interval() (lo, hi, middle float64) {
	return b.quantile((1 - Confidence) / 2), b.quantile((1 + Confidence) / 2), b.quantile(0.5)
}

// settled reports whether trials confirm a bound: more of their seconds agree than contradict. best is the tightest
// trial that agrees.
func (h *hunt) settled(b bound) (best Tried, ok bool) {
	var agree, against float64
	for _, t := range h.trials {
		x := t.load()
		if x < b.from*(1-1e-6) || x > b.to*(1+1e-6) {
			continue
		}
		if h.passes(t, b.loss) != b.lower {
			against += t.Outcome.Seconds
			continue
		}
		agree += t.Outcome.Seconds
		if best.Outcome.Sent == 0 || b.lower && x > best.load() || !b.lower && x < best.load() {
			best = t
		}
	}
	return best, agree >= b.seconds && agree > against
}

// scale returns the load that just meets a goal, relative to the capacity.
func (h *hunt) scale(loss float64) float64 {
	if loss == 0 {
		return 1
	}
	return (1 - h.floor) / (1 - loss)
}
