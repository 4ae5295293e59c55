package search

import (
	"cmp"
	"math"
	"slices"
)

// hypothesis is a device as it may be. The rate that it forwards in a second is normal around its capacity, which is
// that of a typical second.
type hypothesis struct {
	capacity float64 // packets per second
	buffer   float64 // seconds of its capacity that it holds before it drops
	collapse float64 // by how much the forwarded rate falls for each packet above the capacity
	sigma    float64 // standard deviation of a second's capacity, relative
	other    float64 // capacity of seconds that are not typical, packets per second; 0: it may be any

	weight float64 // of all hypotheses together: 1
}

// The kinds of noise that are thought possible, and shares of the seconds that are not typical (a stall, another
// state), each with its prior weight.
var (
	sigmas = []struct{ sigma, prior float64 }{{1e-4, 0.25}, {3e-4, 0.15}, {1e-3, 0.2}, {2e-3, 0.1}, {4e-3, 0.1},
		{1e-2, 0.1}, {3e-2, 0.06}, {1e-1, 0.04}}
	odds = [...]struct{ share, prior float64 }{{0.01, 0.4}, {0.05, 0.3}, {0.15, 0.2}, {0.35, 0.1}}
)

const (
	// slack is what no trial is believed beyond: clocks, counters and the model itself are not better, relative.
	slack = 1.5e-4
	// oddDensity is the density of what a trial with odd seconds forwards, per relative unit: anywhere within a
	// quarter.
	oddDensity = 2.0
	// oddLossless is the chance of a trial with odd seconds to lose nothing.
	oddLossless = 0.3
	// priors of the families: with a buffer, with a collapse; the rest is neither. And of odd seconds that are all
	// alike.
	priorBuffer, priorCollapse, priorOther = 0.2, 0.1, 0.3
	// priorMore is that of odd seconds that carry more than typical ones, relative to those that carry less.
	priorMore = 0.2
	// Hypotheses lie on lattices of this step and reach, in standard deviations of a second.
	step, reach = 0.25, 5
)

// seen is a trial as the model sees it.
type seen struct {
	load, rate, seconds float64
	lossless            bool
	odd                 [len(odds)][]float64 // chances that so many of its seconds are odd
}

func see(t Tried) seen {
	s := seen{load: t.load(), rate: t.rate(), seconds: t.Outcome.Seconds, lossless: t.lossless()}
	s.weigh()
	return s
}

// weigh works out how likely so many odd seconds are: half as if each second were odd by itself (stalls), half as if
// the trial were so as a whole (states that last).
func (s *seen) weigh() {
	n := max(1, int(math.Round(s.seconds)))
	for i, o := range odds {
		p := make([]float64, n+1)
		chance := math.Pow(1-o.share, float64(n)) // of k = 0
		for k := range p {
			p[k] = chance / 2
			chance *= o.share / (1 - o.share) * float64(n-k) / float64(k+1)
		}
		p[0] += (1 - o.share) / 2
		p[n] += o.share / 2
		s.odd[i] = p
	}
}

// forwards is what a trial without odd seconds should show: the chance to lose nothing, the mean rate of one that loses
// something, and its variance.
func (h hypothesis) forwards(load, seconds float64) (lossless, mean, variance float64) {
	c, s := h.capacity, h.capacity*h.sigma
	if h.buffer > 0 {
		mean, variance = c*(1+h.buffer/seconds), s*s/seconds
		return cdf((mean - load) / math.Sqrt(variance+slack*slack*c*c)), mean, variance
	}
	carried := c - h.collapse*max(0, load-c)
	z := (load - carried) / s
	switch {
	case z > 6: // far above it: every second loses
		return 0, carried, s * s / seconds
	case z < -9: // far below it: none does, as far as numbers can tell
		return 1, load, 0
	}
	// A second loses what is above its own capacity, so some do at loads just below the typical one.
	phi, pdf := cdf(z), density(z)
	short := z*phi + pdf
	return math.Pow(cdf(-z), seconds), load - s*short, s * s * max(0, (z*z+1)*phi+z*pdf-short*short) / seconds
}

// likelihood of a trial for each share of odd seconds: the chance to lose nothing, or the density of what came through
// per relative unit of capacity.
func (h hypothesis) likelihood(t *seen) (l [len(odds)]float64) {
	lossless, mean, variance := h.forwards(t.load, t.seconds)
	anything := oddDensity
	if t.lossless {
		anything = oddLossless
	}
	n := len(t.odd[0]) - 1
	for k := range n + 1 {
		given := anything
		if k == 0 {
			given = h.density(t, lossless, mean, variance)
		} else if h.other > 0 {
			part := float64(k) / float64(n)
			through := 0.0 // chance that neither the odd seconds lose nor the others
			if t.load <= h.other {
				through = lossless
				if k == n {
					through = 1
				}
			}
			m := min(mean, t.load) - part*max(0, min(h.capacity, t.load)-h.other)
			if h.other > h.capacity {
				m = min(mean+part*(h.other-h.capacity), t.load)
			}
			given = 0.9*h.density(t, through, m,
				max(variance, h.capacity*h.capacity*h.sigma*h.sigma/t.seconds)) + 0.1*anything
		}
		for i := range odds {
			l[i] += t.odd[i][k] * given
		}
	}
	return l
}

func (h hypothesis) density(t *seen, lossless, mean, variance float64) float64 {
	if t.lossless {
		return lossless
	}
	c := h.capacity
	s := math.Sqrt(variance/(c*c) + slack*slack)
	return density((t.rate-mean)/(c*s)) / s
}

// density and cdf are those of the normal distribution. What is less than impossible, see below, is nothing.
func density(z float64) float64 {
	if z*z > 300 {
		return 0
	}
	return math.Exp(-z*z/2) / math.Sqrt(2*math.Pi)
}

func cdf(z float64) float64 {
	switch {
	case z < -18:
		return 0
	case z > 9:
		return 1
	}
	return math.Erfc(-z/math.Sqrt2) / 2
}

// impossible is the likelihood of what a hypothesis rules out: none is given up for a single trial.
const impossible = 1e-60

// belief is what is known of a device after trials: hypotheses with their weights, sorted by capacity.
type belief struct {
	all []hypothesis
}

// believe weighs the hypotheses that any of the trials suggests.
func believe(trials []Tried) belief {
	all := make([]seen, len(trials))
	for i, t := range trials {
		all[i] = see(t)
	}
	var centres []hypothesis
	devices, best := suggested(all), math.Inf(-1)
	for _, n := range sigmas {
		for _, h := range devices {
			h.sigma = n.sigma
			for _, h.other = range others(all, h) {
				h.weight = h.log(all, best)
				best = max(best, h.weight)
				centres = append(centres, h)
			}
		}
	}
	slices.SortStableFunc(centres, func(x, y hypothesis) int { return cmp.Compare(y.weight, x.weight) })
	lattice := make(map[point]hypothesis, 4096)
	for _, h := range centres {
		if h.weight < best-14 {
			break
		}
		h.around(lattice)
	}
	var b belief
	for _, h := range lattice {
		if l := h.log(all, best); !math.IsInf(l, -1) {
			h.weight = math.Log(h.weight*priorOf(h.sigma)) + l
			b.all = append(b.all, h)
		}
	}
	b.normalize()
	return b
}

func priorOf(sigma float64) float64 {
	for _, n := range sigmas {
		if n.sigma == sigma {
			return n.prior
		}
	}
	return 0
}

// negligible is how far below the best a logarithm of a likelihood weighs nothing.
const negligible = 25

// log is the logarithm of the likelihood of all trials. What is clearly below least is not worked out to the end.
func (h hypothesis) log(trials []seen, least float64) float64 {
	var sum, product [len(odds)]float64
	for i := range odds {
		product[i] = odds[i].prior
	}
	// No trial adds more than the logarithm of its highest density, and one that lost nothing adds nothing.
	highest, left := max(0, -math.Log(math.Sqrt(square(h.sigma/2)+slack*slack)*math.Sqrt(2*math.Pi))), 0.0
	for i := range trials {
		if !trials[i].lossless {
			left += highest
		}
	}
	// The latest trials are the closest to the capacity: they rule most out.
	for i := len(trials) - 1; i >= 0; i-- {
		if !trials[i].lossless {
			left -= highest
		}
		for j, x := range h.likelihood(&trials[i]) {
			product[j] *= x + impossible
		}
		if i%4 != 0 { // four factors cannot leave the range of numbers
			continue
		}
		for j := range odds {
			sum[j], product[j] = sum[j]+math.Log(product[j]), 1
		}
		if slices.Max(sum[:])+left < least-negligible {
			return math.Inf(-1)
		}
	}
	most := slices.Max(sum[:])
	var total float64
	for _, x := range sum {
		total += math.Exp(x - most)
	}
	return most + math.Log(total)
}

// normalize turns logarithms into weights of 1 together, without those that weigh nothing.
func (b *belief) normalize() {
	most := math.Inf(-1)
	for _, h := range b.all {
		most = max(most, h.weight)
	}
	kept := b.all[:0]
	for _, h := range b.all {
		if h.weight = math.Exp(h.weight - most); h.weight > 1e-8 {
			kept = append(kept, h)
		}
	}
	b.all = kept
	slices.SortFunc(b.all, func(x, y hypothesis) int {
		if x.capacity != y.capacity {
			return cmp.Compare(x.capacity, y.capacity)
		}
		return cmp.Or(cmp.Compare(x.buffer, y.buffer), cmp.Compare(x.collapse, y.collapse),
			cmp.Compare(x.sigma, y.sigma), cmp.Compare(x.other, y.other))
	})
	var sum float64 // in this order, for they come in any, and the last digit would depend on it
	for _, h := range b.all {
		sum += h.weight
	}
	for i := range b.all {
		b.all[i].weight /= sum
	}
}

func square(x float64) float64 { return x * x }

// quantile is the capacity that q of the weight does not exceed.
func (b belief) quantile(q float64) float64 {
	var sum float64
	for _, h := range b.all {
		if sum += h.weight; sum >= q {
			return h.capacity
		}
	}
	return b.all[len(b.all)-1].capacity
}

// mean is the weighted mean of something of the hypotheses.
func (b belief) mean(of func(hypothesis) float64) float64 {
	var sum float64
	for _, h := range b.all {
		sum += h.weight * of(h)
	}
	return sum
}
