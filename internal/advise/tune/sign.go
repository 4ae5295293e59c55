package tune

import (
	"math"
	"slices"
)

// Sign is a sequential test of paired trials in random order, by betting. If a change has no effect, only the random
// order decides which of two adjacent trials is faster, whatever the machine does meanwhile: noise of any distribution,
// drift, stalls. A bettor who stakes a fraction of his wealth on the change in every pair then gains nothing in
// expectation, and the probability that his wealth ever reaches 1/α is at most α, no matter how often one looks or when
// one stops (Ville's inequality; the wealth is an e-value: Shafer, Testing by betting, 2021). A pair is won if the
// change is ahead by more than the least gain that counts. The stake may depend on the distance between the two trials,
// which the order does not decide; it grows with the distance, so a gain below the least one loses wealth too.
type Sign struct {
	Least float64   // least gain that counts, relative: 0.01 is 1 %
	logs  []float64 // logarithms of after/before, by pair
}

// stakes are the largest fractions of the wealth that are staked, each with its part of the initial wealth. Large
// stakes win early if every pair is won, small ones if some are lost.
var stakes = []struct{ share, part float64 }{{0.9, 0.5}, {0.6, 0.3}, {0.3, 0.2}}

// eValues returns, after each pair, the e-value of the bet that the log ratio is above a bound, or below it.
func eValues(logs []float64, bound float64, above bool) []float64 {
	var wealth [3]float64
	for i, s := range stakes {
		wealth[i] = s.part
	}
	all := make([]float64, len(logs))
	distances := make([]float64, 0, len(logs)) // of the pairs so far, sorted
	for n, log := range logs {
		ahead := log - bound
		if !above {
			ahead = -ahead
		}
		distance := math.Abs(ahead)
		fraction := 1.0
		if len(distances) > 1 {
			if median := distances[len(distances)/2]; median > 0 {
				fraction = min(1, distance/(1.5*median))
			}
		}
		if ahead == 0 {
			fraction = 0
		}
		for i, s := range stakes {
			wealth[i] *= 1 + math.Copysign(s.share*fraction, ahead)
			all[n] += wealth[i]
		}
		at, _ := slices.BinarySearch(distances, distance)
		distances = slices.Insert(distances, at, distance)
	}
	return all
}

// Add adds a pair of rates, of which the higher is the better. Rates below 0.001, zero among them, count as 0.001.
func (s *Sign) Add(before, after float64) {
	const least = 1e-3
	s.logs = append(s.logs, math.Log(max(after, least)/max(before, least)))
}

// Pairs is the number of pairs.
func (s *Sign) Pairs() int { return len(s.logs) }

// Gain is the e-value of the bet that the change gains more than the least gain that counts.
func (s *Sign) Gain() float64 { return s.eValue(true) }

// Futile is the e-value of the opposite bet.
func (s *Sign) Futile() float64 { return s.eValue(false) }

func (s *Sign) eValue(above bool) float64 {
	if len(s.logs) == 0 {
		return 1
	}
	return eValues(s.logs, math.Log1p(s.Least), above)[len(s.logs)-1]
}

// Slower is the number of pairs in which the change was slower.
func (s *Sign) Slower() (n int) {
	for _, log := range s.logs {
		if log < 0 {
			n++
		}
	}
	return n
}

// Reach is the largest Gain that is still possible after so many pairs in total.
func (s *Sign) Reach(pairs int) float64 {
	return s.Gain() * math.Pow(1+stakes[0].share, float64(max(0, pairs-len(s.logs))))
}

// Ratio is the median of after/before over the pairs, or 0 without pairs.
func (s *Sign) Ratio() float64 {
	if len(s.logs) == 0 {
		return 0
	}
	return math.Exp(median(s.logs))
}

// Interval returns the ratios against which no bet ever reached an e-value of 2/(1−level): a confidence interval that
// is valid whenever one stops. A bound that needs more pairs is 0.
func (s *Sign) Interval(level float64) (lo, hi float64) {
	if len(s.logs) == 0 {
		return 0, 0
	}
	middle := math.Log(s.Ratio())
	bound := func(above bool) float64 {
		won, not := middle-math.Ln10, middle // a tenth of the ratio, or ten times the ratio
		if !above {
			won = middle + math.Ln10
		}
		if !s.everWon(won, 2/(1-level), above) {
			return 0
		}
		for range 40 {
			if at := (won + not) / 2; s.everWon(at, 2/(1-level), above) {
				won = at
			} else {
				not = at
			}
		}
		return math.Exp(won)
	}
	return bound(true), bound(false)
}

// everWon reports whether a bet that the log ratio is above a bound, or below it, ever reached the e-value needed.
func (s *Sign) everWon(bound, needed float64, above bool) bool {
	return slices.Max(eValues(s.logs, bound, above)) >= needed
}

// spend is the part of alpha that the n-th test of a run gets, counted from 1, after so many earlier ones were kept.
// One half of alpha is divided evenly among the expected number of tests; the other half favours the first tests, which
// are the most likely to help. Together they never exceed alpha. Each candidate that was kept adds a part, so that in
// expectation at most a share alpha of what is kept does not help (e-LOND: Xu and Ramdas, Online multiple testing with
// e-values, 2024). If nothing helps, the probability of keeping anything is at most alpha.
func spend(alpha float64, n, expected, kept int) float64 {
	share := 0.5 / float64(n*(n+1))
	if n <= expected {
		share += 0.5 / float64(expected)
	}
	return alpha * share * float64(kept+1)
}
