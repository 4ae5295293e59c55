package tune_test

import (
	"slices"
	"testing"

	"mpps/internal/advise/tune"
	"mpps/internal/model/goal"
	"mpps/internal/must"
)

// TestUndone: what a run added is removed from its result, what was kept before it is not.
func TestUndone(t *testing.T) {
	r, _ := run(t, still(), 1, tune.Options{Goal: goal.Goal{PPS: 1.5e6}})
	must.Need(t, slices.Equal(r.Added, []string{"a.helps"}), "added %v", r.Added)
	r.Kept = append([]string{"before"}, r.Kept...)
	r.Kept = append([]string{"x.2"}, r.Kept...)
	r.Attempts = append([]tune.Attempt{{Key: "before", Outcome: tune.Kept},
		{Key: "x.1+x.2", Parts: []string{"x.1", "x.2"}, Outcome: tune.Kept}}, r.Attempts...)
	r.MarkUndone(tune.Rate{PPS: 7}, tune.Failed, "it could not be made to last")
	must.Hold(t, slices.Equal(r.Kept, []string{"x.2", "before"}) && len(r.Added) <= 0 && r.Final.PPS == 7 &&
		r.Verdict == tune.Failed && r.After == nil,
		"%s, kept %v, added %v, final %g", r.Verdict, r.Kept, r.Added, r.Final.PPS)
	for _, a := range r.Attempts {
		if stood := a.Key == "before" || a.Key == "x.1+x.2"; (a.Outcome == tune.Kept) != stood {
			t.Errorf("%s: %s", a.Key, a.Outcome)
		}
	}
}
