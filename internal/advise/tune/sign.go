package tune

import (
	"math"
	"slices"
)

// Sign tells gains from chance in pairs of trials whose order is by lot. Where a change does nothing, the lot alone
// decides which of the two trials next to each other is the faster one, whatever the machine does meanwhile: noise of
// any form, drift, stalls. So whoever stakes a share of his money on the change in every pair wins nothing in the mean,
// and that he ever multiplies his stake by 1/α has a chance of no more than α, however often one looks and whenever one
// stops (Ville's inequality; the money is an e-value: Shafer, Testing by betting, 2021). What counts is by how much the
// change is ahead of the least gain that counts. The share that is staked may depend on how far the two trials are
// apart, which the lot does not decide; it grows with that, so that a gain smaller than the least one loses money too.
type Sign struct {
	Least float64   // gain that counts at the least, relative: 0.01 is 1 %
	logs  []float64 // of after/before, by pair
}

// stakes are the shares of the money that are staked at the most, and how it is divided among them at the beginning.
// Bold stakes win soon where every pair is won, cautious ones where some are lost.
var stakes = []struct{ share, part float64 }{{0.9, 0.5}, {0.6, 0.3}, {0.3, 0.2}}

// money is by how much who bets that the ratio is more than one, given as its logarithm, or less, has multiplied his
// money after each pair.
func money(logs []float64, than float64, more bool) []float64 {
	var have [3]float64
	for i, s := range stakes {
		have[i] = s.part
	}
	all := make([]float64, len(logs))
	apart := make([]float64, 0, len(logs)) // of the pairs so far, sorted
	for n, log := range logs {
		ahead := log - than
		if !more {
			ahead = -ahead
		}
		distance := math.Abs(ahead)
		boldness := 1.0
		if len(apart) > 1 {
			if usual := apart[len(apart)/2]; usual > 0 {
				boldness = min(1, distance/(1.5*usual))
			}
		}
		if ahead == 0 {
			boldness = 0
		}
		for i, s := range stakes {
			have[i] *= 1 + math.Copysign(s.share*boldness, ahead)
			all[n] += have[i]
		}
		at, _ := slices.BinarySearch(apart, distance)
		apart = slices.Insert(apart, at, distance)
	}
	return all
}

// Add takes a pair in. Values are rates: the more the better. What is 0 or less counts as hardly anything.
func (s *Sign) Add(before, after float64) {
	const hardly = 1e-3
	s.logs = append(s.logs, math.Log(max(after, hardly)/max(before, hardly)))
}

// Pairs is how many pairs there are.
func (s *Sign) Pairs() int { return len(s.logs) }

// Gain is the money of who bets that the change gains more than the least that counts.
func (s *Sign) Gain() float64 { return s.now(true) }

// Futile is the money of who bets against that.
func (s *Sign) Futile() float64 { return s.now(false) }

func (s *Sign) now(more bool) float64 {
	if len(s.logs) == 0 {
		return 1
	}
	return money(s.logs, math.Log1p(s.Least), more)[len(s.logs)-1]
}

// Slower counts the pairs in which the change was behind.
func (s *Sign) Slower() (n int) {
	for _, log := range s.logs {
		if log < 0 {
			n++
		}
	}
	return n
}

// Reach is what Gain could be at the most after so many pairs in all.
func (s *Sign) Reach(pairs int) float64 {
	return s.Gain() * math.Pow(1+stakes[0].share, float64(max(0, pairs-len(s.logs))))
}

// Ratio is the median of after/before over the pairs; 0 where there are none.
func (s *Sign) Ratio() float64 {
	if len(s.logs) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s.logs))
	n := len(sorted)
	return math.Exp((sorted[(n-1)/2] + sorted[n/2]) / 2)
}

// Interval are the ratios against which nobody would have won his stake 2/(1−level) times at any time: it holds with
// that confidence whenever one stops. A bound that so few pairs do not give is 0.
func (s *Sign) Interval(level float64) (lo, hi float64) {
	if len(s.logs) == 0 {
		return 0, 0
	}
	middle := math.Log(s.Ratio())
	bound := func(more bool) float64 {
		won, not := middle-math.Ln10, middle // a tenth of the ratio, or ten times as much
		if !more {
			won = middle + math.Ln10
		}
		if !s.everWon(won, 2/(1-level), more) {
			return 0
		}
		for range 40 {
			if at := (won + not) / 2; s.everWon(at, 2/(1-level), more) {
				won = at
			} else {
				not = at
			}
		}
		return math.Exp(won)
	}
	return bound(true), bound(false)
}

// everWon reports whether a bet on more than a log ratio, or on less, was won at some time.
func (s *Sign) everWon(log, need float64, more bool) bool {
	return slices.Max(money(s.logs, log, more)) >= need
}

// spend is the share of alpha that the n-th test of a run gets, from 1, after so many others were kept: one half is
// divided evenly among as many tests as were expected, the other favours the first, which are the likeliest to help;
// all add up to no more than alpha. Each that was kept adds a share, so that of what is kept no more than a share alpha
// does not help, in the mean (e-LOND: Xu and Ramdas, Online multiple testing with e-values, 2024); where nothing helps,
// the chance to keep anything is no more than alpha.
func spend(alpha float64, n, expected, kept int) float64 {
	share := 0.5 / float64(n*(n+1))
	if n <= expected {
		share += 0.5 / float64(expected)
	}
	return alpha * share * float64(kept+1)
}
