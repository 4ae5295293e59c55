package measure

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"mpps/internal/must"
)

// comparisons is how many comparisons of a thing with itself are made on each series.
const comparisons = 200

// TestComparingTheSame compares things with themselves in turns, as --plan does, and requires that no more than Alpha
// of the answers are "different", on each series: trials recorded in the lab, and simulated ones with all that spoils a
// comparison.
//
// Why this holds: whether a block is ABBA or BAAB is by lot, so that where nothing differs each block's ratio is as
// likely its inverse, independently of the others and however the trials depend on each other. The signed-rank test is
// exact then. With six blocks, as is usual, it answers "different" in 2 of 2^6 = 64 cases, 3.1 %: 6.3 of 200, and more
// than the 10 that Alpha allows with a probability of 5 % (binomial). With more blocks the steps of the test are finer
// and it comes closer to Alpha: 4.9 % with ten, of which more than 10 of 200 are nearly as likely as not. So those are
// held to 17: a test of 4.9 % has more with a probability of 1 %, one of 10 % does with 75 %, and one of 15 % with 99.6
// %. The sum over all series says it sharper. The seeds are fixed: the test answers the same every time.
//
// With fewer blocks than six there are too few orders for such a test. Mann–Whitney takes the trials for independent of
// each other and of their turn, which holds but for what comes in step with the turns; the comparison warns of that.
func TestComparingTheSame(t *testing.T) {
	series := simulated()
	maps.Copy(series, recorded(t))
	for _, c := range []struct{ blocks, limit int }{{4, 17}, {6, 10}, {10, 17}} {
		var all, different, outside int
		for n, name := range slices.Sorted(maps.Keys(series)) {
			if name == inStep && c.blocks < minBlocks {
				continue
			}
			found, missed := falseAnswers(t, series[name], c.blocks, uint64(n))
			t.Logf("%-28s %2d blocks: %4.1f %% different, %4.1f %% of the intervals miss 1", name, c.blocks,
				100*float64(found)/comparisons, 100*float64(missed)/comparisons)
			must.Hold(t, found <= c.limit,
				"%s, %d blocks: %d of %d comparisons of the same found a difference, expected no more than %d", name,
				c.blocks, found, comparisons, c.limit)
			all, different, outside = all+comparisons, different+found, outside+missed
		}
		// Two standard deviations above Alpha.
		most := Alpha*float64(all) + 2*math.Sqrt(Alpha*(1-Alpha)*float64(all))
		if float64(different) > most || float64(outside) > most {
			t.Errorf("%d blocks: %d of %d different, %d of the intervals miss 1; expected no more than %.0f", c.blocks,
				different, all, outside, most)
		}
	}
}

// inStep is the series that fewer than six blocks cannot tell from a difference.
const inStep = "every fourth trial is slow"

func TestFewBlocksAreWarnedOf(t *testing.T) {
	blocks := make([]Block, minBlocks)
	for i := range blocks {
		blocks[i] = Block{A: []float64{1, 2}, B: []float64{1, 2}}
	}
	few := func(c Comparison) bool {
		return slices.ContainsFunc(c.Warnings, func(w Warning) bool { return w.Code == "few-blocks" })
	}
	if !few(CompareBlocks(blocks[1:])) || few(CompareBlocks(blocks)) {
		t.Errorf("five blocks: %+v; six: %+v", CompareBlocks(blocks[1:]).Warnings, CompareBlocks(blocks).Warnings)
	}
}

// falseAnswers counts comparisons of a series with itself that found a difference, and those whose interval misses 1.
func falseAnswers(t *testing.T, series func(n int, lot *rand.Rand) []float64, blocks int, seed uint64) (different,
	outside int) {
	t.Helper()
	for i := range uint64(comparisons) {
		values := series(4*blocks, rand.New(rand.NewPCG(i, seed)))
		next := 0
		take := func(context.Context) (Sample, error) {
			next++
			return Sample{TPS: values[next-1]}, nil
		}
		r := must.Get(Interleave(t.Context(), RR, take, take, blocks, 1000*seed+i))(t)
		if r.Result.Significant {
			different++
		}
		if q := r.Result.Ratio; q.N > 0 && q.Level >= Level && (q.Lo > 1 || q.Hi < 1) {
			outside++
		}
	}
	return different, outside
}

// recorded are trials of the lab; each comparison takes trials that followed each other, from anywhere in the series.
func recorded(t *testing.T) map[string]func(int, *rand.Rand) []float64 {
	t.Helper()
	text := must.Get(os.ReadFile("testdata/aa-lab.json"))(t)
	var file struct {
		Series map[string]struct{ Values []float64 }
	}
	must.Do(t, json.Unmarshal(text, &file))
	all := map[string]func(int, *rand.Rand) []float64{}
	for name, s := range file.Series {
		must.Need(t, len(s.Values) >= 250, "%s has %d values", name, len(s.Values))
		all["recorded "+name] = func(n int, lot *rand.Rand) []float64 {
			from := lot.IntN(len(s.Values) - n + 1)
			return s.Values[from : from+n]
		}
	}
	return all
}

// simulated are series whose values have nothing to do with which side they are taken for.
func simulated() map[string]func(int, *rand.Rand) []float64 {
	const noise = 0.02
	of := func(value func(i, n int, lot *rand.Rand) float64) func(int, *rand.Rand) []float64 {
		return func(n int, lot *rand.Rand) []float64 {
			values := make([]float64, n)
			for i := range values {
				values[i] = 1000 * math.Exp(value(i, n, lot)+noise*lot.NormFloat64())
			}
			return values
		}
	}
	walk := func(n int, lot *rand.Rand) []float64 {
		values, level := make([]float64, n), 0.0
		for i := range values {
			level += 0.03 * lot.NormFloat64()
			values[i] = 1000 * math.Exp(level+0.005*lot.NormFloat64())
		}
		return values
	}
	// Something else takes half of the machine for a few trials at a time.
	bursts := func(n int, lot *rand.Rand) []float64 {
		values, left := make([]float64, n), 0
		for i := range values {
			if left == 0 && lot.IntN(10) == 0 {
				left = 1 + lot.IntN(6)
			}
			values[i] = 1000 * math.Exp(noise*lot.NormFloat64())
			if left > 0 {
				values[i], left = values[i]/2, left-1
			}
		}
		return values
	}
	return map[string]func(int, *rand.Rand) []float64{
		"white noise": of(func(int, int, *rand.Rand) float64 { return 0 }),
		"slow drift":  of(func(i, n int, _ *rand.Rand) float64 { return 0.5 * float64(i) / float64(n) }),
		"random walk": walk,
		"bursts":      bursts,
		// In step with the blocks: what the lot is for.
		inStep: of(func(i, _ int, _ *rand.Rand) float64 { return -0.2 * float64(i%4/3) }),
		"stalls": of(func(_, _ int, lot *rand.Rand) float64 {
			if lot.IntN(12) == 0 {
				return -3
			}
			return 0
		}),
	}
}

// TestDifferencesAreFound: a comparison that never finds anything would pass the test above.
func TestDifferencesAreFound(t *testing.T) {
	series := simulated()
	for _, name := range []string{"white noise", "slow drift"} {
		found := 0
		for i := range uint64(comparisons) {
			values := series[name](24, rand.New(rand.NewPCG(i, 7)))
			next := 0
			take := func(by float64) func(context.Context) (Sample, error) {
				return func(context.Context) (Sample, error) {
					next++
					return Sample{TPS: by * values[next-1]}, nil
				}
			}
			r, err := Interleave(t.Context(), RR, take(1), take(1.05), 6, i)
			if err != nil {
				t.Fatal(fmt.Errorf("%s: %w", name, err))
			}
			if r.Result.Significant && r.Result.Ratio.Value > 1 {
				found++
			}
		}
		must.Hold(t, found >= comparisons*9/10,
			"%s of 2 %%: a difference of 5 %% was found in %d of %d comparisons by six blocks", name, found,
			comparisons)
	}
}
