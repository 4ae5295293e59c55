package apply

import (
	"errors"
	"testing"

	"mpps/internal/change/journal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// held is a machine on which the value of v02 can be put back only when that of v01 was, as a thread's CPUs when its
// cpuset is wide again, although v01 came first.
func held(t *testing.T) *fake {
	f := newFake(t, 4)
	f.refuseTo[address(2)] = map[string]error{"old": errors.New("invalid argument")}
	f.moves[address(1)] = func(f *fake) {
		if f.values[address(1)].Same(setting.Value("old")) {
			delete(f.refuseTo, address(2))
		}
	}
	return f
}

// TestUndoneAgain: an apply that fails puts back in a second go what others stood in the way of.
func TestUndoneAgain(t *testing.T) {
	f := held(t)
	before := f.snapshot()
	f.refuse[address(3)] = errors.New("no")
	e := engine(t, f)
	_, err := e.Run(t.Context(), changes(4), Options{})
	var failure *Failure
	if !errors.As(err, &failure) || failure.State != journal.FailedUndone || failure.Undone != 4 || !f.same(before) {
		t.Errorf("%v\n%+v", err, f.values)
	}
	must.Try(t, must.Err(e.Journal.Ledger()))
}

// TestRolledBackAgain does the same in a rollback: one row for each value, and nothing is left to do.
func TestRolledBackAgain(t *testing.T) {
	f := held(t)
	before := f.snapshot()
	e := engine(t, f)
	must.Get(e.Run(t.Context(), changes(3), Options{}))(t)
	all, err := e.Rollback(t.Context(), RollbackOptions{})
	must.Hold(t, err == nil && len(all) == 1 && all[0].Written() == 3 && len(all[0].Changes) == 3 && f.same(before),
		"%v: %+v", err, all)
	if again, err := e.Rollback(t.Context(), RollbackOptions{}); err != nil || len(again) > 0 {
		t.Errorf("there is something to put back: %v %+v", err, again)
	}
}
