package measure

import "math"

// exactLimit is the sample size up to which the null distributions are counted out; beyond it the normal distribution
// is as good.
const exactLimit = 40

// uDistribution returns P(U = u) for u = 0 … n·m of the Mann–Whitney statistic of two samples of sizes n and m without
// ties: the number of partitions of u into at most n parts of at most m, over C(n+m, n).
func uDistribution(n, m int) []float64 {
	// ways[i][u] is f(i, j, u) for the j reached; f(i, j, u) = f(i−1, j, u−j) + f(i, j−1, u). Only sums of positive
	// numbers: the tails keep their precision.
	ways := make([][]float64, n+1)
	for i := range ways {
		ways[i] = make([]float64, n*m+1)
		ways[i][0] = 1
	}
	for j := 1; j <= m; j++ {
		for i := 1; i <= n; i++ {
			for u := j; u <= i*j; u++ {
				ways[i][u] += ways[i-1][u-j]
			}
		}
	}
	return normalised(ways[n])
}

// signedRankDistribution returns P(W = w) for w = 0 … n(n+1)/2 of the Wilcoxon signed-rank statistic: the number of
// subsets of 1 … n with sum w, over 2^n.
func signedRankDistribution(n int) []float64 {
	ways := make([]float64, n*(n+1)/2+1)
	ways[0] = 1
	for rank := 1; rank <= n; rank++ {
		for w := len(ways) - 1; w >= rank; w-- {
			ways[w] += ways[w-rank]
		}
	}
	return normalised(ways)
}

func normalised(ways []float64) []float64 {
	var sum float64
	for _, w := range ways {
		sum += w
	}
	for i := range ways {
		ways[i] /= sum
	}
	return ways
}

// criticalRank is the largest k for which the interval from the k-th smallest to the k-th largest of the sorted
// pairwise values has at least the wanted confidence, and the confidence it has; k is 0 when even the whole range has
// less (its confidence is returned then). The distribution is that of the statistic under the null hypothesis,
// symmetric.
func criticalRank(distribution []float64, wanted float64) (k int, level float64) {
	below := 0.0 // P(statistic < k)
	for k < len(distribution)/2 {
		next := below + distribution[k]
		if 1-2*next < wanted {
			break
		}
		below, level = next, 1-2*next
		k++
	}
	if k == 0 {
		return 0, math.Max(0, 1-2*distribution[0])
	}
	return k, level
}

// criticalRankNormal is criticalRank for large samples, from the statistic's mean and variance.
func criticalRankNormal(mean, variance, wanted float64, count int) (k int, level float64) {
	z := math.Sqrt2 * math.Erfinv(wanted)
	k = max(1, min(int(math.Floor(mean-z*math.Sqrt(variance))), (count+1)/2))
	return k, wanted
}
