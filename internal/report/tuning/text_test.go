package tuning

import (
	"slices"
	"strings"
	"testing"

	"mpps/internal/advise/tune"
	"mpps/internal/must"
	"mpps/internal/report"
)

// TestTuneNext: what is not proven is said to stand until it is rolled back, and is no restart that the next step waits
// for.
func TestTuneNext(t *testing.T) {
	t.Parallel()
	r := &tune.Result{Verdict: tune.Waiting, RestartTX: "tx2", RestartFor: "reboot", Waits: []tune.Wait{
		{For: "reboot", Keys: []string{"kernel.isolcpus"}},
		{For: "rollback of tx1 and a restart of guest web1", Keys: []string{"domain.queues"}, Undo: "tx1"},
	}}
	got := strings.Join(strings.Fields(report.Draw(200, func(text *report.Text) { Text(text, r, nil) })), " ")
	must.Contain(t, got,
		"after a reboot: kernel.isolcpus", "not proven, and stands until a rollback of tx1 and a restart of guest "+
			"web1: domain.queues", "next: reboot, then 'mpps tune --resume'")
}

// TestStanding: of a run that went on behind a restart both halves can be undone, the newer one first.
func TestStanding(t *testing.T) {
	t.Parallel()
	r := &tune.Result{TX: "tx3", Chain: []string{"tx3"}, Restarted: "restart of guest web1",
		UndoEarlier: []string{"mpps rollback --with-later tx1"}}
	want := "kept as transaction tx3; 'mpps rollback tx3' undoes it; what stood before the restart of guest web1 is " +
		"undone by 'mpps rollback --with-later tx1', and that restart again"
	must.Equal(t, standingText(r), want, "standingText(r)")
	r.TX, r.Chain, r.Kept, r.Verdict = "", nil, nil, tune.Interrupted
	if got := standingText(r); !strings.HasPrefix(got, "what stood before") {
		t.Errorf("found %q", got)
	}
}

// TestStandingText: it is said what stands, and which transactions are to be named to undo it.
func TestStandingText(t *testing.T) {
	for _, c := range []struct {
		r    tune.Result
		says string
	}{
		{tune.Result{}, "nothing was changed"},
		{tune.Result{Verdict: tune.Interrupted}, ""},
		{tune.Result{Kept: []string{"a"}, Proposed: true}, "proposed only"},
		{tune.Result{Kept: []string{"a"}, TX: "t1", Chain: []string{"t1"}}, "'mpps rollback t1' undoes it"},
		{tune.Result{Kept: []string{"a"}, TX: "t1", Chain: []string{"t1", "t2"}},
			"2 transactions, each on top of the one before (t1, t2); 'mpps rollback --with-later t1' undoes it"},
		{tune.Result{Kept: []string{"a"}, TX: "t1", Chain: []string{"t1"}, RestartTX: "t2"},
			"'mpps rollback --with-later t1' undoes it, with what waits"},
		{tune.Result{RestartTX: "t2"}, "'mpps rollback t2' undoes it"},
	} {
		if got := standingText(&c.r); !strings.Contains(got, c.says) || c.says == "" && got != "" {
			t.Errorf("%+v: %q, expected %q", c.r, got, c.says)
		}
	}
}

// TestNextTexts: a restart to come and one to be taken back are two things.
func TestNextTexts(t *testing.T) {
	r := &tune.Result{RestartTX: "t2", RestartFor: "restart of guest vm1",
		Waits: []tune.Wait{{For: "restart of guest vm1"}, {For: "reboot of the host"},
			{For: "rollback of t1 and a restart of guest vm2", Undo: "t1"}}}
	want := []string{
		"next: restart of guest vm1, then 'mpps tune --resume'; what takes effect then is transaction t2",
		"to take back what is not proven to help: 'mpps rollback --with-later t1', then the restart again",
	}
	if got := nextTexts(r); !slices.Equal(got, want) {
		t.Errorf("%q, expected %q", got, want)
	}
	must.Empty(t, nextTexts(&tune.Result{Waits: r.Waits[:1]}), "nothing was made")
}
