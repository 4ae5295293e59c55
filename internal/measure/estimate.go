package measure

import (
	"math"
	"slices"
)

// Level is the confidence level of intervals, 0–1.
const Level = 0.95

// Estimate is a median with its confidence interval.
type Estimate struct {
	Value float64 `json:"value"`
	Lo    float64 `json:"lo"`
	Hi    float64 `json:"hi"`
	// Level is the actual confidence of [Lo, Hi], 0–1. Order statistics come in steps, so it exceeds the constant Level
	// if N is large enough and falls short otherwise: 95 % takes at least six samples.
	Level float64 `json:"level"`
	N     int     `json:"n"`
	Unit  string  `json:"unit,omitempty"`
}

// Median estimates the median of the population behind the values: the sample median, with the interval between two
// order statistics whose ranks come from the binomial distribution (Conover, Practical Nonparametric Statistics, 3rd
// ed., section 3.2). It assumes that the values are independent and nothing about their distribution. With too few
// values for the level, the interval is the whole range, at its own confidence. Without values it returns the zero
// Estimate.
func Median(values []float64) Estimate { return MedianAt(values, Level) }

// MedianAt is Median with an interval of confidence wanted, 0–1.
func MedianAt(values []float64, wanted float64) Estimate {
	n := len(values)
	if n == 0 {
		return Estimate{}
	}
	sorted := slices.Sorted(slices.Values(values))
	k, level := medianRank(n, wanted)
	return Estimate{Value: middle(sorted), Lo: sorted[k-1], Hi: sorted[n-k], Level: level, N: n}
}

// middle returns the median of sorted values.
func middle(sorted []float64) float64 {
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// medianRank returns the largest rank k ≥ 1 for which the interval from the k-th smallest to the k-th largest of n
// values covers the median with the wanted confidence, and its actual confidence.
func medianRank(n int, wanted float64) (k int, level float64) {
	outside := 0.0 // P(fewer than k of n values lie below the median)
	logChoose := 0.0
	for k = 1; 2*k <= n+1; k++ {
		outside += math.Exp(logChoose - float64(n)*math.Ln2) // C(n, k−1) / 2^n
		if 1-2*outside < wanted {
			break
		}
		level = 1 - 2*outside
		logChoose += math.Log(float64(n-k+1)) - math.Log(float64(k))
	}
	if k == 1 { // not even the whole range is enough
		return 1, math.Max(0, 1-2*outside)
	}
	return k - 1, level
}
