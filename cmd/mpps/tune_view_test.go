package main

import (
	"strings"
	"testing"
	"time"

	"mpps/internal/goal"
	"mpps/internal/report"
	"mpps/internal/tune"
)

// TestTuneNext: what is not proven is said to stand until it is rolled back, and is no restart that the next step waits for.
func TestTuneNext(t *testing.T) {
	t.Parallel()
	r := &tune.Result{Verdict: tune.Waiting, RestartTX: "tx2", RestartFor: "reboot", Waits: []tune.Wait{
		{For: "reboot", Keys: []string{"kernel.isolcpus"}},
		{For: "rollback of tx1 and a restart of guest web1", Keys: []string{"domain.queues"}, Undo: "tx1"},
	}}
	got := strings.Join(strings.Fields(report.Draw(200, func(text *report.Text) { drawTune(text, r, nil) })), " ")
	for _, want := range []string{
		"behind a reboot: kernel.isolcpus", "not proven, and stands until a rollback of tx1 and a restart of guest web1: domain.queues",
		"next: reboot, then 'mpps tune --resume'",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
}

// TestStanding: of a run that went on behind a restart both halves can be undone, the newer one first.
func TestStanding(t *testing.T) {
	t.Parallel()
	r := &tune.Result{TX: "tx3", Chain: []string{"tx3"}, Restarted: "restart of guest web1", UndoEarlier: []string{"mpps rollback --with-later tx1"}}
	want := "kept as transaction tx3; 'mpps rollback tx3' undoes it; what stood before the restart of guest web1 is undone by 'mpps rollback --with-later tx1', and that restart again"
	if got := standingText(r); got != want {
		t.Errorf("found %q, expected %q", got, want)
	}
	r.TX, r.Chain, r.Kept, r.Verdict = "", nil, nil, tune.Interrupted
	if got := standingText(r); !strings.HasPrefix(got, "what stood before") {
		t.Errorf("found %q", got)
	}
}

// TestSearching: a search takes no more than a sixth of the budget, and never more than a minute.
func TestSearching(t *testing.T) {
	t.Parallel()
	for budget, want := range map[time.Duration]time.Duration{0: time.Minute, time.Hour: time.Minute, 90 * time.Second: 15 * time.Second} {
		if got := searching(goal.Goal{}, budget, 1e6, nil).Budget; got != want {
			t.Errorf("budget %v: a search of %v, expected %v", budget, got, want)
		}
	}
}
