package knob

import (
	"testing"
	"time"

	"mpps/internal/must"
)

func TestAge(t *testing.T) {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	for at, want := range map[time.Time]string{
		now: "today", now.Add(-23 * time.Hour): "today", now.Add(-25 * time.Hour): "1 day ago",
		now.AddDate(-1, 0, 0): "365 days ago",
		{}:                    "at an unknown time", now.Add(time.Hour): "at an unknown time",
	} {
		must.Equal(t, Age(at, now), want, "%v", at)
	}
}

// TestAttestedChecks: what a person attests is never something that mpps sets.
func TestAttestedChecks(t *testing.T) {
	for _, k := range Catalogue() {
		if values, _ := Attestable(k.ID); len(values) > 0 && !k.Check {
			t.Errorf("%s can be attested, and mpps sets it", k.ID)
		}
	}
}
