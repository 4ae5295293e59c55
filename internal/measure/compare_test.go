package measure

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"mpps/internal/must"
)

// Hollander & Wolfe, Nonparametric Statistical Methods, 2nd ed., table A.6 and A.4: upper tails of W and T⁺.
func TestNullDistributions(t *testing.T) {
	tail := func(d []float64, from int) (p float64) {
		for _, x := range d[from:] {
			p += x
		}
		return p
	}
	for _, c := range []struct {
		name string
		d    []float64
		from int
		want float64
	}{
		{"U 4+4 at its end", uDistribution(4, 4), 16, 1.0 / 70},
		{"U 5+5, U ≥ 23", uDistribution(5, 5), 23, 0.01587301587},
		{"U 3+5, U ≥ 14", uDistribution(3, 5), 14, 0.03571428571},
		{"U 8+8, U ≥ 51", uDistribution(8, 8), 51, 0.02494172},
		{"T+ 6, T ≥ 21", signedRankDistribution(6), 21, 0.015625},
		{"T+ 8, T ≥ 33", signedRankDistribution(8), 33, 0.01953125},
		{"T+ 10, T ≥ 47", signedRankDistribution(10), 47, 0.0244140625},
	} {
		if got := tail(c.d, c.from); math.Abs(got-c.want) > 1e-7 {
			t.Errorf("%s: %.9f, expected %.9f", c.name, got, c.want)
		}
	}
	// The largest that is counted out must not lose its precision.
	d := uDistribution(exactLimit, exactLimit)
	var mean, variance float64
	for u, p := range d {
		if p < 0 {
			t.Fatalf("P(U=%d) = %g", u, p)
		}
		mean += float64(u) * p
	}
	for u, p := range d {
		variance += (float64(u) - mean) * (float64(u) - mean) * p
	}
	n := float64(exactLimit)
	if math.Abs(mean-n*n/2) > 1e-6 || math.Abs(variance/(n*n*(2*n+1)/12)-1) > 1e-6 {
		t.Errorf("U %v+%v: mean %v, variance %v", n, n, mean, variance)
	}
}

func TestSignedRankP(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []float64
		want   float64
	}{
		{"all on one side", []float64{1, 2, 3, 4, 5, 6}, 2.0 / 64},
		{"Hollander & Wolfe example 3.1 (depression scores), T+ = 40 of n = 9", // two-sided 2·0.020
			[]float64{0.952, -0.147, 1.022, 0.430, 0.620, 0.590, 0.490, -0.080, 0.010}, 0.0390625},
		{"nothing but zeros", []float64{0, 0, 0}, 1},
		{"balanced", []float64{1, -1, 2, -2}, 1},
	} {
		if got := signedRankP(c.values); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%s: p = %.7f, expected %.7f", c.name, got, c.want)
		}
	}
}

func TestCompare(t *testing.T) {
	before := []float64{610, 640, 620, 600, 630, 650}
	after := []float64{8800, 8100, 9300, 8700, 8900, 8600}
	c := Compare(before, after)
	if !c.Significant || math.Abs(c.P-2.0/924) > 1e-9 {
		t.Errorf("p = %v, expected %v", c.P, 2.0/924)
	}
	if c.Ratio.Value < 13.5 || c.Ratio.Value > 14.5 || c.Ratio.Lo > c.Ratio.Value || c.Ratio.Hi < c.Ratio.Value ||
		c.Ratio.Level < Level {
		t.Errorf("ratio %+v", c.Ratio)
	}
	must.Hold(t, slices.Equal(before, []float64{610, 640, 620, 600, 630, 650}), "the caller's samples were reordered")
	back := Compare(after, before)
	if math.Abs(back.Ratio.Value*c.Ratio.Value-1) > 1e-9 || math.Abs(back.Ratio.Lo*c.Ratio.Hi-1) > 1e-9 {
		t.Errorf("the ratio of the sides swapped is %+v, of %+v", back.Ratio, c.Ratio)
	}

	if same := Compare(before, before); same.Significant || same.String() != Same {
		t.Errorf("a sample differs from itself: %v", same)
	}
	few := Compare([]float64{1, 2, 3}, []float64{10, 20, 30})
	must.Hold(t, !few.Significant && len(few.Warnings) == 1 && few.Warnings[0].Code == "few-samples",
		"three samples a side: %+v", few)
	if empty := Compare(nil, after); empty.Significant || empty.P != 1 {
		t.Errorf("nothing against something: %+v", empty)
	}
	if zero := Compare([]float64{0, 0, 0, 0, 0, 0}, after); !zero.Significant || zero.Ratio.N != 0 ||
		zero.String() != "0 → 8750" {
		t.Errorf("a rate of zero before: %+v %v", zero, zero)
	}
}

// series is a simulated device: noise of 3 %, a slow random drift of the whole machine of up to some 20 %, and a stall
// in one sample of ten.
func series(lot *rand.Rand) func() float64 {
	drift := 0.0
	return func() float64 {
		drift += 0.03 * lot.NormFloat64()
		value := 1e6 * math.Exp(drift+0.03*lot.NormFloat64())
		if lot.IntN(10) == 0 {
			value *= 0.8
		}
		return value
	}
}

// A/A comparisons: two equal things must be called different no more often than Alpha says.
func TestFalsePositives(t *testing.T) {
	const rounds = 400
	for _, blocks := range []int{2, 3, 6, 10} {
		wrong := 0
		for round := range rounds {
			next := series(rand.New(rand.NewPCG(uint64(round), uint64(blocks))))
			take := func(context.Context) (Sample, error) { return Sample{PPS: next()}, nil }
			r := must.Get(Interleave(t.Context(), PPS, take, take, blocks, uint64(round)))(t)
			if r.Result.Significant {
				wrong++
			}
		}
		if share := float64(wrong) / rounds; share > 0.05 {
			t.Errorf("%d blocks: %.1f %% false differences", blocks, 100*share)
		}
	}
}

// One side after the other is what interleaving is there against: the same device must show false differences then, or
// the test above proves nothing.
func TestDriftFoolsSeriesOneAfterTheOther(t *testing.T) {
	const rounds = 200
	wrong := 0
	for round := range rounds {
		next := series(rand.New(rand.NewPCG(uint64(round), 99)))
		var a, b []float64
		for range 12 {
			a = append(a, next())
		}
		for range 12 {
			b = append(b, next())
		}
		if Compare(a, b).Significant {
			wrong++
		}
	}
	if share := float64(wrong) / rounds; share < 0.2 {
		t.Errorf("only %.1f %% false differences: the simulated drift is too weak to test anything", 100*share)
	}
}

// A true difference must be found in spite of drift, and the interval of the ratio must cover it.
func TestPowerAndRatioCoverage(t *testing.T) {
	const rounds, truth = 400, 1.2
	found, covered := 0, 0
	for round := range rounds {
		next := series(rand.New(rand.NewPCG(uint64(round), 7)))
		a := func(context.Context) (Sample, error) { return Sample{PPS: next()}, nil }
		b := func(context.Context) (Sample, error) { return Sample{PPS: truth * next()}, nil }
		r := must.Get(Interleave(t.Context(), PPS, a, b, 8, uint64(round)))(t)
		if r.Result.Significant && r.Result.Ratio.Value > 1 {
			found++
		}
		if r.Result.Ratio.Lo <= truth && truth <= r.Result.Ratio.Hi {
			covered++
		}
		must.Need(t, r.Result.Significant != (r.Result.Ratio.Lo <= 1 && 1 <= r.Result.Ratio.Hi),
			"round %d: verdict %v, interval %+v contradict each other", round, r.Result.Significant, r.Result.Ratio)
	}
	if share := float64(found) / rounds; share < 0.9 {
		t.Errorf("20 %% more was found in %.1f %% of the series", 100*share)
	}
	if share := float64(covered) / rounds; share < 0.94 {
		t.Errorf("the interval covered the ratio in %.1f %% of the series", 100*share)
	}
}

func TestSchedule(t *testing.T) {
	order := Schedule(64, 5)
	must.Hold(t, slices.Equal(order, Schedule(64, 5)), "the same seed gives another order")
	must.Hold(t, !slices.Equal(order, Schedule(64, 6)), "another seed gives the same order")
	starts := [2]int{}
	for _, block := range order {
		if block != [4]Side{A, B, B, A} && block != [4]Side{B, A, A, B} {
			t.Fatalf("block %v", block)
		}
		starts[block[0]]++
	}
	must.Hold(t, starts[A] >= 16 && starts[B] >= 16, "blocks start %d times with A, %d with B", starts[A], starts[B])
}

func TestInterleaveKeepsWholeBlocksOnFailure(t *testing.T) {
	broken := errors.New("link went down")
	taken := 0
	take := func(context.Context) (Sample, error) {
		if taken++; taken > 10 {
			return Sample{}, broken
		}
		return Sample{PPS: float64(taken)}, nil
	}
	r, err := Interleave(t.Context(), PPS, take, take, 5, 1)
	must.Hold(t, errors.Is(err, broken) && r.Partial && len(r.Order) == 2 && len(r.Samples) == 2,
		"error %v, partial %v, %d blocks", err, r.Partial, len(r.Order))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err = Interleave(ctx, PPS, take, take, 5, 1); !errors.Is(err, context.Canceled) || !r.Partial ||
		len(r.Order) != 0 {
		t.Errorf("cancelled before: error %v, %+v", err, r)
	}
}

// The interval of the ratio covers the truth as often as it says, and excludes 1 exactly when the test finds a
// difference.
func TestShiftCoverage(t *testing.T) {
	const rounds, truth = 3000, 1.1
	lot := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{4, 6, 12} {
		covered, level := 0, 0.0
		for range rounds {
			before, after := make([]float64, n), make([]float64, n)
			for i := range n {
				before[i], after[i] = math.Exp(0.1*lot.NormFloat64()), truth*math.Exp(0.1*lot.NormFloat64())
			}
			c := Compare(before, after)
			level = c.Ratio.Level
			if c.Ratio.Lo <= truth && truth <= c.Ratio.Hi {
				covered++
			}
			must.Need(t, c.Significant != (c.Ratio.Lo <= 1 && 1 <= c.Ratio.Hi),
				"n=%d: p = %v, interval %+v contradict each other", n, c.P, c.Ratio)
		}
		if share := float64(covered) / rounds; math.Abs(share-level) > 0.015 || level < 0.95 {
			t.Errorf("n=%d: covered %.3f, said %.3f", n, share, level)
		}
	}
}

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
		must.Equal(t, got, c.want, "%s", c.name)
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

func TestOrderAcrossFlowsIsNamed(t *testing.T) {
	named := func(flows int, reordered uint64) bool {
		s := sampleOf(Load{Flows: flows}, Sent{Frames: 100, Elapsed: time.Second},
			Arrived{Frames: 100, Reordered: reordered, Exact: true}, 0)
		return slices.ContainsFunc(s.Warnings, func(w Warning) bool { return w.Code == "order-across-flows" })
	}
	must.Hold(t, named(16, 40), "frames out of order over 16 flows pass without a word")
	must.Hold(t, !named(1, 40) && !named(16, 0), "order across flows is named where one flow was out of order, or none")
}

func TestDifferentSinksAreNamed(t *testing.T) {
	before, after := &Run{Kind: PPS}, &Run{Kind: PPS}
	before.Environment.Sink, after.Environment.Sink = "xdp-skb", "xdp"
	warnings, err := Comparable(before, after)
	if err != nil || !slices.ContainsFunc(warnings, func(w Warning) bool { return w.Code == "different-sink" }) {
		t.Errorf("runs counted in different ways compare with %v, %v", warnings, err)
	}
}
