package apply

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"mpps/internal/advise/plan"
	"mpps/internal/change/journal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// applied applies a plan that must succeed.
func applied(t *testing.T, e *Engine, p *plan.Plan, beside ...setting.Address) string {
	t.Helper()
	result := must.Get(e.Run(t.Context(), p, Options{Beside: beside}))(t)
	return result.TX
}

// then is a plan from "new" to another value of the first n values.
func then(n int, value string) *plan.Plan {
	p := changes(n)
	for i := range p.Changes {
		p.Changes[i].From, p.Changes[i].To, p.Changes[i].Want = setting.Value("new"), setting.Value(value),
			setting.Exact(value)
	}
	return p
}

func TestRollbackIsInReverse(t *testing.T) {
	f := newFake(t, 3)
	e := engine(t, f)
	before := f.snapshot()
	tx := applied(t, e, changes(3))
	f.writes = nil
	done, err := e.Rollback(t.Context(), RollbackOptions{})
	must.Need(t, err == nil && len(done) == 1 && done[0].Of == tx && done[0].Written() == 3, "%+v, %v", done, err)
	must.Equal(t, strings.Join(f.writes, " "), "net.v02=old net.v01=old net.v00=old", "writes")
	if !f.same(before) || state(t, e) != IsClean {
		t.Errorf("the machine is %v (%s)", f.values, state(t, e))
	}
	if done, err := e.Rollback(t.Context(), RollbackOptions{}); err != nil || len(done) != 0 {
		t.Errorf("a second rollback: %+v, %v; expected nothing to do", done, err)
	}
	if done, err := e.Rollback(t.Context(), RollbackOptions{TX: tx}); err != nil || len(done) != 0 {
		t.Errorf("a second rollback by name: %+v, %v; expected nothing to do", done, err)
	}
}

// TestRollbackOfWhatIsInHand: nothing is written where something stands against it, unless it is forced, or is the end
// of a wait for a confirmation.
func TestRollbackOfWhatIsInHand(t *testing.T) {
	held := errors.New("guest a runs with it")
	for _, c := range []struct {
		options RollbackOptions
		refused bool
	}{
		{RollbackOptions{}, true}, {RollbackOptions{DryRun: true}, true}, {RollbackOptions{Force: true}, false},
		{RollbackOptions{Why: "not confirmed"}, false},
	} {
		f := newFake(t, 2)
		e := engine(t, f)
		tx := applied(t, e, changes(2))
		f.writes = nil
		e.InHand = func(_ context.Context, all []journal.Change) error {
			must.Equal(t, len(all), 2, "changes asked about")
			return held
		}
		_, err := e.Rollback(t.Context(), c.options)
		if c.refused != errors.Is(err, held) || c.refused && (!strings.Contains(err.Error(), tx) || len(f.writes) > 0) {
			t.Errorf("%+v: %v, wrote %v", c.options, err, f.writes)
		}
	}
}

func TestRollbackLeavesDriftAlone(t *testing.T) {
	f := newFake(t, 3)
	e := engine(t, f)
	tx := applied(t, e, changes(3))
	f.values[address(1)] = setting.Value("by hand")
	must.Equal(t, state(t, e), IsDrifted, "status")
	preview, err := e.Rollback(t.Context(), RollbackOptions{DryRun: true})
	must.Need(t, err == nil && preview[0].Drifted() == 1 && f.values[address(0)].Value == "new",
		"dry run: %+v, %v", preview, err)
	done, err := e.Rollback(t.Context(), RollbackOptions{})
	must.Need(t, err == nil && done[0].Drifted() == 1 && done[0].Written() == 2,
		"%+v, %v; expected one left alone", done, err)
	must.Equal(t, f.values[address(1)].Value, "by hand", "the value changed by hand")
	if done, err = e.Rollback(t.Context(), RollbackOptions{TX: tx, Force: true}); err != nil || done[0].Written() != 1 {
		t.Fatalf("--force: %+v, %v; expected one put back", done, err)
	}
	must.Equal(t, f.values[address(1)].Value, "old", "the value changed by hand after --force")
}

func TestRollbackOfAGuestThatIsOff(t *testing.T) {
	thread, rule := setting.Of(setting.ThreadAffinity, "vm1", "vcpu", "0"),
		setting.Of(setting.NetfilterRule, "nflog-skip", "nft")
	f := newFake(t, 0)
	f.values[thread] = setting.Value("0-3")
	e := engine(t, f)
	applied(t, e, &plan.Plan{Changes: []plan.Change{
		{ID: "vcpupin", Address: thread, From: setting.Value("0-3"), To: setting.Value("1"), Want: setting.Exact("1")},
		{ID: "rule", Address: rule, From: setting.Missing("no rule"), To: setting.Value("present"),
			Want: setting.Exact("present")},
	}})
	delete(f.values, thread)
	s, err := e.Status(t.Context())
	must.Hold(t, err == nil && s.Rows[0].State == NotThere && s.State == IsApplied,
		"status is %+v, %v; expected the thread to be absent and nothing drifted", s, err)
	done, err := e.Rollback(t.Context(), RollbackOptions{})
	must.Need(t, err == nil && done[0].Drifted() == 0 && done[0].Written() == 1,
		"%+v, %v; expected the rule removed and nothing to restore for the thread", done, err)
	must.Equal(t, f.values[rule].State, setting.Absent, "the rule")
	must.Equal(t, done[0].Changes[1].Reason, journal.Gone, "the thread")
}

func TestRollbackOfAGuestThatWasStartedAnew(t *testing.T) {
	thread := setting.Of(setting.ThreadAffinity, "vm1", "vhost", "52:54:00:00:00:01", "0")
	f := newFake(t, 0)
	f.values[thread] = setting.Value("0-3")
	e := engine(t, f)
	applied(t, e, &plan.Plan{Changes: []plan.Change{
		{ID: "vhost.threads", Address: thread, From: setting.Value("0-3"), To: setting.Value("1"),
			Want: setting.Exact("1"), Lasts: setting.UntilGuestStop},
	}})
	f.values[thread] = setting.Value("0-7")
	e.Reset = func(c journal.Change, since time.Time) string {
		must.Hold(t, !since.IsZero(), "asked for what happened since the zero time")
		return "guest vm1 was restarted"
	}
	if s, err := e.Status(t.Context()); err != nil || s.State != IsDrifted ||
		!strings.Contains(s.Rows[0].Why, "restarted") {
		t.Errorf("status is %+v, %v; expected drift with its reason", s, err)
	}
	done, err := e.Rollback(t.Context(), RollbackOptions{})
	must.Hold(t, err == nil && done[0].Drifted() == 0 && f.values[thread].Value == "0-7" &&
		done[0].Changes[0].Reason == journal.Gone,
		"%+v, %v, thread on %s; expected nothing to restore", done, err, f.values[thread])
}

func TestRollbackOfWhatOthersBuiltOn(t *testing.T) {
	f := newFake(t, 3)
	e := engine(t, f)
	before := f.snapshot()
	first := applied(t, e, changes(3))
	second := applied(t, e, then(1, "newer"))
	var built *BuiltOn
	if _, err := e.Rollback(t.Context(), RollbackOptions{TX: first}); !errors.As(err, &built) ||
		built.Later[0] != second {
		t.Fatalf("error is %v, expected it to name %s", err, second)
	}
	s, err := e.Status(t.Context())
	must.Hold(t, err == nil && s.State == IsApplied && len(s.Rows) == 3 && s.Rows[0].Wanted == "newer",
		"status is %+v, %v; expected three compliant rows, the first of the second transaction", s, err)
	done, err := e.Rollback(t.Context(), RollbackOptions{TX: first, WithLater: true})
	must.Need(t, err == nil && len(done) == 2 && done[0].Of == second && done[1].Of == first, "%+v, %v", done, err)
	if !f.same(before) || state(t, e) != IsClean {
		t.Errorf("the machine is %v (%s)", f.values, state(t, e))
	}
	var refused *NotApplied
	if _, err := e.Rollback(t.Context(), RollbackOptions{TX: done[0].TX}); !errors.As(err, &refused) {
		t.Errorf("rollback of a rollback: %v, expected a refusal", err)
	}
}

func TestRollbackIgnoresACancelledParent(t *testing.T) {
	f := newFake(t, 3)
	e := engine(t, f)
	before := f.snapshot()
	applied(t, e, changes(3))
	ctx, cancel := context.WithCancel(t.Context())
	f.after = func(setting.Address) { cancel() }
	if _, err := e.Rollback(ctx, RollbackOptions{}); err != nil || !f.same(before) {
		t.Errorf("the machine is %v, %v", f.values, err)
	}
}

func TestRollbackAfterAReboot(t *testing.T) {
	f := newFake(t, 3)
	e := engine(t, f)
	before := f.snapshot()
	applied(t, e, changes(3))
	e.BootID = "boot-2"
	f.values = before // what was until reboot
	s, err := e.Status(t.Context())
	must.Hold(t, err == nil && s.State == IsDrifted && strings.Contains(s.Rows[0].Why, "restarted"),
		"status is %+v, %v; expected drift with the reboot as its reason", s, err)
	f.writes = nil
	if done, err := e.Rollback(t.Context(), RollbackOptions{}); err != nil || done[0].Drifted() != 0 ||
		len(f.writes) != 0 {
		t.Errorf("%+v, %v, writes %v; expected nothing to write", done, err, f.writes)
	}
}

func TestWaiting(t *testing.T) {
	f := newFake(t, 1)
	e := engine(t, f)
	applied(t, e, changes(1))
	e.Waiting = func(c journal.Change) string { return "guest vm1 runs with its former definition" }
	if s, err := e.Status(t.Context()); err != nil || s.State != IsWaiting || s.Rows[0].State != WaitsFor {
		t.Errorf("status is %+v, %v; expected waiting", s, err)
	}
}

func TestConfirm(t *testing.T) {
	f := newFake(t, 2)
	e := engine(t, f)
	must.Fail(e.Confirm(""))(t, "confirmed where nothing waits")
	armed := ""
	result, err := e.Run(t.Context(), changes(2), Options{Confirm: time.Minute, Arm: func(tx string) error {
		armed = tx
		must.Equal(t, len(f.writes), 0, "armed after the first write")
		return nil
	}})
	must.Need(t, err == nil && armed == result.TX && result.ConfirmWithin == 60,
		"armed for %q, %+v, %v", armed, result, err)
	var waits *Unconfirmed
	if _, err := e.Run(t.Context(), then(1, "newer"), Options{}); !errors.As(err, &waits) {
		t.Errorf("a second apply: %v, expected Unconfirmed", err)
	}
	if tx, err := e.Confirm(""); err != nil || tx != result.TX {
		t.Fatalf("confirmed %q, %v", tx, err)
	}
	if done, err := e.Guard(t.Context(), result.TX); err != nil || len(done) != 0 {
		t.Errorf("guard: %+v, %v; expected it to do nothing", done, err)
	}
	must.Say(t, must.Err(e.Confirm(result.TX)), "confirmed already", "confirmed twice")
}

func TestGuardUndoesWhatNobodyConfirms(t *testing.T) {
	f := newFake(t, 2)
	e := engine(t, f)
	before := f.snapshot()
	result := must.Get(e.Run(t.Context(), changes(2), Options{Confirm: 50 * time.Millisecond}))(t)
	done, err := e.Guard(t.Context(), result.TX)
	if err != nil || len(done) != 1 || !f.same(before) {
		t.Fatalf("%+v, %v, the machine is %v", done, err, f.values)
	}
	entries, _, err := e.History(0)
	must.Hold(t, err == nil && entries[0].State == journal.WasRolledBack &&
		strings.Contains(entries[1].Why, "not confirmed within 50ms"), "history is %+v, %v", entries, err)
	must.Say(t, must.Err(e.Confirm(result.TX)), "rolled-back", "confirmed too late")
}

func TestGuardUndoesWhatWasInterrupted(t *testing.T) {
	f := newFake(t, 2)
	e := engine(t, f)
	before := f.snapshot()
	lock := must.Get(e.Journal.Lock("apply"))(t)
	w := must.Get(e.Journal.Create(lock, journal.Header{Kind: journal.Apply, BootID: e.BootID}))(t)
	a, old, new, want := address(0), setting.Value("old"), setting.Value("new"), setting.Exact("new")
	for _, r := range []journal.Record{
		{Event: journal.ConfirmArmed, Seconds: 3600},
		{Event: journal.Intent, N: 1, Address: &a, Before: &old, After: &new, Want: &want},
	} {
		must.Do(t, w.Append(r))
	}
	f.values[a] = new
	died := time.AfterFunc(2*guardPause, func() { _ = errors.Join(w.Close(), lock.Release()) }) // as its death would
	defer died.Stop()
	done, err := e.Guard(t.Context(), w.TX())
	if err != nil || len(done) != 1 || !f.same(before) {
		t.Fatalf("%+v, %v, the machine is %v", done, err, f.values)
	}
	entries, _, err := e.History(0)
	must.Hold(t, err == nil && strings.Contains(entries[1].Why, "not completed: interrupted"),
		"history is %+v, %v", entries, err)
}

func TestGuardTriesAgain(t *testing.T) {
	f := newFake(t, 2)
	e := engine(t, f)
	before := f.snapshot()
	result := must.Get(e.Run(t.Context(), changes(2), Options{Confirm: time.Millisecond}))(t)
	busy := map[string]error{"old": syscall.EBUSY}
	f.refuseTo[address(0)] = busy
	puts := 0
	e.Journal.Appended = func(_ string, r journal.Record) {
		if r.Event == journal.Incomplete { // the first try has failed
			puts++
			clear(busy)
		}
	}
	done, err := e.Guard(t.Context(), result.TX)
	if err != nil || puts != 1 || len(done) != 1 || !f.same(before) {
		t.Errorf("%+v, %v after %d failed tries, the machine is %v", done, err, puts, f.values)
	}
}

func TestRollbackOfAGuestThatIsNotDefinedAnyMore(t *testing.T) {
	queues := setting.Of(setting.Domain, "vm1", "vcpupin", "0")
	f := newFake(t, 0)
	f.values[queues] = setting.Value("0-3")
	e := engine(t, f)
	applied(t, e, &plan.Plan{Changes: []plan.Change{
		{ID: "domain.vcpupin", Address: queues, From: setting.Value("0-3"), To: setting.Value("1"),
			Want: setting.Exact("1")},
	}})
	f.values[queues] = setting.NoObject("guest vm1: no such guest")
	done, err := e.Rollback(t.Context(), RollbackOptions{})
	must.Hold(t, err == nil && done[0].Drifted() == 0 && done[0].Changes[0].Reason == journal.Gone,
		"%+v, %v; expected nothing to restore", done, err)
}

func TestArmFails(t *testing.T) {
	f := newFake(t, 2)
	e := engine(t, f)
	result, err := e.Run(t.Context(), changes(2),
		Options{Confirm: time.Minute, Arm: func(string) error { return errors.New("no fork") }})
	must.Hold(t, err != nil && result.State == journal.FailedUndone && len(f.writes) <= 0,
		"state %s, %v, writes %v; expected nothing written", result.State, err, f.writes)
}

func TestUndo80ChangesQuickly(t *testing.T) {
	f := newFake(t, 80)
	e := engine(t, f)
	before := f.snapshot()
	applied(t, e, changes(80))
	began := time.Now()
	if _, err := e.Rollback(t.Context(), RollbackOptions{}); err != nil || !f.same(before) {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("80 changes were undone in %v, expected under 20 s", took)
	} else {
		t.Logf("80 changes undone in %v", took)
	}
}
