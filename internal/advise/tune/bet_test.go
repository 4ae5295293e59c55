package tune

import (
	"math"
	"math/rand/v2"
	"testing"

	"mpps/internal/must"
)

// newTrack begins a bet on rates with the noise of the first trials, as a run has it.
func newTrack(least float64, calibrate func() float64) *track {
	k := &track{Bet: Bet{Least: least}, noise: &Noise{}, value: receivedRate}
	for last, n := calibrate(), 0; n < calibrationTrials; n++ {
		next := calibrate()
		k.noise.Add(last, next)
		last = next
	}
	return k
}

func (k *track) addRates(before, after float64) {
	k.add(trial{received: before, length: 1}, trial{received: after, length: 1})
}

// TestFairCoin: if a change does nothing, the e-value ever reaches 1/α with a probability of at most α,
// however often one looks, whatever the noise.
func TestFairCoin(t *testing.T) {
	const alpha, runs, pairs = 0.05, 1000, 40
	r := rand.New(rand.NewPCG(1, 2))
	walk := 0.0
	for name, noise := range map[string]func(n int) float64{
		"gaussian":  func(int) float64 { return 0.02 * r.NormFloat64() },
		"loud":      func(int) float64 { return 0.25 * r.NormFloat64() },
		"stalls":    func(int) float64 { return 0.01*r.NormFloat64() - map[bool]float64{true: 0.4}[r.IntN(20) == 0] },
		"outages":   func(int) float64 { return 0.01*r.NormFloat64() - map[bool]float64{true: 5}[r.IntN(30) == 0] },
		"cauchy":    func(int) float64 { return 0.01 * math.Tan(math.Pi*(r.Float64()-0.5)) },
		"walk":      func(int) float64 { walk += 0.02 * r.NormFloat64(); return walk },
		"louder":    func(n int) float64 { return 0.01 * float64(1+n/4) * r.NormFloat64() },
		"two":       func(n int) float64 { return 0.3 * float64(n/7%2) },
		"trend":     func(n int) float64 { return -0.02 * float64(n) },
		"constant":  func(int) float64 { return 0 },
		"alternate": func(n int) float64 { return 0.2 * float64(n%2) },
	} {
		won := 0
		for range runs {
			n := 0
			next := func() float64 { n++; return math.Exp(noise(n - 1)) }
			s := newTrack(0, next)
			for range pairs {
				first, second := next(), next()
				if r.IntN(2) == 0 {
					first, second = second, first
				}
				s.addRates(first, second)
				if s.Gain() >= 1/alpha {
					won++
					break
				}
			}
		}
		t.Logf("%s: won %d of %d times", name, won, runs)
		// Three standard deviations of the count.
		if limit := runs*alpha + 3*math.Sqrt(runs*alpha*(1-alpha)); float64(won) > limit {
			t.Errorf("%s: won %d of %d times, expected %.0f at the most", name, won, runs, limit)
		}
	}
}

// TestLeast: a gain below the least one that counts is not accepted more often than no gain.
func TestLeast(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	noise := func() float64 { return math.Exp(0.01 * r.NormFloat64()) }
	won := 0
	for range 2000 {
		s := newTrack(0.02, noise)
		for range 40 {
			s.addRates(noise(), 1.015*noise())
			if s.Gain() >= 20 {
				won++
				break
			}
		}
	}
	must.Hold(t, won <= 100, "a gain of 1.5 %% was shown to be more than 2 %% in %d of 2000 runs", won)
}

// TestInterval: the interval holds the ratio in 95 of 100 runs or more, and shrinks.
func TestInterval(t *testing.T) {
	const ratio, runs = 1.3, 1000
	r := rand.New(rand.NewPCG(5, 6))
	noise := func() float64 { return math.Exp(0.03 * r.NormFloat64()) }
	outside, width := 0, 0.0
	for range runs {
		s := newTrack(0, noise)
		for range 30 {
			s.addRates(noise(), ratio*noise())
		}
		lo, hi := s.Interval(0.95)
		if lo == 0 || hi == 0 || lo > hi {
			t.Fatalf("[%g, %g] of 30 pairs", lo, hi)
		}
		if most := s.AtMost(8); most > hi || most < lo {
			t.Fatalf("at most %g in [%g, %g]", most, lo, hi)
		}
		if lo > ratio || hi < ratio {
			outside++
		}
		width += (hi - lo) / runs
	}
	if outside > 50 || width > 0.1 {
		t.Errorf("outside of %d of %d intervals, mean width %.3f", outside, runs, width)
	}
	few := Bet{}
	few.Add(1, 2, 0.1)
	if lo, hi := few.Interval(0.95); lo != 0 || hi != 0 {
		t.Errorf("one pair gives [%g, %g]", lo, hi)
	}
}

// TestFewPairs: what is far above the noise is shown by four pairs, by no fewer, and by more where one of them stalls.
func TestFewPairs(t *testing.T) {
	needed := 1 / spend(0.05, 1, 16, 0)
	for ratio, least := range map[float64]int{1.5: 4, 4: 4, 1000: 4} {
		s := newTrack(0.01, func() float64 { return 1 })
		for range 4 {
			if s.Gain() >= needed {
				t.Errorf("×%g is shown by %d pairs", ratio, s.Pairs())
			}
			s.addRates(1, ratio)
		}
		if s.Gain() < needed {
			t.Errorf("×%g: e-value %.1f of %.1f after %d pairs", ratio, s.Gain(), needed, least)
		}
	}
	if r := Provable(4, 0.1, 0.01, needed); r < 1.15 || r > 1.3 {
		t.Errorf("four pairs prove ×%.3g at a scale of 10 %%", r)
	}
	if r := Provable(3, 0.1, 0.01, needed); !math.IsInf(r, 1) {
		t.Errorf("three pairs prove ×%.3g", r)
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
