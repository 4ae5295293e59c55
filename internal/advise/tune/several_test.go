package tune_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/advise/tune"
	"mpps/internal/advise/tune/simulated"
	"mpps/internal/model/goal"
	"mpps/internal/must"
)

// all is a knob that multiplies the capacity of the whole path.
func all(id string, by float64) simulated.Knob {
	return simulated.Knob{ID: id, Stage: "a", Factors: map[string]float64{simulated.All: by}}
}

// TestSmallGains: knobs that gain too little to be kept alone are kept together, and one that costs among them is not.
// With little noise the host carries no less than with the whole plan; with more, where each knob is lost in the noise,
// not much less.
func TestSmallGains(t *testing.T) {
	for _, c := range []struct{ jitter, gain, costs, least float64 }{{0.003, 1.009, 0.96, 0.985},
		{0.03, 1.03, 0.9, 0.93}} {
		const seeds = 10
		better := 0
		for seed := range uint64(seeds) {
			s := calm()
			s.Noise.Jitter = c.jitter
			for i := range 8 {
				s.Knobs = append(s.Knobs, all(fmt.Sprintf("a.%d", i), c.gain))
			}
			s.Knobs = slices.Insert(s.Knobs, 5, all("a.costs", c.costs))
			r, h := run(t, s, seed, tune.Options{})
			everything := map[string]bool{}
			for _, k := range s.Knobs {
				everything[k.ID] = true
			}
			whole, _ := s.Carries(everything)
			if slices.Contains(h.Active(), "a.costs") || h.Now() < c.least*whole {
				t.Errorf("jitter %g, seed %d: %.0f, with everything %.0f, standing %v%s", c.jitter, seed, h.Now(),
					whole, h.Active(), story(s, r))
			}
			if h.Now() > whole {
				better++
			}
		}
		must.Hold(t, better >= seeds/2,
			"jitter %g: better than the whole plan in %d of %d runs", c.jitter, better, seeds)
	}
}

// TestHarmInTime: whatever the budget, a host carries no less than with the whole plan, and with more time what hurts
// in it is found.
func TestHarmInTime(t *testing.T) {
	kept := 0
	for _, budget := range []time.Duration{2, 3, 4, 6, 10, 20} {
		for seed := range uint64(8) {
			var knobs []simulated.Knob
			for i := range 14 {
				knobs = append(knobs, all(fmt.Sprintf("a.%d", i), 1))
			}
			s := calm(append(knobs, all("nic.threaded", 0.9), all("nic.rps", 0.93), helps("a.last", "a", 1.6))...)
			s.Noise.Jitter = 0.02
			h := &timed{Host: simulated.New(s, seed), trial: time.Second, search: 15 * time.Second}
			r := runOn(t, h, tune.Options{Goal: goal.Goal{PPS: 1e9}, Seed: seed, Budget: budget * time.Minute,
				Now: func() time.Time { return h.now }})
			if whole := carriesAll(s); h.Now() < 0.99*whole {
				t.Errorf("budget %d min, seed %d: %.0f, with the whole plan %.0f%s", budget, seed, h.Now(), whole,
					story(s, r))
			}
			for _, id := range h.Active() {
				if budget >= 6 && (id == "nic.threaded" || id == "nic.rps") {
					t.Errorf("budget %d min, seed %d: %s stands%s", budget, seed, id, story(s, r))
				}
			}
			kept += len(r.Kept)
		}
	}
	must.Hold(t, kept != 0, "nothing was ever kept")
}

// carriesAll is what a host carries with every knob that it does not refuse.
func carriesAll(s simulated.Spec) float64 {
	set := map[string]bool{}
	for _, k := range s.Knobs {
		set[k.ID] = !k.Refused
	}
	pps, _ := s.Carries(set)
	return pps
}

// TestLate: a budget that ends before everything was tried leaves time to try the near gains together.
func TestLate(t *testing.T) {
	var many []simulated.Knob
	for i := range 60 {
		many = append(many, all(fmt.Sprintf("a.%d", i), 1.009))
	}
	s := oneByOne(calm(many...))
	s.Noise.Jitter = 0.003
	h := &timed{Host: simulated.New(s, 1), trial: time.Second, search: 15 * time.Second}
	r := runOn(t, h, tune.Options{Goal: goal.Goal{PPS: 1e9}, Budget: 12 * time.Minute,
		Now: func() time.Time { return h.now }})
	if len(r.Kept) < 8 || len(r.Untried) < 8 || len(r.Warnings) > 0 {
		t.Errorf("kept %d, untried %d: %s%s", len(r.Kept), len(r.Untried), r.Why, story(calm(), r))
	}
}

// TestRisky: a risky candidate is not kept for the gain of others.
func TestRisky(t *testing.T) {
	risky := all("a.risky", 1)
	risky.Risk = goal.Security
	s := calm(risky, all("a.1", 1.009), all("a.2", 1.009), all("a.3", 1.009))
	s.Noise.Jitter = 0.003
	r, h := run(t, s, 3, tune.Options{})
	if !slices.Equal(h.Active(), []string{"a.1", "a.2", "a.3"}) {
		t.Errorf("standing %v%s", h.Active(), story(s, r))
	}
}

// TestTakenOut: a part that costs on top of the others is dropped, its measurement is in the result, and it does not
// return in the next round.
func TestTakenOut(t *testing.T) {
	found := false
	for seed := range uint64(20) {
		// Ahead alone, and a brake beside what the others bring.
		brake := all("a.brake", 1.008)
		brake.Spoils = map[string]float64{"a.1": 0.97}
		s := calm(brake, all("a.1", 1.03), all("a.2", 1.02), all("a.3", 1.02), all("a.4", 1.02))
		s.Noise.Jitter = 0.002
		r, h := run(t, s, seed, tune.Options{})
		i := slices.IndexFunc(r.Revisits, func(a tune.Attempt) bool {
			return a.Key == "a.brake" && (a.Outcome == tune.Hurts || a.Outcome == tune.Useless)
		})
		if i < 0 {
			continue
		}
		found = true
		whole := r.Attempts[slices.IndexFunc(r.Attempts,
			func(a tune.Attempt) bool { return slices.Contains(a.Parts, "a.brake") && a.Outcome == tune.Kept })]
		if slices.Contains(h.Active(), "a.brake") || slices.Contains(r.Kept, "a.brake") ||
			len(r.Revisits[i].Gain.Pairs) == 0 ||
			!slices.Contains(whole.DroppedParts(r.Kept), "a.brake") || !whole.Stands(r.Kept) ||
			!strings.Contains(whole.Why, "of these a.brake was taken out: it ") {
			t.Errorf("seed %d: standing %v, kept %v: %s", seed, h.Active(), r.Kept, whole.Why)
		}
	}
	must.Hold(t, found, "it was never taken out")
}

// hiccup is a host whose generator falls behind in one trial.
type hiccup struct {
	*simulated.Host
	at, n int
	sent  float64
}

func (h *hiccup) Sample(ctx context.Context, pps float64, length int, exact bool) (float64, error) {
	h.sent = 0
	if h.n++; h.n == h.at {
		h.sent = 0.8 * h.Now()
		return h.sent, nil
	}
	return h.Host.Sample(ctx, pps, length, exact)
}

func (h *hiccup) Sent() float64 {
	if h.sent > 0 {
		return h.sent
	}
	return h.Host.Sent()
}

// TestOneLateTrial: one late trial of the generator, wherever in a run, does not undo what was kept.
func TestOneLateTrial(t *testing.T) {
	for at := 3; at < 160; at += 7 {
		s := calm(all("a.1", 1.009), all("a.2", 1.009), all("a.3", 1.009), all("a.4", 1.009))
		s.Noise.Jitter = 0.002
		h := &hiccup{Host: simulated.New(s, 1), at: at}
		r := runOn(t, h, tune.Options{Goal: goal.Goal{PPS: 1e9}, Seed: 1})
		if len(h.Active()) < 3 {
			t.Errorf("late in trial %d of %d: standing %v: %s; %v", at, r.Trials, h.Active(), r.Why, r.Warnings)
		}
	}
}

// drifting is a host on which somebody else changes a value before everything is restored.
type drifting struct{ deaf }

func (d *drifting) Reset(ctx context.Context) error {
	return errors.Join(d.Host.Reset(ctx), fmt.Errorf("1 value of transaction X: %w", tune.ErrDrifted))
}

// TestDrifted: a value that somebody else changed is not reported as restored, everything else is.
func TestDrifted(t *testing.T) {
	h := &drifting{deaf{simulated.New(still(), 1), 40}}
	r, err := tune.Run(t.Context(), h, tune.Options{Seed: 1, Goal: goal.Goal{PPS: 1e9}})
	must.Hold(t, err != nil && len(r.Kept) <= 0 && strings.Contains(r.Why, "transaction X") &&
		strings.Contains(r.Why, "everything else is as it was found"), "%v; kept %v: %s", err, r.Kept, r.Why)
	for _, a := range r.Attempts {
		must.Hold(t, a.Outcome != tune.Kept, "%s is kept", a.Key)
	}
}

// doubtful is a host whose first diagnosis names no bottleneck.
type doubtful struct {
	*simulated.Host
	asked int
	knob  string // that the second one names
}

func (d *doubtful) Diagnose(context.Context, float64) (*bottleneck.Diagnosis, error) {
	if d.asked++; d.asked != 2 {
		return &bottleneck.Diagnosis{Why: "nothing is full"}, nil
	}
	return &bottleneck.Diagnosis{Bottleneck: &bottleneck.Bottleneck{Kind: "a-full", Stage: "a", Object: "a",
		Confidence: 0.9, Knobs: []string{d.knob}}}, nil
}

// TestSecondOpinion: before a candidate that nothing points at, the diagnosis is repeated, once per kept state.
func TestSecondOpinion(t *testing.T) {
	knobs := []simulated.Knob{{ID: "b.0", Stage: "b"}, {ID: "b.1", Stage: "b"}, {ID: "b.2", Stage: "b"},
		{ID: "a.0", Stage: "a"}}
	h := &doubtful{Host: simulated.New(oneByOne(calm(knobs...)), 1), knob: "a.0"}
	learned := tune.Effects{Known: []tune.Effect{{Key: "b.0", Tried: 5}}} // tells nothing of what holds the path back
	r := runOn(t, h, tune.Options{Goal: goal.Goal{PPS: 1e9}, Seed: 1, Learned: learned})
	must.Hold(t, len(r.Attempts) >= 4 && r.Attempts[0].Key == "a.0", "tried %v", r.Attempts)
	if h.asked > 4 { // the baseline, once more, when nothing is left, the end
		t.Errorf("asked %d times", h.asked)
	}
}
