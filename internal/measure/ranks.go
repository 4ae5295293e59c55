package measure

import "math"

// exactLimit is the sample size up to which null distributions are enumerated; beyond it the normal approximation is as
// good.
const exactLimit = 40

// uDistribution returns P(U = u) for u = 0 … n·m of the Mann–Whitney statistic of two samples of sizes n and m without
// ties: the number of partitions of u into at most n parts of at most m, over C(n+m, n).
func uDistribution(n, m int) []float64 {
	// ways[i][u] is f(i, j, u) for the current j; f(i, j, u) = f(i−1, j, u−j) + f(i, j−1, u). All terms are positive,
	// so the tails keep their precision.
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
	return normalise(ways[n])
}

// signedRankDistribution returns P(W = w) for w = 0 … n(n+1)/2 of the Wilcoxon signed-rank statistic without ties.
func signedRankDistribution(n int) []float64 {
	ranks := make([]int, n)
	for i := range ranks {
		ranks[i] = i + 1
	}
	return subsetSums(ranks)
}

// subsetSums returns the share of all subsets of ranks that add up to w, for w from 0 to the sum of all ranks.
func subsetSums(ranks []int) []float64 {
	total := 0
	for _, rank := range ranks {
		total += rank
	}
	ways := make([]float64, total+1)
	ways[0] = 1
	for _, rank := range ranks {
		for w := total; w >= rank; w-- {
			ways[w] += ways[w-rank]
		}
	}
	return normalise(ways)
}

func normalise(ways []float64) []float64 {
	var sum float64
	for _, w := range ways {
		sum += w
	}
	for i := range ways {
		ways[i] /= sum
	}
	return ways
}

// criticalRank returns the largest k for which the interval from the k-th smallest to the k-th largest of the sorted
// pairwise values has at least the wanted confidence, and its actual confidence. If even the whole range has less, k is
// 0 and the confidence that of the range. distribution is the null distribution of the statistic, which is symmetric.
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
