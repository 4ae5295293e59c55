package apply

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"mpps/internal/advise/plan"
	"mpps/internal/change/journal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// guest is a guest in memory: it runs with the definition that stood when it was started.
type guest struct {
	*fake
	runs  map[setting.Address]setting.Reading
	began time.Time
}

func (g *guest) start() {
	g.runs, g.began = g.snapshot(), time.Now()
	time.Sleep(2 * time.Millisecond)
}

// on makes an engine ask this guest.
func (g *guest) on(e *Engine) {
	pending := func(c journal.Change) bool { return !g.runs[c.Address].Same(g.values[c.Address]) }
	e.Waiting = func(c journal.Change) string {
		if !pending(c) {
			return ""
		}
		return "guest vm1 runs with its former definition"
	}
	e.Lingers = func(c journal.Change, from, until time.Time) string {
		if !pending(c) || !g.began.After(from) || !g.began.Before(until) {
			return ""
		}
		return "guest vm1 still runs with what was put back"
	}
}

// needing is a plan of changes that wait for a restart.
func needing(n int) *plan.Plan {
	p := changes(n)
	for i := range p.Changes {
		p.Changes[i].Needs = setting.RestartOf("vm1")
	}
	return p
}

func rollBack(t *testing.T, e *Engine, o RollbackOptions) Restored {
	t.Helper()
	time.Sleep(2 * time.Millisecond)
	done, err := e.Rollback(t.Context(), o)
	must.Need(t, err == nil && len(done) == 1, "%+v, %v", done, err)
	return done[0]
}

// TestWaitingAfterRollback: a guest was started with what was applied. That it is put back takes effect with its next
// start, and until then the machine is not clean.
func TestWaitingAfterRollback(t *testing.T) {
	g := &guest{fake: newFake(t, 2)}
	e := engine(t, g.fake)
	g.start()
	g.on(e)
	applied(t, e, needing(1))
	must.Equal(t, state(t, e), IsWaiting, "applied: status")
	time.Sleep(2 * time.Millisecond)
	g.start()
	must.Equal(t, state(t, e), IsApplied, "started: status")
	if r := rollBack(t, e, RollbackOptions{DryRun: true}); r.Changes[0].Needs.IsZero() {
		t.Errorf("dry run: %+v; expected it to need a restart", r.Changes)
	}
	if r := rollBack(t, e, RollbackOptions{}); r.Changes[0].Needs.IsZero() {
		t.Errorf("rolled back: %+v; expected it to need a restart", r.Changes)
	}
	s, err := e.Status(t.Context())
	must.Hold(t, err == nil && s.State == IsWaiting && len(s.Rows) == 1 && s.Rows[0].State == WaitsFor &&
		s.Rows[0].Found == "old" && strings.Contains(s.Why, "still runs with"),
		"rolled back: %+v, %v; expected the guest to be waited for", s, err)
	must.Equal(t, len(s.Transactions), 0, "rolled back: %+v stand", s.Transactions)
	g.start()
	must.Equal(t, state(t, e), IsClean, "started again: status")
	g.values[address(0)] = setting.Value("else") // by somebody, later
	must.Equal(t, state(t, e), IsClean, "edited by somebody else: status")
}

// TestNeverInEffect: what is rolled back before any restart needs none, and nothing waits.
func TestNeverInEffect(t *testing.T) {
	g := &guest{fake: newFake(t, 1)}
	e := engine(t, g.fake)
	g.start()
	g.on(e)
	applied(t, e, needing(1))
	for _, dryRun := range []bool{true, false} {
		if r := rollBack(t, e, RollbackOptions{DryRun: dryRun}); r.Written() != 1 || !r.Changes[0].Needs.IsZero() {
			t.Errorf("dry run %v: %+v; expected it to need nothing", dryRun, r.Changes)
		}
	}
	must.Equal(t, state(t, e), IsClean, "status")
}

// TestStatusWhileApplying: at every record of an apply, of one that fails and of a rollback, the status says that
// somebody is at work, who, and on what.
func TestStatusWhileApplying(t *testing.T) {
	f := newFake(t, 3)
	e := engine(t, f)
	looked := 0
	e.Journal.Appended = func(tx string, r journal.Record) {
		looked++
		s, err := e.Status(t.Context())
		must.Hold(t, err == nil && s.State == IsInFlight && s.Holder != nil && s.Holder.TX == tx &&
			s.Holder.PID == os.Getpid(), "at %s: %+v, %v", r.Event, s, err)
		h, _, err := e.History(0)
		if last := h[len(h)-1]; err != nil || last.TX != tx || last.State != journal.InFlight && last.Ended == nil {
			t.Errorf("at %s: history ends with %+v, %v", r.Event, last, err)
		}
	}
	applied(t, e, changes(2))
	rollBack(t, e, RollbackOptions{})
	f.refuse[address(2)] = syscall.EINVAL
	must.Fail(e.Run(t.Context(), changes(3), Options{}))(t, "the apply did not fail")
	if looked < 18 || state(t, e) != IsClean {
		t.Errorf("looked %d times, status %s", looked, state(t, e))
	}
}

// TestStatusWhileRollingBack: values that a rollback under way has put back have not drifted.
func TestStatusWhileRollingBack(t *testing.T) {
	f := newFake(t, 3)
	e := engine(t, f)
	applied(t, e, changes(3))
	looked := 0
	for i := range 3 {
		f.moves[address(i)] = func(f *fake) { // it is written, and not yet journaled as done
			looked++
			f.mu.Unlock()
			defer f.mu.Lock()
			s, err := e.Status(t.Context())
			must.Hold(t, err == nil && s.State == IsInFlight && len(s.Rows) == i,
				"status is %+v, %v; expected in-flight with %d values that stand", s, err, i)
			for _, r := range s.Rows {
				must.Equal(t, r.State, Compliant, "%s is listed as", r.Address)
			}
		}
	}
	rollBack(t, e, RollbackOptions{})
	if looked != 3 || state(t, e) != IsClean {
		t.Errorf("looked %d times, status %s", looked, state(t, e))
	}
}

// TestHistoryTellsWhatStillWaits: what a change needed when it was made is told only as long as it waits for it.
func TestHistoryTellsWhatStillWaits(t *testing.T) {
	g := &guest{fake: newFake(t, 2)}
	e := engine(t, g.fake)
	g.start()
	g.on(e)
	needs := func(tx string) bool {
		t.Helper()
		d := must.Get(e.Detail(t.Context(), tx))(t)
		return !d.List[0].Needs.IsZero()
	}
	first := applied(t, e, needing(1))
	must.Hold(t, needs(first), "applied, and not in effect: nothing is needed")
	back := rollBack(t, e, RollbackOptions{})
	must.Hold(t, !needs(first) && !needs(back.TX), "rolled back before it took effect: something is needed")
	second := applied(t, e, needing(1))
	time.Sleep(2 * time.Millisecond)
	g.start()
	must.Hold(t, !needs(second), "in effect: something is needed")
	back = rollBack(t, e, RollbackOptions{})
	must.Hold(t, !needs(second) && needs(back.TX),
		"rolled back while it was in effect: the rollback needs a restart, and nothing else does")
	g.refuse[address(1)] = syscall.EINVAL
	result, err := e.Run(t.Context(), needing(2), Options{})
	must.Hold(t, err != nil && !needs(result.TX), "failed and put back (%v): something is needed", err)
	must.Hold(t, result.Changes[0].Needs.IsZero() && result.Changes[1].Needs.IsZero(),
		"%+v: what was put back needs something", result.Changes)
}

// TestKernelStillHasIt: a kernel that was booted with an argument has it until the next boot, also once it is put back
// in the boot loader's files.
func TestKernelStillHasIt(t *testing.T) {
	argument := setting.Of(setting.KernelArg, "isolcpus")
	f := newFake(t, 0)
	f.values[argument] = setting.Missing("no such argument")
	e := engine(t, f)
	running := setting.Missing("no such argument")
	e.Waiting = func(c journal.Change) string {
		if c.Want.Met(running) {
			return ""
		}
		return "the running kernel has isolcpus " + running.String()
	}
	e.Lingers = func(c journal.Change, _, _ time.Time) string { return e.Waiting(c) }
	p := &plan.Plan{Changes: []plan.Change{{
		ID: "boot.isolcpus", Address: argument, From: f.values[argument], To: setting.Value("2-5"),
		Want:  setting.Exact("2-5"),
		Lasts: setting.InBootLoader, Needs: setting.Reboot(),
	}}}
	is := func(when string, want Summary) {
		t.Helper()
		must.Equal(t, state(t, e), want, "%s", when)
	}
	applied(t, e, p)
	is("applied", IsWaiting)
	rollBack(t, e, RollbackOptions{})
	is("rolled back before any boot", IsClean)
	applied(t, e, p)
	e.BootID, running = "boot-2", setting.Value("2-5")
	is("booted", IsApplied)
	rollBack(t, e, RollbackOptions{})
	is("rolled back behind the boot", IsWaiting)
	if s, err := e.Status(t.Context()); err != nil || !strings.Contains(s.Why, "running kernel has isolcpus 2-5") ||
		len(s.Transactions) != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	e.BootID = "boot-3" // with the argument, which somebody has typed into the boot menu
	is("booted again", IsClean)
}
