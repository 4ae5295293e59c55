package tune_test

import (
	"slices"
	"testing"

	"mpps/internal/goal"
	"mpps/internal/tune"
	"mpps/internal/tune/simulated"
)

// TestBehindRestart: what took effect with a restart is judged by trials before and behind it, and the run goes on.
func TestBehindRestart(t *testing.T) {
	for _, c := range []struct {
		name    string
		factor  float64 // of what took effect
		outcome tune.Outcome
	}{{"helps", 3, tune.Kept}, {"nothing", 1, tune.NotShown}, {"hurts", 0.5, tune.Hurts}} {
		s := still()
		before := simulated.New(s, 1)
		samples, err := tune.Ahead(t.Context(), before, 2e6)
		if err != nil {
			t.Fatal(err)
		}
		s.Capacity = map[string]float64{"a": 1e6 * c.factor, "b": 5e6}
		earlier := &tune.Earlier{
			Restart: "restart of guest vm1", Keys: []string{"domain.queues"}, TX: "tx", LoadPPS: 2e6, Samples: samples,
			Baseline: tune.Rate{PPS: 0.9e6, LimitedBy: "device"}, Attempts: []tune.Attempt{{N: 1, Key: "before", Outcome: tune.Kept}}, Kept: []string{"before"},
		}
		r, _ := run(t, s, 2, tune.Options{Goal: goal.Goal{PPS: 1.9e6}, Earlier: earlier})
		if len(r.Attempts) < 2 || r.Attempts[1].Outcome != c.outcome || r.Attempts[1].Key != earlier.Restart {
			t.Errorf("%s: %+v", c.name, r.Attempts)
		}
		if r.Baseline.PPS != 0.9e6 || !slices.Contains(r.Kept, "before") {
			t.Errorf("%s: baseline %g, kept %v", c.name, r.Baseline.PPS, r.Kept)
		}
		met := map[string]bool{"helps": true, "nothing": true}[c.name]
		if (r.Verdict == tune.Met) != met {
			t.Errorf("%s: %s: %s", c.name, r.Verdict, r.Why)
		}
		// Behind a restart that did it all, nothing more is tried.
		if c.name == "helps" && (len(r.Added) > 0 || len(r.Attempts) != 2) {
			t.Errorf("added %v in %d attempts", r.Added, len(r.Attempts))
		}
		if c.name == "nothing" && !slices.Equal(r.Added, []string{"a.helps"}) {
			t.Errorf("added %v", r.Added)
		}
	}
}
