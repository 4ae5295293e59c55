package main

import (
	"testing"

	"mpps/internal/plan"
	"mpps/internal/setting"
)

// TestMerged: of a value that several parts change, the first part's beginning and the last one's end count, at the first one's place.
func TestMerged(t *testing.T) {
	t.Parallel()
	change := func(name, from, to string) plan.Change {
		return plan.Change{Address: setting.Of(setting.Sysctl, name), From: setting.Value(from), To: setting.Value(to)}
	}
	got := merged([]plan.Change{change("a", "1", "2"), change("b", "1", "2")}, []plan.Change{change("a", "2", "3"), change("c", "1", "2")})
	want := []plan.Change{change("a", "1", "3"), change("b", "1", "2"), change("c", "1", "2")}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if got[i].Address != want[i].Address || got[i].From.Value != want[i].From.Value || got[i].To.Value != want[i].To.Value {
			t.Errorf("change %d: %+v, expected %+v", i+1, got[i], want[i])
		}
	}
}
