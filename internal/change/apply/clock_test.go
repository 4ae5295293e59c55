package apply

import (
	"testing"
	"time"

	"mpps/internal/change/journal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// fakeClock is a clock whose time of day is set by the test.
type fakeClock struct{ now, up time.Duration } // since some day, since the boot

// set sets the time of day.
func (c *fakeClock) set(by time.Duration) { c.now += by }

// pass lets time pass.
func (c *fakeClock) pass(d time.Duration) { c.now, c.up = c.now+d, c.up+d }

func withClock(e *Engine) *fakeClock {
	c := &fakeClock{up: time.Hour}
	e.Journal.Clock = journal.Clock{
		Now: func() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).Add(c.now) },
		Up:  func() time.Duration { return c.up },
	}
	return c
}

const day = 24 * time.Hour

// jumps are what becomes of the clock between two commands.
var jumps = map[string]time.Duration{"a day back": -day, "a day forward": day, "not at all": 0,
	"ten years back": -3650 * day}

// TestClockIsSetBeforeConfirm: the time to confirm is as long as it was to be, whatever the clock was set to, for a
// guard that looked before and for one that is started after.
func TestClockIsSetBeforeConfirm(t *testing.T) {
	for name, jump := range jumps {
		for _, looked := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				f := newFake(t, 2)
				e := engine(t, f)
				clock, before := withClock(e), f.snapshot()
				result := must.Get(e.Run(t.Context(), changes(2), Options{Confirm: time.Minute}))(t)
				g := &guard{Engine: e, tx: result.TX}
				look := func(want bool) {
					t.Helper()
					if _, done, err := g.look(t.Context()); done != want || err != nil {
						t.Errorf("%v after the commit: done %v, %v; expected %v", clock.up-time.Hour, done, err, want)
					}
				}
				if looked {
					look(false)
				}
				clock.set(jump)
				clock.pass(58 * time.Second)
				look(false)
				s, err := e.Status(t.Context())
				if err != nil || s.Why != result.TX+" waits to be confirmed" ||
					s.Transactions[0].ConfirmUntil.Sub(e.Journal.Clock.Now()).Round(time.Second) != 2*time.Second {
					t.Errorf("%v: %q until %v at %v", err, s.Why, s.Transactions[0].ConfirmUntil, e.Journal.Clock.Now())
				}
				clock.pass(3 * time.Second)
				look(true)
				if !f.same(before) {
					t.Errorf("the machine is %v", f.values)
				}
			})
		}
	}
}

// TestClockIsSetBetweenTransactions: what was done last is undone first, whatever the clock said.
func TestClockIsSetBetweenTransactions(t *testing.T) {
	for name, jump := range jumps {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, 2)
			e := engine(t, f)
			clock, before := withClock(e), f.snapshot()
			first := must.Get(e.Run(t.Context(), changes(1), Options{Confirm: time.Minute}))(t)
			clock.set(jump)
			if tx, err := e.Confirm(""); err != nil || tx != first.TX {
				t.Fatalf("confirmed %s, %v", tx, err)
			}
			middle := f.snapshot()
			p := changes(2)
			p.Changes = p.Changes[1:]
			second := must.Get(e.Run(t.Context(), p, Options{}))(t)
			clock.set(-jump)
			for _, step := range []struct {
				undoes string
				to     map[setting.Address]setting.Reading
			}{{second.TX, middle}, {first.TX, before}} {
				done, err := e.Rollback(t.Context(), RollbackOptions{})
				if err != nil || len(done) != 1 || done[0].Of != step.undoes || !f.same(step.to) {
					t.Errorf("%+v, %v; expected that of %s; the machine is %v", done, err, step.undoes, f.values)
				}
			}
			must.Equal(t, state(t, e), IsClean, "status")
			entries, _, err := e.History(0)
			must.Hold(t, err == nil && len(entries) == 4 && entries[3].Of == first.TX && entries[2].Of == second.TX,
				"history is %+v, %v", entries, err)
		})
	}
}

// TestEarlierJournalHasNoUptime: a commit without one ends at the latest when its time has passed since the first look.
func TestEarlierJournalHasNoUptime(t *testing.T) {
	for name, jump := range jumps {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, 1)
			e := engine(t, f)
			clock := withClock(e)
			clock.up = 0 // as if it had none
			result := must.Get(e.Run(t.Context(), changes(1), Options{Confirm: time.Minute}))(t)
			clock.set(jump)
			g := &guard{Engine: e, tx: result.TX}
			clock.pass(time.Second)
			_, _, _ = g.look(t.Context())
			clock.pass(time.Minute)
			if _, done, err := g.look(t.Context()); !done || err != nil {
				t.Errorf("done %v, %v", done, err)
			}
		})
	}
}
