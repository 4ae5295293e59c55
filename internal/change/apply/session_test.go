package apply

import (
	"errors"
	"os/exec"
	"testing"

	"mpps/internal/change/journal"
	"mpps/internal/must"
)

// dead is a session whose process is gone.
func dead(t *testing.T) *journal.Session {
	t.Helper()
	cmd := exec.Command("true")
	must.Do(t, cmd.Run())
	s := journal.NewSession("tune")
	s.PID = cmd.ProcessState.Pid()
	return s
}

// TestSessionInterrupted: what an interrupted run of many transactions left is told, nothing is built on it, and one
// rollback restores its beginning, and nothing before that.
func TestSessionInterrupted(t *testing.T) {
	f := newFake(t, 4)
	e := engine(t, f)
	if _, err := e.Run(t.Context(), changes(1), Options{}); err != nil { // before it
		t.Fatal(err)
	}
	beginning := f.snapshot()
	session := dead(t)
	for n := 2; n <= 3; n++ {
		must.Get(e.Run(t.Context(), changes(n), Options{Session: session}))(t)
	}
	must.Equal(t, state(t, e), IsInterrupted, "status")
	var unended *Unended
	if _, err := e.Run(t.Context(), changes(4), Options{}); !errors.As(err, &unended) || unended.Transactions != 2 {
		t.Errorf("an apply on top of it: %v", err)
	}
	restored, err := e.Rollback(t.Context(), RollbackOptions{DryRun: true})
	must.Hold(t, err == nil && len(restored) == 2, "a rollback would put back %d transactions, %v", len(restored), err)
	if restored, err = e.Rollback(t.Context(), RollbackOptions{}); err != nil || len(restored) != 2 ||
		!f.same(beginning) {
		t.Errorf("%d transactions put back, %v: %v, expected %v", len(restored), err, f.values, beginning)
	}
	must.Equal(t, state(t, e), IsApplied, "status")
}

// TestSessionAtWork: while a run's process lives nobody else changes the machine or puts its transactions back; it does
// so itself.
func TestSessionAtWork(t *testing.T) {
	f := newFake(t, 3)
	e := engine(t, f)
	beginning := f.snapshot()
	session := journal.NewSession("tune")
	first := must.Get(e.Run(t.Context(), changes(1), Options{Session: session}))(t)
	must.Equal(t, state(t, e), IsInFlight, "status")
	var locked *journal.Locked
	if _, err := e.Run(t.Context(), changes(3), Options{}); !errors.As(err, &locked) {
		t.Errorf("an apply beside it: %v", err)
	}
	if _, err := e.Rollback(t.Context(), RollbackOptions{TX: first.TX}); !errors.As(err, &locked) {
		t.Errorf("a rollback beside it: %v", err)
	}
	if _, err := e.Rollback(t.Context(), RollbackOptions{TX: first.TX, Session: session}); err != nil ||
		!f.same(beginning) {
		t.Errorf("its own rollback: %v, %v", err, f.values)
	}
	must.Pass(e.Run(t.Context(), changes(3), Options{}))(t, "an apply behind it")
}

// TestSettled: what Run would refuse whatever the plan is told beforehand.
func TestSettled(t *testing.T) {
	f := newFake(t, 3)
	e := engine(t, f)
	must.Succeed(t, e.Settled(), "a machine that nobody changed")
	must.Get(e.Run(t.Context(), changes(2), Options{Session: dead(t)}))(t)
	var unended *Unended
	if err := e.Settled(); !errors.As(err, &unended) {
		t.Errorf("behind an interrupted run: %v", err)
	}
	for command, waited := range map[string]bool{"apply": false, restoring: true} {
		lock := must.Get(e.Journal.Lock(command))(t)
		var locked *journal.Locked
		if err := e.Settled(); errors.As(err, &locked) == waited {
			t.Errorf("while %s is at work: %v", command, err)
		}
		must.Try(t, lock.Release())
	}
}
