package tune_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mpps/internal/goal"
	"mpps/internal/tune"
	"mpps/internal/tune/simulated"
)

// all is a knob that multiplies what the whole path carries.
func all(id string, by float64) simulated.Knob {
	return simulated.Knob{ID: id, Stage: "a", Factors: map[string]float64{simulated.All: by}}
}

// TestSmallGains: knobs that gain too little to be kept alone are kept as all that is left, and what costs among them is taken out. The host
// carries no less than with the whole plan, and mostly what the best of all sets carries.
func TestSmallGains(t *testing.T) {
	const seeds = 10
	best := 0
	for seed := range uint64(seeds) {
		s := calm()
		s.Noise.Jitter = 0.003
		for i := range 8 {
			s.Knobs = append(s.Knobs, all(fmt.Sprintf("a.%d", i), 1.009))
		}
		s.Knobs = slices.Insert(s.Knobs, 5, all("a.costs", 0.96))
		r, h := run(t, s, seed, tune.Options{})
		everything := map[string]bool{}
		for _, k := range s.Knobs {
			everything[k.ID] = true
		}
		if whole, _ := s.Carries(everything); slices.Contains(h.Standing(), "a.costs") || h.Now() < whole {
			t.Errorf("seed %d: %.0f, with everything %.0f, standing %v%s", seed, h.Now(), whole, h.Standing(), story(s, r))
		}
		if most, _ := s.Best(); h.Now() > 0.99*most {
			best++
		}
		if a := r.Attempts[len(r.Attempts)-1]; a.Outcome == tune.Kept && slices.Contains(a.IDs, "a.costs") && !strings.Contains(a.Why, "was taken out") {
			t.Errorf("seed %d: not told what was taken out: %s", seed, a.Why)
		}
	}
	if best < seeds*8/10 {
		t.Errorf("the best set's rate in %d of %d runs", best, seeds)
	}
}

// TestLate: where the budget is too short to try one after the other, what was not tried is tried at once, and is not said to be untried.
func TestLate(t *testing.T) {
	var many []simulated.Knob
	for i := range 30 {
		many = append(many, all(fmt.Sprintf("a.%d", i), 1.01))
	}
	s := calm(append(many, helps("a.last", "a", 1.3))...)
	h := &timed{Host: simulated.New(s, 1), trial: time.Second, search: 20 * time.Second}
	r := runOn(t, h, tune.Options{Goal: goal.Goal{PPS: 1e9}, Budget: 4 * time.Minute, Now: func() time.Time { return h.now }})
	whole := map[string]bool{}
	for _, k := range s.Knobs {
		whole[k.ID] = true
	}
	if want, _ := s.Carries(whole); h.Host.Now() < 0.97*want {
		t.Errorf("%.0f, with everything %.0f%s", h.Host.Now(), want, story(s, r))
	}
	if len(r.Untried) > 0 || r.Verdict == tune.Failed {
		t.Errorf("%s: %s; untried %v", r.Verdict, r.Why, r.Untried)
	}
}

// TestLeftRefused: what the machine refuses is no part of all that is left.
func TestLeftRefused(t *testing.T) {
	refused := simulated.Knob{ID: "b.refused", Stage: "b", Refused: true}
	r, h := run(t, calm(refused, all("a.1", 1.009), all("a.2", 1.009), all("a.3", 1.009)), 3, tune.Options{})
	if !slices.Equal(h.Standing(), []string{"a.1", "a.2", "a.3"}) {
		t.Errorf("standing %v%s", h.Standing(), story(calm(), r))
	}
}
