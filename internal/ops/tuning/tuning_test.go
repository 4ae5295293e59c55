package tuning

import (
	"testing"
	"time"

	"mpps/internal/advise/plan"
	"mpps/internal/advise/tune"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// TestMerged: of a value that several parts change, the first part's beginning and the last one's end count, at the
// first one's place.
func TestMerged(t *testing.T) {
	t.Parallel()
	change := func(name, from, to string) plan.Change {
		return plan.Change{Address: setting.Of(setting.Sysctl, name), From: setting.Value(from), To: setting.Value(to)}
	}
	got := mergeChanges([]plan.Change{change("a", "1", "2"), change("b", "1", "2")},
		[]plan.Change{change("a", "2", "3"), change("c", "1", "2")})
	want := []plan.Change{change("a", "1", "3"), change("b", "1", "2"), change("c", "1", "2")}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if got[i].Address != want[i].Address || got[i].From.Value != want[i].From.Value ||
			got[i].To.Value != want[i].To.Value {
			t.Errorf("change %d: %+v, expected %+v", i+1, got[i], want[i])
		}
	}
}

// TestSearching: a search takes no more than a sixth of the budget, and never more than a minute.
func TestSearching(t *testing.T) {
	t.Parallel()
	for budget, want := range map[time.Duration]time.Duration{0: time.Minute, time.Hour: time.Minute,
		90 * time.Second: 15 * time.Second} {
		if got := searchOptions(goal.Goal{}, budget, 1e6, nil).Budget; got != want {
			t.Errorf("budget %v: a search of %v, expected %v", budget, got, want)
		}
	}
}

// TestSooner: a reboot of the host waits until no guest's restart is left.
func TestSooner(t *testing.T) {
	guest, other, host := plan.Change{ID: "domain.queues", Needs: setting.RestartOf("vm1")},
		plan.Change{ID: "domain.backend", Needs: setting.RestartOf("vm2")},
		plan.Change{ID: "boot.aspm", Needs: setting.Reboot()}
	for _, c := range []struct{ all, want []plan.Change }{
		{[]plan.Change{host, guest, other}, []plan.Change{guest, other}}, {[]plan.Change{host}, []plan.Change{host}},
	} {
		if got := leastDisruptive(c.all); len(got) != len(c.want) || got[0].ID != c.want[0].ID {
			t.Errorf("%v, expected %v", got, c.want)
		}
	}
}

// TestLearnedOnce: behind a restart only what is tried there is learned.
func TestLearnedOnce(t *testing.T) {
	e := &tune.Earlier{Attempts: []tune.Attempt{{Key: "before", Outcome: tune.Useless}}}
	r := &tune.Result{Attempts: []tune.Attempt{e.Attempts[0], {Key: "restart of guest vm1", Outcome: tune.NotShown},
		{Key: "behind", Outcome: tune.Useless}}}
	if known := (tune.Effects{}).Learn("box", withoutEarlier(r, e)).Known; len(known) != 1 || known[0].Key != "behind" {
		t.Errorf("learned %+v", known)
	}
	if known := (tune.Effects{}).Learn("box", withoutEarlier(&tune.Result{}, e)).Known; len(known) != 0 {
		t.Errorf("learned of nothing: %+v", known)
	}
	if withoutEarlier(r, nil) != r {
		t.Error("without an earlier run not all is learned")
	}
}
