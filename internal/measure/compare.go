package measure

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

// Alpha is the significance level of comparisons: the probability of calling two equal things different.
const Alpha = 1 - Level

// Same is the verdict "no significant difference".
const Same = "~"

// Comparison answers "did it change, and by how much?".
type Comparison struct {
	Before Estimate `json:"before"`
	After  Estimate `json:"after"`
	// Ratio is after/before: the Hodges–Lehmann estimate on logarithms, with its interval. N is 0 if there is no ratio,
	// because a value was 0.
	Ratio       Estimate  `json:"ratio"`
	P           float64   `json:"p"`
	Test        string    `json:"test"` // "mann-whitney" or "signed-rank"
	Significant bool      `json:"significant"`
	Warnings    []Warning `json:"warnings,omitempty"`
}

// String returns the ratio for people: "×14.2 [12.9, 15.1]", or "~".
func (c Comparison) String() string {
	switch {
	case !c.Significant:
		return Same
	case c.Ratio.N == 0:
		return fmt.Sprintf("%.4g → %.4g", c.Before.Value, c.After.Value)
	}
	return fmt.Sprintf("×%.3g [%.3g, %.3g]", c.Ratio.Value, c.Ratio.Lo, c.Ratio.Hi)
}

// Compare compares two samples of independent values by the Mann–Whitney U test, which is exact for small samples, ties
// included. If the samples were taken one after the other, drift in between is part of the difference: where both
// configurations can be measured at will, use Interleave and CompareBlocks.
func Compare(before, after []float64) Comparison {
	c := Comparison{Before: Median(before), After: Median(after), Test: "mann-whitney", P: 1}
	few := min(len(before), len(after))
	if few == 0 || len(before) < 4 && len(after) < 4 {
		c.Warnings = append(c.Warnings, fewSamples(few))
	}
	if few == 0 {
		return c
	}
	thresholds := benchmath.DefaultThresholds
	thresholds.CompareAlpha = Alpha
	// NewSample sorts in place.
	result := benchmath.AssumeNothing.Compare(
		benchmath.NewSample(slices.Clone(before), &thresholds), benchmath.NewSample(slices.Clone(after), &thresholds))
	c.P = result.P
	c.Significant = c.P <= Alpha
	c.Ratio = shift(before, after)
	return c
}

// Block is one block of an interleaved comparison: the values of both sides, measured close together.
type Block struct {
	A []float64 `json:"a"`
	B []float64 `json:"b"`
}

// minBlocks is the fewest blocks with which a signed-rank test can reach Alpha: 2 / 2^6 = 0.031.
const minBlocks = 6

// CompareBlocks compares the sides of interleaved blocks, B against A. With minBlocks or more, each block gives one
// ratio, in which slow drift cancels out, and the Wilcoxon signed-rank test compares them. With fewer it compares the
// values by Mann–Whitney, which interleaving only makes more cautious under drift, and adds a warning. The choice
// depends on the number of blocks alone, except that a value of 0 has no ratio and also leads to Mann–Whitney.
func CompareBlocks(blocks []Block) Comparison {
	var a, b, ratios []float64
	for _, block := range blocks {
		a, b = append(a, block.A...), append(b, block.B...)
		if ratio, ok := block.logRatio(); ok {
			ratios = append(ratios, ratio)
		}
	}
	if len(blocks) < minBlocks {
		c := Compare(a, b)
		if len(blocks) > 0 {
			c.Warnings = append(c.Warnings, Warning{
				Code: "few-blocks", Text: fmt.Sprintf("%d blocks are too few for a test of their ratios: "+
					"the trials are compared as if independent, and a disturbance in step with the turns could pass "+
					"for a difference", len(blocks)),
				Hint: fmt.Sprintf("use --blocks %d or more", minBlocks),
			})
		}
		return c
	}
	if len(ratios) < len(blocks) {
		return Compare(a, b)
	}
	c := Comparison{Before: Median(a), After: Median(b), Test: "signed-rank"}
	c.P = signedRankP(ratios)
	c.Significant = c.P <= Alpha
	c.Ratio = walsh(ratios)
	return c
}

func (b Block) logRatio() (float64, bool) {
	meanA, okA := meanLog(b.A)
	meanB, okB := meanLog(b.B)
	return meanB - meanA, okA && okB
}

func meanLog(values []float64) (float64, bool) {
	var sum float64
	for _, v := range values {
		if v <= 0 {
			return 0, false
		}
		sum += math.Log(v)
	}
	return sum / float64(len(values)), len(values) > 0
}

// fewSamples returns the warning that n samples a side are too few to show a difference. Four a side can.
func fewSamples(n int) Warning {
	return Warning{
		Code: "few-samples",
		Text: fmt.Sprintf("%s a side cannot show a difference at the level of %g", samples(n), Alpha),
		Hint: "use --repeat 4 or more on both sides (with --plan: --blocks 2)",
	}
}

func samples(n int) string {
	if n == 1 {
		return "1 sample"
	}
	return fmt.Sprintf("%d samples", n)
}

// shift returns the Hodges–Lehmann estimate of the ratio of two samples, with the interval that inverts the
// Mann–Whitney test (Hollander & Wolfe, Nonparametric Statistical Methods, section 4.2–4.3); the zero Estimate if a
// value is not positive.
func shift(before, after []float64) Estimate {
	n, m := len(before), len(after)
	differences := make([]float64, 0, n*m)
	for _, x := range before {
		for _, y := range after {
			if x <= 0 || y <= 0 {
				return Estimate{}
			}
			differences = append(differences, math.Log(y/x))
		}
	}
	slices.Sort(differences)
	var k int
	var level float64
	if n <= exactLimit && m <= exactLimit {
		k, level = criticalRank(uDistribution(n, m), Level)
	} else {
		nm := float64(n) * float64(m)
		k, level = criticalRankNormal(nm/2, nm*float64(n+m+1)/12, Level, n*m)
	}
	return ratioEstimate(differences, k, level, min(n, m))
}

// walsh returns the Hodges–Lehmann estimate of one sample of log ratios: the median of the means of all pairs, with the
// interval that inverts the signed-rank test (same source, sections 3.2–3.3).
func walsh(ratios []float64) Estimate {
	n := len(ratios)
	means := make([]float64, 0, n*(n+1)/2)
	for i := range ratios {
		for j := i; j < n; j++ {
			means = append(means, (ratios[i]+ratios[j])/2)
		}
	}
	slices.Sort(means)
	var k int
	var level float64
	if n <= exactLimit {
		k, level = criticalRank(signedRankDistribution(n), Level)
	} else {
		nn := float64(n)
		k, level = criticalRankNormal(nn*(nn+1)/4, nn*(nn+1)*(2*nn+1)/24, Level, len(means))
	}
	return ratioEstimate(means, k, level, n)
}

func ratioEstimate(sorted []float64, k int, level float64, n int) Estimate {
	k = max(k, 1) // too few for the level: the whole range, at its own confidence
	return Estimate{
		Value: math.Exp(middle(sorted)), Lo: math.Exp(sorted[k-1]), Hi: math.Exp(sorted[len(sorted)-k]),
		Level: level, N: n, Unit: "ratio",
	}
}

// signedRankP returns the two-sided p value of the Wilcoxon signed-rank test for values symmetric about 0. Zeros keep
// their rank but count for neither side (Pratt's treatment), and tied magnitudes share their mean rank. Up to
// exactLimit values the distribution is enumerated over the actual ranks, so it is exact with ties.
func signedRankP(values []float64) float64 {
	n := len(values)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(math.Abs(values[i]), math.Abs(values[j])) })
	twice := make([]int, 0, n) // doubled mid-ranks, which are integers, of the values that are not 0
	positive, total, squares := 0, 0, 0.0
	for i := 0; i < n; {
		j := i
		for j < n && math.Abs(values[order[j]]) == math.Abs(values[order[i]]) {
			j++
		}
		rank := i + j + 1 // twice the mean of i+1 … j
		for ; i < j; i++ {
			v := values[order[i]]
			if v == 0 {
				continue
			}
			twice, total, squares = append(twice, rank), total+rank, squares+float64(rank)*float64(rank)
			if v > 0 {
				positive += rank
			}
		}
	}
	if len(twice) == 0 {
		return 1
	}
	extreme := min(positive, total-positive)
	if n > exactLimit {
		z := (float64(total)/2 - float64(extreme)) / math.Sqrt(squares/4)
		return math.Erfc(z / math.Sqrt2)
	}
	tail := 0.0
	for _, p := range subsetSums(twice)[:extreme+1] {
		tail += p
	}
	return min(1, 2*tail)
}

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
