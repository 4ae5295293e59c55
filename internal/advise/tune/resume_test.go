package tune_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"mpps/internal/advise/tune"
	"mpps/internal/advise/tune/simulated"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestAfterRestart: what took effect with a restart is judged by trials before and after it, and the run goes on.
func TestAfterRestart(t *testing.T) {
	for _, c := range []struct {
		name    string
		factor  float64 // of what took effect
		outcome tune.Outcome
	}{{"helps", 3, tune.Kept}, {"nothing", 1, tune.NotShown}, {"hurts", 0.5, tune.Hurts}} {
		s := still()
		before := simulated.New(s, 1)
		samples := must.Get(tune.RestartSamples(t.Context(), before, 2e6, 0, func() bool { return false }))(t)
		s.Capacity = map[string]float64{"a": 1e6 * c.factor, "b": 5e6}
		earlier := &tune.Earlier{
			Restart: "restart of guest vm1", Keys: []string{"domain.queues"}, TX: "tx", LoadPPS: 2e6, Samples: samples,
			Baseline: tune.Rate{PPS: 0.9e6, LimitedBy: "device"},
			Attempts: []tune.Attempt{{N: 1, Key: "before", Outcome: tune.Kept}}, Kept: []string{"before"},
		}
		r, _ := run(t, s, 2, tune.Options{Goal: goal.Goal{PPS: 1.9e6}, Earlier: earlier})
		must.Hold(t, len(r.Attempts) >= 2 && r.Attempts[1].Outcome == c.outcome && r.Attempts[1].Key == earlier.Restart,
			"%s: %+v", c.name, r.Attempts)
		must.Hold(t, r.Baseline.PPS == 0.9e6 && slices.Contains(r.Kept, "before"),
			"%s: baseline %g, kept %v", c.name, r.Baseline.PPS, r.Kept)
		met := map[string]bool{"helps": true, "nothing": true}[c.name]
		must.Hold(t, (r.Verdict == tune.Met) == met, "%s: %s: %s", c.name, r.Verdict, r.Why)
		// After a restart that reached the target, nothing more is tried.
		if c.name == "helps" && (len(r.Added) > 0 || len(r.Attempts) != 2) {
			t.Errorf("added %v in %d attempts", r.Added, len(r.Attempts))
		}
		if c.name == "nothing" && !slices.Equal(r.Added, []string{"a.helps"}) {
			t.Errorf("added %v", r.Added)
		}
		// What is not proven stays; the next step is to roll it back.
		offered := slices.ContainsFunc(r.Waits, func(w tune.Wait) bool {
			return w.Undo == "tx" && w.For == "rollback of tx and a restart of guest vm1" &&
				slices.Equal(w.Keys, earlier.Keys)
		})
		advised := slices.ContainsFunc(r.Advice,
			func(a tune.Advice) bool { return strings.Contains(a.Text, "'mpps rollback tx'") })
		if unproven := c.outcome != tune.Kept; offered != unproven || advised != unproven {
			t.Errorf("%s: next %v, advice %v", c.name, r.Waits, r.Advice)
		}
	}
}

// TestBudgetAfterRestart: long trials after a restart stay within the budget.
func TestBudgetAfterRestart(t *testing.T) {
	h := &timed{Host: simulated.New(still(), 1), trial: 30 * time.Second, search: 10 * time.Second}
	r := runOn(t, h, tune.Options{
		Goal: goal.Goal{PPS: 1.9e6}, Budget: 2 * time.Minute, Now: func() time.Time { return h.now },
		Earlier: &tune.Earlier{Restart: "reboot", TX: "tx", LoadPPS: 2e6, Samples: []float64{5e5, 5e5, 5e5, 5e5, 5e5,
			5e5, 5e5, 5e5}, Baseline: tune.Rate{PPS: 0.5e6, LimitedBy: "device"}},
	})
	if n := len(r.Attempts[0].Gain.Pairs); n < 3 || n > 4 || r.Attempts[0].Outcome != tune.Kept {
		t.Errorf("%d trials behind the restart: %+v", n, r.Attempts[0])
	}
	if took := h.now.Sub(time.Time{}); took > 150*time.Second {
		t.Errorf("took %v: %s", took, r.Why)
	}
}

// TestGeneratorAfterRestart: if the generator is the limit after a restart, the verdict does not deny what was changed.
func TestGeneratorAfterRestart(t *testing.T) {
	s := still()
	s.Sends = 0.6e6
	r := runOn(t, advised{simulated.New(s, 1)}, tune.Options{Goal: goal.Goal{PPS: 1.9e6}, Earlier: &tune.Earlier{
		Restart: "restart of guest vm1", Keys: []string{"domain.queues"}, TX: "tx", LoadPPS: 2e6,
		Samples:  []float64{5e5, 5e5, 5e5},
		Baseline: tune.Rate{PPS: 0.5e6, LimitedBy: "device"},
	}})
	must.Hold(t, r.Verdict == tune.NotDevice && strings.Contains(r.Why, "nothing more was changed") && has(r, "gear"),
		"%s: %s; advice %v", r.Verdict, r.Why, r.Advice)
}

// waiting is a simulated host on which a planned change needs a restart.
type waiting struct {
	*simulated.Host
	needs setting.Needs
}

func (w waiting) Candidates(ctx context.Context) ([]tune.Candidate, error) {
	all, err := w.Host.Candidates(ctx)
	return append(all, tune.Candidate{Key: "domain.nic_model", IDs: []string{"domain.nic_model"}, Planned: true,
		Needs: w.needs}), err
}

// TestRestartFirst: a guest's restart comes before any trial of a change, the host's reboot after all of them.
func TestRestartFirst(t *testing.T) {
	for _, c := range []struct {
		needs setting.Needs
		first bool
	}{{setting.RestartOf("vm1"), true}, {setting.Reboot(), false}} {
		h := waiting{simulated.New(still(), 1), c.needs}
		r := runOn(t, h, tune.Options{Goal: goal.Goal{PPS: 5e6}, RestartFirst: true})
		if first := len(r.Attempts) == 0; first != c.first || r.Verdict != tune.Waiting || len(r.Waits) != 1 ||
			r.Waits[0].For != c.needs.String() {
			t.Errorf("%s: %s: %s; %d attempts, waits for %+v", c.needs, r.Verdict, r.Why, len(r.Attempts), r.Waits)
		}
	}
}

// TestShownAcrossRestarts: the headline has what every run has shown, also where two of them waited for the same
// restart, and nothing of a restart that did not help.
func TestShownAcrossRestarts(t *testing.T) {
	restart := func(outcome tune.Outcome, ratio float64) tune.Attempt {
		return tune.Attempt{Key: "restart of guest vm1", Outcome: outcome, Gain: tune.Gain{Ratio: ratio}}
	}
	for _, c := range []struct {
		name     string
		earlier  *tune.Gain
		attempts []tune.Attempt
		whole    float64
		want     float64
	}{
		{"one restart", nil, []tune.Attempt{restart(tune.Kept, 4)}, 0, 4},
		{"and a proof", nil, []tune.Attempt{restart(tune.Kept, 4)}, 1.5, 6},
		{"two restarts", &tune.Gain{Ratio: 4}, []tune.Attempt{restart(tune.Kept, 4), restart(tune.Kept, 2)}, 1.5, 12},
		{"the second did not help", &tune.Gain{Ratio: 4},
			[]tune.Attempt{restart(tune.Kept, 4), restart(tune.NotShown, 1)}, 0, 4},
		{"nothing", nil, []tune.Attempt{restart(tune.NotShown, 1)}, 0, 0},
	} {
		r := tune.Result{Restarted: "restart of guest vm1", Earlier: c.earlier, Attempts: c.attempts}
		if c.whole > 0 {
			r.Added, r.Whole = []string{"a"}, tune.Gain{Ratio: c.whole}
		}
		if gain, shown := r.Shown(); gain.Ratio != c.want || shown != (c.want > 0) {
			t.Errorf("%s: ×%g, %v; expected ×%g", c.name, gain.Ratio, shown, c.want)
		}
	}
}
