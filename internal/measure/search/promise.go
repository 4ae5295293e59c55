package search

import "math"

// proposal is a possible next trial.
type proposal struct {
	pps, seconds float64
	purpose      purpose
}

// bestProposal returns the trial that should narrow the belief most per second.
func (b belief) bestProposal() proposal {
	sample := b.sample(48)
	high, low := b.quantile(0.9), b.quantile(0.1)
	best, gain := proposal{}, math.Inf(-1)
	for _, c := range []proposal{
		{high * 1.06, 1, purpose{aim: overload}}, {high * 1.06, 3, purpose{aim: overload}},
		{high * 1.01, 2, purpose{aim: above}}, {high * 0.998, 3, purpose{aim: below}},
		{b.quantile(0.5), 2, purpose{aim: amid}},
		{low * 0.998, 2, purpose{aim: belowAll}},
	} {
		if g := gainOf(sample, c); g > gain {
			best, gain = c, g
		}
	}
	return best
}

// sample returns n equally likely hypotheses that represent all.
func (b belief) sample(n int) []hypothesis {
	s := make([]hypothesis, 0, n)
	var sum float64
	for _, h := range b.all {
		for sum += h.weight; len(s) < n && sum > (float64(len(s))+0.5)/float64(n); {
			s = append(s, h)
		}
	}
	return s
}

// gainOf returns by how much a trial should shrink the log variance of the capacity, per second.
func gainOf(sample []hypothesis, c proposal) float64 {
	before := variance(sample, nil)
	if before == 0 {
		return 0
	}
	var after float64
	weights := make([]float64, len(sample))
	for _, truth := range sample {
		t := truth.predict(c)
		for i, h := range sample {
			weights[i] = 0
			for j, l := range h.likelihood(&t) {
				weights[i] += odds[j].prior * l
			}
		}
		after += variance(sample, weights) / float64(len(sample))
	}
	return math.Log(before/(after+1e-12*before)) / c.seconds
}

// predict returns the most likely outcome of a trial of this device.
func (h hypothesis) predict(c proposal) seen {
	carried := h.capacity*(1+h.buffer/c.seconds) - h.collapse*max(0, c.pps-h.capacity)
	t := seen{load: c.pps, seconds: c.seconds, rate: min(c.pps, carried), lossless: c.pps <= carried}
	t.weigh()
	return t
}

// variance returns the relative variance of the capacity. nil weights are equal.
func variance(sample []hypothesis, weights []float64) float64 {
	var sum, first, second float64
	for i, h := range sample {
		w := 1.0
		if weights != nil {
			w = weights[i]
		}
		x := h.capacity / sample[0].capacity
		sum, first, second = sum+w, first+w*x, second+w*x*x
	}
	if sum == 0 {
		return 0
	}
	return max(0, second/sum-square(first/sum))
}

// split reports whether the belief falls into parts with a gap in between.
func (b belief) split() bool {
	s := b.sample(40)
	var gap float64
	for i := 1; i < len(s); i++ {
		gap = max(gap, s[i].capacity-s[i-1].capacity)
	}
	return gap > 0.5*(s[len(s)-1].capacity-s[0].capacity)
}
