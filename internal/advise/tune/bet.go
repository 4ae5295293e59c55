package tune

import (
	"math"
	"slices"
)

// Bet is a sequential test of paired trials in random order. A bettor stakes a part of his wealth on the change in
// every pair. If the change does nothing, he gains nothing in expectation, and the probability that his wealth ever
// reaches 1/α is at most α, however often one looks and whenever one stops (Ville's inequality; the wealth is an
// e-value: Shafer, Testing by betting, 2021; Waudby-Smith and Ramdas, Estimating means of bounded random variables by
// betting, 2024).
//
// The wealth is divided between two kinds of bets on the log ratio of a pair minus the least gain that counts. The
// first is on its sign alone: if a change has no effect, only the random order decides which of two trials is faster,
// whatever the noise. The second also counts its size, in units of a scale and cut at mostUnits, so that a stall counts
// no more than that. It is fair if trials of one configuration differ by less than the scale on average.
type Bet struct {
	Least  float64   // least gain that counts, relative: 0.01 is 1 %
	logs   []float64 // logarithms of after/before, by pair
	scales []float64 // of the noise, known before each pair
}

// mostUnits bounds the size of one pair, in scales. A pair multiplies the wealth by less than 1+mostUnits, so that no
// gain is shown by fewer than four pairs.
const mostUnits = 2

// stakes are the largest parts of the wealth that are staked, each with its share of the initial wealth. Large stakes
// win early if every pair is won, small ones if some are lost.
var stakes = []struct {
	stake, share float64
	sized        bool // counts the size, not the sign alone
}{{0.97, 0.5, true}, {0.9, 0.2, false}, {0.6, 0.18, false}, {0.3, 0.12, false}}

// paySize is what a bet on the size of a difference pays per stake; units is that size in scales, negative if the
// change is behind. The payments for x and −x add up to min(|x|, mostUnits)−1, so the bet is fair if the mean of
// min(|x|, mostUnits) is 1, and loses otherwise.
func paySize(units float64) float64 {
	switch {
	case units >= 1:
		return min(units, mostUnits)
	case units >= 0:
		return (3*units - 1) / 2
	}
	return -(1 + min(-units, 1)) / 2
}

// paySign is what a bet on the sign pays per stake: all of it from half a scale on, and in proportion below.
func paySign(units float64) float64 { return max(-1, min(2*units, 1)) }

// wealths returns, after each pair, the e-value of the bet that the log ratio is above a bound, or below it.
func (b *Bet) wealths(bound float64, above bool) []float64 {
	all := make([]float64, len(b.logs))
	var wealth [4]float64
	for n, log := range b.logs {
		units := (log - bound) / b.scales[n]
		if !above {
			units = -units
		}
		for i, s := range stakes {
			pay := paySign
			if s.sized {
				pay = paySize
			}
			if n == 0 {
				wealth[i] = s.share
			}
			wealth[i] *= 1 + s.stake*pay(units)
			all[n] += wealth[i]
		}
	}
	return all
}

// Add adds a pair of rates, of which the higher is the better, and the scale of the noise. Rates below 0.001, zero
// among them, count as 0.001.
func (b *Bet) Add(before, after, scale float64) {
	b.logs = append(b.logs, logRatio(before, after))
	b.scales = append(b.scales, scale)
}

func logRatio(before, after float64) float64 {
	const least = 1e-3
	return math.Log(max(after, least) / max(before, least))
}

// Pairs is the number of pairs.
func (b *Bet) Pairs() int { return len(b.logs) }

// Gain is the e-value of the bet that the change gains more than the least gain that counts.
func (b *Bet) Gain() float64 { return b.eValue(true) }

// Futile is the e-value of the opposite bet.
func (b *Bet) Futile() float64 { return b.eValue(false) }

func (b *Bet) eValue(above bool) float64 {
	if len(b.logs) == 0 {
		return 1
	}
	return b.wealths(math.Log1p(b.Least), above)[len(b.logs)-1]
}

// Slower is the number of pairs in which the change was slower.
func (b *Bet) Slower() (n int) {
	for _, log := range b.logs {
		if log < 0 {
			n++
		}
	}
	return n
}

// Reach is the largest Gain that can be expected after so many pairs in total: all to come are like the best so far.
func (b *Bet) Reach(pairs int) float64 {
	if len(b.logs) == 0 {
		return math.Inf(1)
	}
	more := Bet{Least: b.Least, logs: slices.Clone(b.logs), scales: slices.Clone(b.scales)}
	best, scale := slices.Max(b.logs), b.scales[len(b.scales)-1]
	for len(more.logs) < pairs {
		more.logs, more.scales = append(more.logs, best), append(more.scales, scale)
	}
	return more.Gain()
}

// Ratio is the median of after/before over the pairs, or 0 without pairs.
func (b *Bet) Ratio() float64 {
	if len(b.logs) == 0 {
		return 0
	}
	return math.Exp(median(b.logs))
}

// Interval returns the ratios against which no bet ever reached an e-value of 2/(1−level): a confidence interval that
// is valid whenever one stops. A bound that needs more pairs is 0.
func (b *Bet) Interval(level float64) (lo, hi float64) {
	return b.bound(true, 2/(1-level)), b.bound(false, 2/(1-level))
}

// AtMost is an upper bound of the ratio: a bet that the true ratio is below it has reached this e-value. 0: none yet.
func (b *Bet) AtMost(eValue float64) float64 { return b.bound(false, eValue) }

// bound returns the ratio nearest to the median for which the bet that the true ratio is above it, or below it, has
// reached an e-value after some pair. It is found by bisection: the farther the ratio is from the median, the more
// every pair pays. 0: none within a factor of ten.
func (b *Bet) bound(above bool, needed float64) float64 {
	if len(b.logs) == 0 {
		return 0
	}
	not := median(b.logs)
	won := not - math.Ln10
	if !above {
		won = not + math.Ln10
	}
	everWon := func(bound float64) bool { return slices.Max(b.wealths(bound, above)) >= needed }
	if !everWon(won) {
		return 0
	}
	for range 40 {
		if at := (won + not) / 2; everWon(at) {
			won = at
		} else {
			not = at
		}
	}
	return math.Exp(won)
}

// Noise is how far apart trials of the same configuration are, as seen so far.
type Noise struct {
	logs []float64 // |log ratio| of two trials, the latest last
}

// Bounds of the noise.
const (
	expectedNoise = 0.05 // assumed distance, which counts like two that were measured
	keptNoise     = 40   // number of latest distances that count
	lateNoise     = 8    // the latest of these, whose scale counts if it is larger: a machine may become noisier
	scaledMean    = 0.5  // mean of min(|x|, mostUnits) at the scale; a bet on sizes is fair up to 1
)

// Add adds two trials of the same configuration.
func (n *Noise) Add(a, b float64) { n.logs = append(n.logs, math.Abs(logRatio(a, b))) }

// Scale is the scale for bets: in units of it, the distances seen so far have a mean of scaledMean.
func (n *Noise) Scale() float64 {
	all := n.logs[max(0, len(n.logs)-keptNoise):]
	late := all[max(0, len(all)-lateNoise):]
	expected := []float64{expectedNoise, expectedNoise}
	return max(scaleOf(slices.Concat(expected, all)), scaleOf(slices.Concat(expected, late)))
}

// scaleOf solves for the scale by bisection.
func scaleOf(logs []float64) float64 {
	low, high := 0.0, slices.Max(logs)/scaledMean
	for range 40 {
		at, sum := (low+high)/2, 0.0
		for _, log := range logs {
			sum += min(log/at, mostUnits)
		}
		if sum > scaledMean*float64(len(logs)) {
			low = at
		} else {
			high = at
		}
	}
	return high
}

// Provable is the least ratio that so many pairs prove at a scale of the noise, if all of them show it; +Inf: none.
func Provable(pairs int, scale, least, needed float64) float64 {
	shown := func(log float64) bool {
		b := Bet{Least: least}
		for range pairs {
			b.logs, b.scales = append(b.logs, log), append(b.scales, scale)
		}
		return b.Gain() >= needed
	}
	low, high := 0.0, math.Log1p(least)+mostUnits*scale
	if !shown(high) {
		return math.Inf(1)
	}
	for range 40 {
		if at := (low + high) / 2; shown(at) {
			high = at
		} else {
			low = at
		}
	}
	return math.Exp(high)
}

// spend is the part of alpha that the n-th test of a run gets, counted from 1, after so many earlier ones were kept.
// Half of alpha is for the first test, of the whole plan. A quarter is divided evenly among the expected number of
// further tests, and a quarter favours the first of them, which are the most likely to help. Together they never exceed
// alpha. Each candidate that was kept adds a part, so that in expectation at most a share alpha of what is kept does
// not help (e-LOND: Xu and Ramdas, Online multiple testing with e-values, 2024). If nothing helps, the probability of
// keeping anything is at most alpha.
func spend(alpha float64, n, expected, kept int) float64 {
	share := 0.5
	if n > 1 {
		share = 0.25 / float64(n*(n-1))
		if n <= expected+1 {
			share += 0.25 / float64(expected)
		}
	}
	return alpha * share * float64(kept+1)
}
