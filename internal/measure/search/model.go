package search

import (
	"cmp"
	"math"
	"slices"
)

// hypothesis is a possible device. The rate that it forwards in one second is normally distributed around its capacity,
// which is that of a typical second.
type hypothesis struct {
	capacity float64 // packets per second
	buffer   float64 // in seconds of its capacity
	collapse float64 // drop of the forwarded rate for each packet above the capacity
	sigma    float64 // standard deviation of a second's capacity, relative
	other    float64 // capacity of atypical seconds, packets per second; 0: any

	weight float64 // sums to 1 over all hypotheses
}

// The noise levels considered, and the shares of atypical seconds (a stall, another state), each with its prior weight.
var (
	sigmas = []struct{ sigma, prior float64 }{{1e-4, 0.25}, {3e-4, 0.15}, {1e-3, 0.2}, {2e-3, 0.1}, {4e-3, 0.1},
		{1e-2, 0.1}, {3e-2, 0.06}, {1e-1, 0.04}}
	odds = [...]struct{ share, prior float64 }{{0.01, 0.4}, {0.05, 0.3}, {0.15, 0.2}, {0.35, 0.1}}
)

const (
	// slack is the relative precision beyond which no trial is trusted: that of clocks, counters and the model itself.
	slack = 1.5e-4
	// oddDensity is the density of the rate that a trial with odd seconds forwards, per relative unit: uniform over a
	// quarter.
	oddDensity = 2.0
	// oddLossless is the chance that a trial with odd seconds loses nothing.
	oddLossless = 0.3
	// Priors of the families with a buffer, with a collapse (the rest has neither), and of odd seconds that are all
	// alike.
	priorBuffer, priorCollapse, priorOther = 0.2, 0.1, 0.3
	// priorMore is the prior of odd seconds that carry more than typical ones, relative to those that carry less.
	priorMore = 0.2
	// Hypotheses lie on lattices of this step and reach, in standard deviations of a second.
	step, reach = 0.25, 5
)

// seen is a trial as the model sees it.
type seen struct {
	load, rate, seconds float64
	lossless            bool
	odd                 [len(odds)][]float64 // chances of each number of odd seconds
}

func newSeen(t Tried) seen {
	s := seen{load: t.load(), rate: t.rate(), seconds: t.Outcome.Seconds, lossless: t.lossless()}
	s.weigh()
	return s
}

// weigh computes the chances of each number of odd seconds: half assuming that seconds are odd independently (stalls),
// half that the whole trial is (lasting states).
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

// forwards predicts a trial without odd seconds: the chance to lose nothing, and otherwise the mean rate and its
// variance.
func (h hypothesis) forwards(load, seconds float64) (lossless, mean, variance float64) {
	c, s := h.capacity, h.capacity*h.sigma
	if h.buffer > 0 {
		mean, variance = c*(1+h.buffer/seconds), s*s/seconds
		return cdf((mean - load) / math.Sqrt(variance+slack*slack*c*c)), mean, variance
	}
	carried := c - h.collapse*max(0, load-c)
	z := (load - carried) / s
	switch {
	case z > 6: // far above: every second loses
		return 0, carried, s * s / seconds
	case z < -9: // far below: no second does, within numerical precision
		return 1, load, 0
	}
	// A second loses what exceeds its own capacity, so some seconds lose at loads just below the typical capacity.
	phi, pdf := cdf(z), density(z)
	short := z*phi + pdf
	return math.Pow(cdf(-z), seconds), load - s*short, s * s * max(0, (z*z+1)*phi+z*pdf-short*short) / seconds
}

// likelihood returns the likelihood of a trial for each share of odd seconds: the chance to lose nothing, or the
// density of the rate that came through, per relative unit of capacity.
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
				through = lossless // chance that neither odd nor other seconds lose anything
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

// density and cdf are those of the standard normal distribution. Values far below impossible become 0.
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

// impossible is the likelihood of a trial that a hypothesis rules out: no hypothesis is dropped for a single trial.
const impossible = 1e-60

// belief is what the trials say about a device: hypotheses with their weights, sorted by capacity.
type belief struct {
	all []hypothesis
}

// believe weighs the hypotheses that any of the trials suggests.
func believe(trials []Tried) belief {
	all := make([]seen, len(trials))
	for i, t := range trials {
		all[i] = newSeen(t)
	}
	var centres []hypothesis
	devices, best := candidates(all), math.Inf(-1)
	for _, n := range sigmas {
		for _, h := range devices {
			h.sigma = n.sigma
			for _, h.other = range oddCapacities(all, h) {
				h.weight = h.logLikelihood(all, best)
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
		if l := h.logLikelihood(all, best); !math.IsInf(l, -1) {
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

// negligible is how far below the best a log likelihood has no weight.
const negligible = 25

// logLikelihood returns the log likelihood of all trials. It stops early, with −Inf, if that is clearly below least.
func (h hypothesis) logLikelihood(trials []seen, least float64) float64 {
	var sum, product [len(odds)]float64
	for i := range odds {
		product[i] = odds[i].prior
	}
	// No trial adds more than the logarithm of its highest density, and a lossless trial adds nothing.
	highest, left := max(0, -math.Log(math.Sqrt(square(h.sigma/2)+slack*slack)*math.Sqrt(2*math.Pi))), 0.0
	for i := range trials {
		if !trials[i].lossless {
			left += highest
		}
	}
	// The latest trials are closest to the capacity and rule out most.
	for i := len(trials) - 1; i >= 0; i-- {
		if !trials[i].lossless {
			left -= highest
		}
		for j, x := range h.likelihood(&trials[i]) {
			product[j] *= x + impossible
		}
		if i%4 != 0 { // four factors cannot under- or overflow
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

// normalize turns logarithms into weights that sum to 1, and drops negligible ones.
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
		return cmp.Or(cmp.Compare(x.capacity, y.capacity), cmp.Compare(x.buffer, y.buffer),
			cmp.Compare(x.collapse, y.collapse), cmp.Compare(x.sigma, y.sigma), cmp.Compare(x.other, y.other))
	})
	var sum float64 // in sorted order: the last digit depends on the order
	for _, h := range b.all {
		sum += h.weight
	}
	for i := range b.all {
		b.all[i].weight /= sum
	}
}

func square(x float64) float64 { return x * x }

// quantile returns the capacity that a share q of the weight does not exceed.
func (b belief) quantile(q float64) float64 {
	var sum float64
	for _, h := range b.all {
		if sum += h.weight; sum >= q {
			return h.capacity
		}
	}
	return b.all[len(b.all)-1].capacity
}

// mean returns the weighted mean of a property of the hypotheses.
func (b belief) mean(of func(hypothesis) float64) float64 {
	var sum float64
	for _, h := range b.all {
		sum += h.weight * of(h)
	}
	return sum
}
