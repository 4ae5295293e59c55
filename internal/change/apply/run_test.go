package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"mpps/internal/advise/plan"
	"mpps/internal/change/journal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestFaults makes every one of five changes go wrong in every way that there is, and looks at what is left.
func TestFaults(t *testing.T) {
	const n = 5
	faults := []struct {
		name  string
		at    func(f *fake, a setting.Address, cancel context.CancelCauseFunc)
		state journal.State // of the transaction
		says  string
		left  bool // the value at the fault is not as before
	}{
		{name: "refused", state: journal.FailedUndone, says: "invalid argument",
			at: func(f *fake, a setting.Address, _ context.CancelCauseFunc) { f.refuse[a] = syscall.EINVAL }},
		{name: "reads back as something else", state: journal.FailedUndone, says: "reads back as odd",
			at: func(f *fake, a setting.Address, _ context.CancelCauseFunc) {
				f.becomes[a] = map[string]string{"new": "odd"}
			}},
		{name: "written without effect", state: journal.FailedUndone, says: "reads back as old",
			at: func(f *fake, a setting.Address, _ context.CancelCauseFunc) {
				f.becomes[a] = map[string]string{"new": "old"}
			}},
		{name: "hangs", state: journal.Doubtful, says: "did not return within 100ms",
			at: func(f *fake, a setting.Address, _ context.CancelCauseFunc) { f.hang[a] = true }},
		{name: "cancelled", state: journal.FailedUndone, says: "interrupted by the user",
			at: func(f *fake, a setting.Address, cancel context.CancelCauseFunc) {
				f.after = func(written setting.Address) {
					if written == a {
						cancel(errors.New("interrupted by the user"))
					}
				}
			}},
		{name: "and its undo is refused", state: journal.FailedPartly, says: "device or resource busy", left: true,
			at: func(f *fake, a setting.Address, _ context.CancelCauseFunc) {
				f.becomes[a] = map[string]string{"new": "odd"}
				f.refuseTo[a] = map[string]error{"old": syscall.EBUSY}
			}},
		{name: "disappears", state: journal.FailedUndone, says: "absent", left: true,
			at: func(f *fake, a setting.Address, _ context.CancelCauseFunc) {
				f.moves[a] = func(f *fake) { delete(f.values, a) }
			}},
	}
	for _, fault := range faults {
		for at := range n {
			t.Run(fmt.Sprintf("%s at %d", fault.name, at), func(t *testing.T) {
				f := newFake(t, n)
				e := engine(t, f)
				if fault.name == "hangs" {
					e.Deadline = 100 * time.Millisecond
				}
				before := f.snapshot()
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				fault.at(f, address(at), cancel)
				result, err := e.Run(ctx, changes(n), Options{})
				var failure *Failure
				must.Need(t, errors.As(err, &failure), "error is %v, expected a Failure", err)
				must.Hold(t, result.State == fault.state && failure.State == fault.state,
					"state is %s (error: %s), expected %s", result.State, failure.State, fault.state)
				must.Hold(t, strings.Contains(err.Error(), fault.says),
					"error is %q, expected it to say %q", err, fault.says)
				if fault.name != "cancelled" && !strings.Contains(err.Error(), address(at).String()) {
					t.Errorf("error is %q, expected it to name %s", err, address(at))
				}
				if fault.left {
					delete(f.values, address(at))
					delete(before, address(at))
				}
				if !f.same(before) {
					t.Errorf("the machine is %v, expected %v", f.values, before)
				}
				if may := strings.Contains(err.Error(), "; a write of "+address(at).String()+
					" may still take effect"); may != (fault.state == journal.Doubtful) {
					t.Errorf("error is %q, state %s", err, failure.State)
				}
				must.Hold(t, !strings.Contains(err.Error(), "nothing was changed"),
					"error is %q, though something was", err)
				if fault.name == "hangs" && len(failure.Left) != 1 {
					t.Errorf("error is %q, expected it to say that the value could not be put back", err)
				}
				must.Hold(t, !strings.Contains(err.Error(), "\n"), "error has several lines: %q", err)
			})
		}
	}
}

func TestFaultThenRollbackSettles(t *testing.T) {
	f := newFake(t, 3)
	e := engine(t, f)
	before := f.snapshot()
	f.becomes[address(2)] = map[string]string{"new": "odd"}
	f.refuseTo[address(0)] = map[string]error{"old": syscall.EBUSY}
	f.refuseTo[address(2)] = map[string]error{"old": syscall.EIO}
	_, err := e.Run(t.Context(), changes(3), Options{})
	for _, want := range []error{syscall.EBUSY, syscall.EIO} {
		must.Hold(t, errors.Is(err, want), "error is %q, expected it to hold %q", err, want)
	}
	must.Equal(t, f.values[address(1)].Value, "old", "the change between the two that cannot be undone")
	s, err := e.Status(t.Context())
	must.Need(t, err == nil && s.State == IsFailed && len(s.Rows) == 2,
		"status is %+v, %v; expected failed, and the two values that could not be put back", s, err)
	for i, want := range []string{"is new, and could not be put back to old",
		"is odd, and could not be put back to old"} {
		if r := s.Rows[i]; r.State != Drifted || r.Wanted != "old" || r.Why != want {
			t.Errorf("row %+v, expected %s", r, want)
		}
	}
	var unsettled *Unsettled
	if _, err := e.Run(t.Context(), changes(3), Options{}); !errors.As(err, &unsettled) {
		t.Errorf("a second apply: %v, expected Unsettled", err)
	}
	// Still refused: the rollback fails, and says so; then it works.
	if _, err := e.Rollback(t.Context(), RollbackOptions{}); !errors.Is(err, syscall.EBUSY) ||
		!errors.Is(err, syscall.EIO) {
		t.Errorf("rollback: %v, expected both refusals", err)
	}
	must.Equal(t, state(t, e), IsFailed, "status")
	clear(f.refuseTo)
	must.Get(e.Rollback(t.Context(), RollbackOptions{}))(t)
	must.Hold(t, f.same(before), "the machine is %v, expected %v", f.values, before)
	must.Equal(t, state(t, e), IsClean, "status")
}

func TestHangSettlesByRollback(t *testing.T) {
	f := newFake(t, 3)
	e := engine(t, f)
	e.Deadline = 50 * time.Millisecond
	before := f.snapshot()
	f.hang[address(1)] = true
	result, err := e.Run(t.Context(), changes(3), Options{})
	must.Need(t, result.State == journal.Doubtful && err != nil,
		"state is %s, error %v; expected in-doubt", result.State, err)
	must.Equal(t, state(t, e), IsInDoubt, "status")
	e.Deadline = 5 * time.Second
	f.mu.Lock()
	f.hang[address(1)] = false
	f.values[address(1)] = setting.Value("new") // the write took effect in the end
	f.mu.Unlock()
	must.Get(e.Rollback(t.Context(), RollbackOptions{}))(t)
	if !f.same(before) || state(t, e) != IsClean {
		t.Errorf("the machine is %v (%s), expected %v", f.values, state(t, e), before)
	}
}

func TestStalePlanWritesNothing(t *testing.T) {
	f := newFake(t, 4)
	e := engine(t, f)
	f.values[address(2)] = setting.Value("else")
	delete(f.values, address(3))
	_, err := e.Run(t.Context(), changes(4), Options{})
	var stale *plan.Stale
	must.Need(t, errors.As(err, &stale) && len(stale.Changed) == 2, "error is %v, expected two stale values", err)
	must.Equal(t, len(f.writes), 0, "written: %v", f.writes)
	if entries, _, err := e.History(0); err != nil || len(entries) != 0 {
		t.Errorf("history is %v, %v; expected none", entries, err)
	}
}

func TestAlreadyAsWanted(t *testing.T) {
	f := newFake(t, 3)
	e := engine(t, f)
	f.values[address(1)] = setting.Value("new")
	result := must.Get(e.Run(t.Context(), changes(3), Options{}))(t)
	must.Equal(t, strings.Join(f.writes, " "), "net.v00=new net.v02=new", "writes")
	must.Equal(t, result.Changes[1].State, journal.ChangeAlready, "the change")
	again, err := e.Run(t.Context(), changes(3), Options{})
	must.Hold(t, err == nil && again.TX == "", "applied again: transaction %q, %v; expected none", again.TX, err)
	must.Get(e.Rollback(t.Context(), RollbackOptions{}))(t)
	must.Equal(t, f.values[address(1)].Value, "new", "a value that mpps never wrote was rolled back to")
}

func TestDriverRounds(t *testing.T) {
	ring := setting.Of(setting.NICRing, "eth0", "rx")
	f := newFake(t, 0)
	f.values[ring] = setting.Value("256")
	f.becomes[ring] = map[string]string{"4000": "4096"}
	e := engine(t, f)
	p := &plan.Plan{Changes: []plan.Change{{ID: "nic.ring.rx", Address: ring, From: setting.Value("256"),
		To: setting.Value("4000"), Want: setting.Least(4000)}}}
	result, err := e.Run(t.Context(), p, Options{})
	must.Need(t, err == nil && result.Changes[0].Found == "4096", "found %+v, %v; expected 4096", result.Changes, err)
	if _, err := e.Rollback(t.Context(), RollbackOptions{}); err != nil || f.values[ring].Value != "256" {
		t.Errorf("after rollback %s, %v; expected 256", f.values[ring], err)
	}
}

// TestOneMovesAnother: channels reset a mask, in both directions; the mask must be as before all the same.
func TestOneMovesAnother(t *testing.T) {
	channels, mask := setting.Of(setting.NICChannels, "eth0", "combined"),
		setting.Of(setting.SysfsCPUs, "class/net/eth0/queues/tx-0/xps_cpus")
	p := &plan.Plan{Changes: []plan.Change{
		{ID: "nic.channels", Address: channels, From: setting.Value("1"), To: setting.Value("4"),
			Want: setting.Exact("4")},
		{ID: "nic.xps", Address: mask, From: setting.Value("0-3"), To: setting.Value("0"), Want: setting.Exact("0")},
	}}
	for _, fails := range []bool{false, true} {
		f := newFake(t, 1)
		f.values[channels], f.values[mask] = setting.Value("1"), setting.Value("0-3")
		f.moves[channels] = func(f *fake) { f.values[mask] = setting.Value("") }
		before := f.snapshot()
		e := engine(t, f)
		planned := *p
		if fails {
			f.refuse[address(0)] = syscall.EINVAL
			planned.Changes = append(p.Changes[:2:2], changes(1).Changes...)
		}
		_, err := e.Run(t.Context(), &planned, Options{})
		must.Need(t, (err != nil) == fails, "%v", err)
		if !fails {
			must.Get(e.Rollback(t.Context(), RollbackOptions{}))(t)
		}
		if !f.same(before) {
			t.Errorf("fails=%v: the machine is %v, expected %v", fails, f.values, before)
		}
	}
}

func TestDryRunWritesNothing(t *testing.T) {
	f := newFake(t, 2)
	e := engine(t, f)
	result, err := e.Run(t.Context(), changes(2), Options{DryRun: true})
	must.Hold(t, err == nil && len(result.Changes) == 2 && len(f.writes) == 0,
		"%+v, %v, writes %v", result, err, f.writes)
	if entries, _, _ := e.History(0); len(entries) != 0 {
		t.Errorf("history is %v, expected none", entries)
	}
}

func TestLockedNamesTheHolder(t *testing.T) {
	f := newFake(t, 1)
	e := engine(t, f)
	lock := must.Get(e.Journal.Lock("apply"))(t)
	var locked *journal.Locked
	if _, err := e.Run(t.Context(), changes(1), Options{}); !errors.As(err, &locked) {
		t.Fatalf("error is %v, expected Locked", err)
	}
	must.Hold(t, locked.OutcomeCode() == 11 && locked.Holder.PID != 0 && locked.Holder.Command == "apply",
		"holder is %+v", locked.Holder)
	must.Equal(t, state(t, e), IsInFlight, "status")
	must.Do(t, lock.Release())
	must.Try(t, must.Err(e.Run(t.Context(), changes(1), Options{})))
}

// TestDoubtOfTheMechanism: a mechanism says itself that its write may still come about. What is put back then is not
// settled: the write can overtake it, and a rollback puts that back.
func TestDoubtOfTheMechanism(t *testing.T) {
	f := newFake(t, 3)
	e := engine(t, f)
	before := f.snapshot()
	f.refuse[address(1)] = fmt.Errorf("virsh: %w", setting.ErrInDoubt)
	result, err := e.Run(t.Context(), changes(3), Options{})
	if result.State != journal.Doubtful || !errors.Is(err, setting.ErrInDoubt) || state(t, e) != IsInDoubt {
		t.Fatalf("state is %s, status %s, error %v; expected in-doubt", result.State, state(t, e), err)
	}
	must.Fail(e.Run(t.Context(), changes(3), Options{}))(t, "another plan was applied meanwhile")
	delete(f.refuse, address(1))
	f.values[address(1)] = setting.Value("new") // it comes about
	restored, err := e.Rollback(t.Context(), RollbackOptions{})
	must.Need(t, err == nil && restored[0].Drifted() == 0, "%+v, %v", restored, err)
	if !f.same(before) || state(t, e) != IsClean {
		t.Errorf("the machine is %v (%s), expected %v", f.values, state(t, e), before)
	}
}

// TestUnwritable: what cannot be written at all is known before the first write.
func TestUnwritable(t *testing.T) {
	f := newFake(t, 3)
	e := engine(t, f)
	e.Writable = func(a setting.Address) error {
		if a == address(0) {
			return nil
		}
		return errors.New("no kernel")
	}
	result, err := e.Run(t.Context(), changes(3), Options{DryRun: true})
	must.Hold(t, err == nil && result.Changes[0].State == journal.ChangeIntended &&
		result.Changes[2].State == journal.ChangeFailed && result.Changes[2].Why == "cannot be written here: no kernel",
		"dry run: %+v, %v", result, err)
	var refused *Unwritable
	if _, err := e.Run(t.Context(), changes(3), Options{}); !errors.As(err, &refused) || refused.First != address(1) ||
		refused.More != 1 {
		t.Errorf("found %v; expected to be refused", err)
	}
	if len(f.writes) > 0 || state(t, e) != IsClean {
		t.Errorf("written %v, status %s", f.writes, state(t, e))
	}
	f.values[address(1)], f.values[address(2)] = setting.Value("new"), setting.Value("new")
	must.Pass(e.Run(t.Context(), changes(3), Options{}))(t, "what is as wanted need not be written")
}
