package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"mpps/internal/plan"
	"mpps/internal/setting"
	"mpps/internal/tune"
)

// TestGivenAgain: the flags of a run that waits are given to the one that goes on as they were, and found there again for the next.
func TestGivenAgain(t *testing.T) {
	command := func() *cobra.Command { return (&app{}).tuneCommand() }
	first := command()
	if err := first.ParseFlags([]string{"--pps", "1M", "--only", "nic.channels,nic.xps", "--consent", "security", "--learned", "a", "--trial", "2s"}); err != nil {
		t.Fatal(err)
	}
	second := command()
	for name, values := range given(first.Flags()) {
		if err := giveAgain(second.Flags(), name, values); err != nil {
			t.Errorf("--%s: %v", name, err)
		}
	}
	if got, want := given(second.Flags()), given(first.Flags()); !reflect.DeepEqual(got, want) || len(want["only"]) != 2 {
		t.Errorf("given again: %v, expected %v", got, want)
	}
	if giveAgain(second.Flags(), "flavour", []string{"sweet"}) == nil || giveAgain(second.Flags(), "pps", nil) == nil {
		t.Error("a flag that is not there, and one without a value, are taken")
	}
}

// TestLearnedOnce: behind a restart only what is tried there is learned.
func TestLearnedOnce(t *testing.T) {
	e := &tune.Earlier{Attempts: []tune.Attempt{{Key: "before", Outcome: tune.Useless}}}
	r := &tune.Result{Attempts: []tune.Attempt{e.Attempts[0], {Key: "restart of guest vm1", Outcome: tune.NotShown}, {Key: "behind", Outcome: tune.Useless}}}
	if known := (tune.Effects{}).Learn("box", newAttempts(r, e)).Known; len(known) != 1 || known[0].Key != "behind" {
		t.Errorf("learned %+v", known)
	}
	if known := (tune.Effects{}).Learn("box", newAttempts(&tune.Result{}, e)).Known; len(known) != 0 {
		t.Errorf("learned of nothing: %+v", known)
	}
	if newAttempts(r, nil) != r {
		t.Error("without an earlier run not all is learned")
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
		{tune.Result{Kept: []string{"a"}, TX: "t1", Chain: []string{"t1", "t2"}}, "2 transactions, each on top of the one before (t1, t2); 'mpps rollback --with-later t1' undoes it"},
		{tune.Result{Kept: []string{"a"}, TX: "t1", Chain: []string{"t1"}, RestartTX: "t2"}, "'mpps rollback --with-later t1' undoes it, with what waits"},
		{tune.Result{RestartTX: "t2"}, "'mpps rollback t2' undoes it"},
	} {
		if got := standingText(&c.r); !strings.Contains(got, c.says) || c.says == "" && got != "" {
			t.Errorf("%+v: %q, expected %q", c.r, got, c.says)
		}
	}
}

// TestSooner: a reboot of the host waits until no guest's restart is left.
func TestSooner(t *testing.T) {
	guest, other, host := plan.Change{ID: "domain.queues", Needs: setting.RestartOf("vm1")}, plan.Change{ID: "domain.backend", Needs: setting.RestartOf("vm2")}, plan.Change{ID: "boot.aspm", Needs: setting.Reboot()}
	for _, c := range []struct{ all, want []plan.Change }{
		{[]plan.Change{host, guest, other}, []plan.Change{guest, other}}, {[]plan.Change{host}, []plan.Change{host}},
	} {
		if got := sooner(c.all); len(got) != len(c.want) || got[0].ID != c.want[0].ID {
			t.Errorf("%v, expected %v", got, c.want)
		}
	}
}

// TestNextTexts: a restart to come and one to be taken back are two things.
func TestNextTexts(t *testing.T) {
	r := &tune.Result{RestartTX: "t2", RestartFor: "restart of guest vm1", Waits: []tune.Wait{{For: "restart of guest vm1"}, {For: "reboot of the host"}, {For: "rollback of t1 and a restart of guest vm2", Undo: "t1"}}}
	want := []string{
		"next: restart of guest vm1, then 'mpps tune --resume'; what takes effect then is transaction t2",
		"to take back what is not proven to help: 'mpps rollback --with-later t1', then the restart again",
	}
	if got := nextTexts(r); !slices.Equal(got, want) {
		t.Errorf("%q, expected %q", got, want)
	}
	if got := nextTexts(&tune.Result{Waits: r.Waits[:1]}); len(got) > 0 {
		t.Errorf("nothing was made: %q", got)
	}
}
