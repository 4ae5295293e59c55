package measure

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Ranks and confidences of the interval for a median: Conover, Practical Nonparametric Statistics, table A3 (binomial,
// p = 0.5), as also tabulated by David & Nagaraja, Order Statistics, section 7.1.
func TestMedianRank(t *testing.T) {
	for _, c := range []struct {
		n, k  int
		level float64
	}{
		{1, 1, 0}, {2, 1, 0.5}, {5, 1, 0.9375}, {6, 1, 0.96875}, {8, 1, 0.9921875}, {9, 2, 0.9609375},
		{10, 2, 0.978515625}, {12, 3, 0.96142578}, {15, 4, 0.96484375}, {20, 6, 0.95861053}, {25, 8, 0.95671475},
		{30, 10, 0.95722606}, {100, 40, 0.96479980},
	} {
		k, level := medianRank(c.n, 0.95)
		if k != c.k || math.Abs(level-c.level) > 1e-8 {
			t.Errorf("n=%d: rank %d with level %.8f, expected %d with %.8f", c.n, k, level, c.k, c.level)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []float64
		want   Estimate
	}{
		{"nothing", nil, Estimate{}},
		{"one value says nothing of its spread", []float64{7}, Estimate{Value: 7, Lo: 7, Hi: 7, Level: 0, N: 1}},
		{"five are too few for 95 %", []float64{5, 1, 4, 2, 3}, Estimate{Value: 3, Lo: 1, Hi: 5, Level: 0.9375, N: 5}},
		{"an even number", []float64{1, 2, 3, 4, 5, 60}, Estimate{Value: 3.5, Lo: 1, Hi: 60, Level: 0.96875, N: 6}},
		{"an outlier stays outside", []float64{1, 2, 3, 4, 5, 6, 7, 8, 900},
			Estimate{Value: 5, Lo: 2, Hi: 8, Level: 0.9609375, N: 9}},
	} {
		got := Median(c.values)
		if math.Abs(got.Level-c.want.Level) > 1e-12 {
			t.Errorf("%s: level %v, expected %v", c.name, got.Level, c.want.Level)
		}
		got.Level = c.want.Level
		if got != c.want {
			t.Errorf("%s: %+v, expected %+v", c.name, got, c.want)
		}
	}
	if Median([]float64{1, 2, 3, 4, 5}).Level >= Level || Median([]float64{1, 2, 3, 4, 5, 6}).Level < Level {
		t.Error("six samples are the fewest for 95 %")
	}
}

// The interval must cover the true median as often as it says, for skewed data too. The seed is fixed: this is no
// flaky test.
func TestMedianCoverage(t *testing.T) {
	lot := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{6, 9, 20, 51} {
		const rounds = 4000
		covered, level := 0, 0.0
		for range rounds {
			values := make([]float64, n)
			for i := range values {
				values[i] = math.Exp(2 * lot.NormFloat64()) // median 1, very skewed
			}
			e := Median(values)
			level = e.Level
			if e.Lo <= 1 && 1 <= e.Hi {
				covered++
			}
		}
		share := float64(covered) / rounds
		if share < 0.95-0.01 || math.Abs(share-level) > 0.012 {
			t.Errorf("n=%d: covered %.3f, said %.3f", n, share, level)
		}
	}
}
