package tune

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestFairCoin: if a change does nothing, the e-value ever reaches 1/α with a probability of at most α,
// however often one looks, whatever the noise.
func TestFairCoin(t *testing.T) {
	const alpha, runs, pairs = 0.05, 1000, 40
	r := rand.New(rand.NewPCG(1, 2))
	for name, noise := range map[string]func(n int) float64{
		"gaussian":  func(int) float64 { return 0.02 * r.NormFloat64() },
		"stalls":    func(int) float64 { return 0.01*r.NormFloat64() - map[bool]float64{true: 0.4}[r.IntN(20) == 0] },
		"two":       func(n int) float64 { return 0.3 * float64(n/7%2) },
		"trend":     func(n int) float64 { return -0.02 * float64(n) },
		"constant":  func(int) float64 { return 0 },
		"alternate": func(n int) float64 { return 0.2 * float64(n%2) },
	} {
		won := 0
		for range runs {
			s := Sign{}
			for n := range pairs {
				first, second := math.Exp(noise(2*n)), math.Exp(noise(2*n+1))
				if r.IntN(2) == 0 {
					first, second = second, first
				}
				s.Add(first, second)
				if s.Gain() >= 1/alpha {
					won++
					break
				}
			}
		}
		// Three standard deviations of the count.
		if limit := runs*alpha + 3*math.Sqrt(runs*alpha*(1-alpha)); float64(won) > limit {
			t.Errorf("%s: won %d of %d times, expected %.0f at the most", name, won, runs, limit)
		}
	}
}

// TestLeast: a gain below the least one that counts is not accepted more often than no gain.
func TestLeast(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	won := 0
	for range 2000 {
		s := Sign{Least: 0.02}
		for range 40 {
			before, after := math.Exp(0.01*r.NormFloat64()), 1.015*math.Exp(0.01*r.NormFloat64())
			s.Add(before, after)
			if s.Gain() >= 20 {
				won++
				break
			}
		}
	}
	if won > 100 {
		t.Errorf("a gain of 1.5 %% was shown to be more than 2 %% in %d of 2000 runs", won)
	}
}

// TestInterval: the interval holds the ratio in 95 of 100 runs or more, and shrinks.
func TestInterval(t *testing.T) {
	const ratio, runs = 1.3, 1000
	r := rand.New(rand.NewPCG(5, 6))
	outside, width := 0, 0.0
	for range runs {
		s := Sign{}
		for range 30 {
			s.Add(math.Exp(0.03*r.NormFloat64()), ratio*math.Exp(0.03*r.NormFloat64()))
		}
		lo, hi := s.Interval(0.95)
		if lo == 0 || hi == 0 || lo > hi {
			t.Fatalf("[%g, %g] of 30 pairs", lo, hi)
		}
		if lo > ratio || hi < ratio {
			outside++
		}
		width += (hi - lo) / runs
	}
	if outside > 50 || width > 0.1 {
		t.Errorf("outside of %d of %d intervals, mean width %.3f", outside, runs, width)
	}
	few := Sign{}
	few.Add(1, 2)
	if lo, hi := few.Interval(0.95); lo != 0 || hi != 0 {
		t.Errorf("one pair gives [%g, %g]", lo, hi)
	}
}

// TestSpend: all shares of alpha together are no more than alpha, however many candidates there are.
func TestSpend(t *testing.T) {
	for _, expected := range []int{1, 16, 100} {
		sum := 0.0
		for n := 1; n <= 10000; n++ {
			sum += spend(0.05, n, expected, 0)
		}
		if sum > 0.05 {
			t.Errorf("%d candidates expected: %g is spent of 0.05", expected, sum)
		}
	}
}
