package tune_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"mpps/internal/advise/tune"
	"mpps/internal/advise/tune/simulated"
	"mpps/internal/model/goal"
	"mpps/internal/must"
)

// calm is a quiet machine of two stages with some knobs.
func calm(knobs ...simulated.Knob) simulated.Spec {
	return simulated.Spec{
		Name: "calm", Stages: []string{"a", "b"}, Capacity: map[string]float64{"a": 1e6, "b": 1.5e6},
		Noise: simulated.Noise{Jitter: 0.005}, Knobs: knobs,
	}
}

// oneByOne makes knobs of a host that no plan has: they are tried one by one.
func oneByOne(s simulated.Spec) simulated.Spec {
	for i := range s.Knobs {
		s.Knobs[i].Unplanned = true
	}
	return s
}

// helps is a knob that widens a stage.
func helps(id, stage string, by float64) simulated.Knob {
	return simulated.Knob{ID: id, Stage: stage, Factors: map[string]float64{stage: by}}
}

// attempt is the first attempt with a key, or with that as a part.
func attempt(r *tune.Result, key string) *tune.Attempt {
	i := slices.IndexFunc(r.Attempts, func(a tune.Attempt) bool {
		return a.Key == key || slices.Contains(a.Parts, key)
	})
	if i < 0 {
		return &tune.Attempt{}
	}
	return &r.Attempts[i]
}

// TestGround: a change that another kept one needs cannot be removed to measure it again, and stays.
func TestGround(t *testing.T) {
	follower := helps("a.irq", "a", 1.1)
	follower.After = []string{"a.channels"}
	r, h := run(t, calm(helps("a.channels", "a", 1.1), follower, helps("b.other", "b", 1.05),
		helps("a.more", "a", 1.5)), 3, tune.Options{})
	for _, id := range []string{"a.channels", "a.irq"} {
		if !slices.Contains(h.Active(), id) || attempt(r, id).Outcome != tune.Kept {
			t.Errorf("%s does not stand: %v\n%s", id, h.Active(), story(h.Spec, r))
		}
	}
	must.Hold(t, r.Verdict == tune.Better, "%s: %s", r.Verdict, r.Why)
}

// narrow is a host that refuses one change while another one is set.
type narrow struct {
	*simulated.Host
	this, beside string
}

func (n narrow) Try(ctx context.Context, c tune.Candidate) error {
	if c.Key == n.this && slices.Contains(n.Active(), n.beside) {
		return tune.ErrRefused
	}
	return n.Host.Try(ctx, c)
}

// TestGoneTooFar: a change that is refused on top of the others is not measured again; it and they stay.
func TestGoneTooFar(t *testing.T) {
	s := calm(helps("a.first", "a", 1.1), helps("a.more", "a", 1.7), helps("b.later", "b", 1.1))
	s.Knobs[0].Weight = 1
	h := simulated.New(s, 1)
	r := runOn(t, narrow{h, "a.first", "b.later"}, tune.Options{Goal: goal.Goal{PPS: 1e9}})
	if want := []string{"a.first", "a.more", "b.later"}; !slices.Equal(h.Active(), want) ||
		attempt(r, "a.first").Outcome != tune.Kept {
		t.Errorf("standing %v, expected %v%s", h.Active(), want, story(s, r))
	}
}

// TestOnlyLoss: if the target's rate arrives and only the loss misses the target, a knob that only cuts the
// loss is kept, and one that only moves packets is not.
func TestOnlyLoss(t *testing.T) {
	for _, noise := range []simulated.Noise{{Jitter: 0.005}, {Jitter: 0.01, Stall: 0.03}, {Jitter: 0.02, Walk: 0.005}} {
		s := calm(simulated.Knob{ID: "a.ring", Stage: "a", BurstFactor: 0.1},
			simulated.Knob{ID: "a.nothing", Stage: "a"}, simulated.Knob{ID: "b.louder", Stage: "b", BurstFactor: 2})
		s.Capacity, s.Burst, s.Noise = map[string]float64{"a": 1.25e6, "b": 3e6}, 0.35, noise
		r, h := run(t, s, 4, tune.Options{Goal: goal.Goal{PPS: 1e6}})
		if r.Verdict != tune.Met || !slices.Contains(h.Active(), "a.ring") || slices.Contains(h.Active(), "a.nothing") {
			t.Errorf("%s (%s), standing %v%s", r.Verdict, r.Why, h.Active(), story(s, r))
		}
		a := attempt(r, "a.ring")
		if a.Gain.Lost == nil || a.Gain.Lost.Before < 2*a.Gain.Lost.After || !strings.Contains(a.Why, "loss") {
			t.Errorf("%s: %+v", a.Why, a.Gain.Lost)
		}
	}
}

// TestLossLater: a candidate of no use on an overloaded path is tried again once only the loss misses the target.
func TestLossLater(t *testing.T) {
	s := calm(simulated.Knob{ID: "a.ring", Stage: "a", Weight: 1, BurstFactor: 0.1}, helps("b.helps", "a", 1.6))
	s.Capacity, s.Burst = map[string]float64{"a": 0.8e6, "b": 3e6}, 0.35
	s = oneByOne(s)
	r, h := run(t, s, 5, tune.Options{Goal: goal.Goal{PPS: 1e6}})
	if r.Verdict != tune.Met || !slices.Equal(h.Active(), []string{"a.ring", "b.helps"}) {
		t.Errorf("%s (%s), standing %v%s", r.Verdict, r.Why, h.Active(), story(s, r))
	}
	if first := attempt(r, "a.ring"); first.N != 1 || first.Outcome == tune.Kept {
		t.Errorf("a.ring was to be tried first, and in vain: %+v", first)
	}
}

// TestQuietLoss: knobs that do nothing are not kept for losses that differ by chance.
func TestQuietLoss(t *testing.T) {
	kept := 0
	for seed := range uint64(20) {
		s := calm(simulated.Knob{ID: "a.1", Stage: "a"}, simulated.Knob{ID: "a.2", Stage: "a"},
			simulated.Knob{ID: "b.1", Stage: "b"}, simulated.Knob{ID: "b.2", Stage: "b"})
		s.Capacity, s.Burst, s.Noise = map[string]float64{"a": 1.25e6, "b": 3e6}, 0.35,
			simulated.Noise{Jitter: 0.02, Stall: 0.05}
		r, _ := run(t, s, seed, tune.Options{Goal: goal.Goal{PPS: 1e6}})
		kept += len(r.Kept)
	}
	must.Hold(t, kept <= 0, "%d knobs kept that do nothing", kept)
}

// TestTwoCores: software steering and threaded NAPI, which cost on two cores, are never kept, even if one
// widens the bottleneck.
func TestTwoCores(t *testing.T) {
	for i, noise := range []simulated.Noise{{Jitter: 0.01}, {Jitter: 0.03, Walk: 0.005}, {Jitter: 0.05, Stall: 0.03}} {
		for seed := range uint64(8) {
			s := simulated.Spec{
				Name: "two-cores", Stages: []string{"softirq", "vhost", "vcpu"}, Noise: noise, Mistaken: 0.05,
				Capacity: map[string]float64{"softirq": 0.6e6, "vhost": 0.7e6, "vcpu": 0.9e6},
				Knobs: []simulated.Knob{
					{ID: "nic.rps", Stage: "softirq", Weight: 0.8, Factors: map[string]float64{"softirq": 1.4,
						"vhost": 0.75, "vcpu": 0.75}},
					{ID: "nic.threaded", Stage: "softirq", Weight: 0.8,
						Factors: map[string]float64{simulated.All: 0.9}},
					{ID: "softirq.budget", Stage: "softirq", Weight: 0.4, Factors: map[string]float64{"softirq": 1.25}},
					{ID: "vhost.threads", Stage: "vhost", Weight: 0.4, Factors: map[string]float64{"vhost": 1.1}},
				},
			}
			r, h := run(t, s, seed, tune.Options{})
			for _, id := range h.Active() {
				if id == "nic.rps" || id == "nic.threaded" {
					t.Errorf("noise %d, seed %d: %s stands%s", i, seed, id, story(s, r))
				}
			}
		}
	}
}

// TestTwosCountOnce: two candidates that were kept together count as one rejection in the alpha of the next test.
func TestTwosCountOnce(t *testing.T) {
	second := helps("a.2", "a", 1.4)
	second.Needs = []string{"a.1"}
	// else all that is left would be kept at once
	spoiler := simulated.Knob{ID: "b.0", Stage: "b", Spoils: map[string]float64{"a.2": 0.5}}
	s := calm(simulated.Knob{ID: "a.1", Stage: "a"}, second, spoiler, helps("b.1", "b", 1.5))
	r, _ := run(t, s, 1, tune.Options{})
	won := 0
	for i, a := range r.Attempts {
		if want := 1 / tune.Spend(0.05, i+1, 16, won); math.Abs(a.Needed/want-1) > 1e-9 {
			t.Errorf("attempt %d (%s) behind %d that were kept needed %.1f, expected %.1f", a.N, a.Key, won, a.Needed,
				want)
		}
		if a.Outcome == tune.Kept {
			won++
		}
	}
	pair := slices.IndexFunc(r.Attempts, func(a tune.Attempt) bool { return len(a.IDs) == 2 && a.Outcome == tune.Kept })
	if pair < 0 || pair == len(r.Attempts)-1 {
		t.Errorf("no pair was kept with an attempt after it: %s", story(s, r))
	}
}

// TestUntried: candidates that were tried are not listed as untried, the others are.
func TestUntried(t *testing.T) {
	r, _ := run(t, still(), 1, tune.Options{Goal: goal.Goal{PPS: 1.5e6}})
	tried := map[string]bool{}
	for _, a := range r.Attempts {
		tried[a.Key] = true
	}
	for _, u := range r.Untried {
		must.Hold(t, !tried[u.Key] && u.Why == "the target holds without it",
			"%s is said not to have been tried: %s", u.Key, u.Why)
	}
	must.Hold(t, len(tried)+len(r.Untried) == 3, "%d tried, not tried %v, expected three in all", len(tried), r.Untried)
}

// broken is a host whose initial state cannot be restored.
type broken struct{ *simulated.Host }

func (b broken) Reset(context.Context) error { return errors.New("the journal is gone") }

// TestNotRestored: if the initial state could not be restored, the result does not claim it was, and the error has the
// reason.
func TestNotRestored(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := tune.Run(ctx, broken{simulated.New(still(), 1)}, tune.Options{Seed: 1, Goal: goal.Goal{PPS: 1.5e6},
		Progress: func(p tune.Progress) {
			if p.What == "try" && len(p.Attempt.Gain.Pairs) > 0 {
				cancel()
			}
		}})
	must.Hold(t, err != nil && strings.Contains(err.Error(), "journal is gone") && errors.Is(err, context.Canceled),
		"error %v", err)
	must.Hold(t, r.Verdict == tune.Interrupted && !strings.Contains(r.Why, "as it was found") &&
		strings.Contains(r.Why, "journal is gone"), "%s: %s", r.Verdict, r.Why)
}

// deaf is a host whose trials fail after some time.
type deaf struct {
	*simulated.Host
	left int
}

func (d *deaf) Sample(ctx context.Context, pps float64, length int, exact bool) (float64, error) {
	if d.left--; d.left < 0 {
		return 0, errors.New("the agent is gone")
	}
	return d.Host.Sample(ctx, pps, length, exact)
}

// TestFailed: an error is no interruption by the user; the initial state is restored all the same.
func TestFailed(t *testing.T) {
	h := &deaf{simulated.New(still(), 1), 6}
	r, err := tune.Run(t.Context(), h, tune.Options{Seed: 1, Goal: goal.Goal{PPS: 1e9}})
	if err == nil || r.Verdict != tune.Failed || !strings.Contains(r.Why, "agent is gone") ||
		!strings.Contains(r.Why, "as it was found") || len(h.Active()) > 0 {
		t.Errorf("%v; %s: %s; standing %v", err, r.Verdict, r.Why, h.Active())
	}
}
