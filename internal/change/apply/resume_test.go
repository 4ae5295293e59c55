package apply

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"mpps/internal/advise/plan"
	"mpps/internal/change/journal"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// argument is a value of the boot loader's files, of which the running kernel has what was there when it was booted.
var argument = setting.Of(setting.KernelArg, "isolcpus")

// bootable is a machine whose kernel arguments wait for a boot.
type bootable struct {
	*fake
	*Engine
	running setting.Reading
}

func newBootable(t *testing.T) *bootable {
	b := &bootable{fake: newFake(t, 4)}
	b.values[argument] = setting.Missing("not there")
	b.running = b.values[argument]
	b.Engine = engine(t, b.fake)
	b.Waiting = func(c journal.Change) string {
		if c.Address == argument && !b.running.Same(b.values[argument]) {
			return "the running kernel has it otherwise"
		}
		return ""
	}
	b.Lingers = func(c journal.Change, _, _ time.Time) string { return b.Waiting(c) }
	return b
}

func (b *bootable) boot(id string) { b.BootID, b.running = id, b.values[argument] }

// realtime is a plan of values and, where it is the first of a chain, a kernel argument.
func realtime(first bool, values ...int) *plan.Plan {
	p := &plan.Plan{Digest: "d1", Goal: goal.Goal{Latency: 50 * time.Microsecond, CPUs: setting.CPUs(2, 3)}}
	if first {
		p.Changes = append(p.Changes, plan.Change{ID: "boot.isolcpus", Address: argument, From: setting.Missing(""),
			To:   setting.Value("2-3"),
			Want: setting.Exact("2-3"), Risk: goal.Reboot, Lasts: setting.InBootLoader, Needs: setting.Reboot()})
	}
	for _, i := range values {
		p.Changes = append(p.Changes, changes(i + 1).Changes[i])
	}
	return p
}

func (b *bootable) apply(t *testing.T, p *plan.Plan, follows string) string {
	t.Helper()
	kept := must.Get(journal.Resume{Goal: p.Goal, Kernel: "6.12-rt"}.Encode())(t)
	r := must.Get(b.Run(t.Context(), p, Options{Resume: kept, Follows: follows}))(t)
	return r.TX
}

func (b *bootable) left(t *testing.T) *Remains {
	t.Helper()
	s := must.Get(b.Status(t.Context()))(t)
	return s.Remains
}

// TestResumeOverBoot follows a plan from its apply over the reboot and what remains to the rollback of all of it.
func TestResumeOverBoot(t *testing.T) {
	b := newBootable(t)
	before := b.snapshot()
	var nothing *NothingWaits
	if _, err := b.Resumable(t.Context()); !errors.As(err, &nothing) || nothing.OutcomeCode() != 3 {
		t.Errorf("on a clean machine: %v", err)
	}
	first := b.apply(t, realtime(true, 0), "")
	var notYet *NotYet
	if _, err := b.Resumable(t.Context()); !errors.As(err, &notYet) ||
		!strings.Contains(err.Error(), "waits for a reboot") {
		t.Errorf("before the boot: %v", err)
	}
	if r := b.left(t); r.Done != 1 || len(r.Waits) != 1 || r.Waits[0].For != setting.Reboot() ||
		r.Flags != "--latency 50us --cpus 2-3" {
		t.Errorf("before the boot: %+v", r)
	}

	b.BootID = "boot-2" // of another entry: the argument is not in effect
	if _, err := b.Resumable(t.Context()); !errors.As(err, &notYet) ||
		!strings.Contains(err.Error(), "without 1 value of the boot loader's: another entry") {
		t.Errorf("booted otherwise: %v", err)
	}
	b.boot("boot-3")
	r, err := b.Resumable(t.Context())
	must.Need(t, err == nil && r.TX == first && r.Done == 2 && len(r.Waits) == 0, "after the boot: %+v, %v", r, err)
	r.Found([]Left{{ID: "test.v01", Address: address(1)}}, nil, nil)
	s := Status{State: IsApplied, Remains: r}
	if s.Looked(); s.State != IsWaiting || !strings.Contains(s.Why, "the plan of "+first+" continues with 1 change:") {
		t.Errorf("%s: %s", s.State, s.Why)
	}
	second := b.apply(t, realtime(false, 1, 2), first)
	if r = b.left(t); r.TX != second || !slices.Equal(r.Chain, []string{first, second}) || r.Done != 4 {
		t.Errorf("gone on: %+v", r)
	}

	var built *BuiltOn
	if _, err := b.Rollback(t.Context(), RollbackOptions{TX: first}); !errors.As(err, &built) ||
		!strings.Contains(err.Error(), "it resumes it") {
		t.Errorf("the first alone: %v", err)
	}
	all, err := b.Rollback(t.Context(), RollbackOptions{TX: first, WithLater: true})
	must.Need(t, err == nil && len(all) == 2 && all[0].Of == second && all[1].Of == first,
		"rolled back %+v, %v", all, err)
	if !b.same(before) {
		t.Errorf("values %v, before %v", b.values, before)
	}
	must.Equal(t, state(t, b.Engine), IsWaiting, "status while the kernel still has the argument")
	b.boot("boot-4")
	must.Equal(t, state(t, b.Engine), IsClean, "status")
}

// TestResumeWithoutTheFirst: what was put back meanwhile is not resumed; after the later one alone was put back
// the first is.
func TestResumeWithoutTheFirst(t *testing.T) {
	b := newBootable(t)
	first := b.apply(t, realtime(true, 0), "")
	b.boot("boot-2")
	second := b.apply(t, realtime(false, 1), first)
	rollBack(t, b.Engine, RollbackOptions{})
	if r, err := b.Resumable(t.Context()); err != nil || r.TX != first {
		t.Errorf("%s was put back: %+v, %v", second, r, err)
	}
	rollBack(t, b.Engine, RollbackOptions{})
	must.Say(t, must.Err(b.Run(t.Context(), realtime(false, 1), Options{Follows: first})), "it is rolled-back",
		"going on with what was put back")
}

// TestResumeOlder: a transaction of an mpps that kept no goal is named, and rolled back like any.
func TestResumeOlder(t *testing.T) {
	b := newBootable(t)
	r := must.Get(b.Run(t.Context(), realtime(true, 0), Options{}))(t)
	b.boot("boot-2")
	must.Say(t, must.Err(b.Resumable(t.Context())), "transaction "+r.TX+" does not say what it was for", "b.Resumable")
	must.Equal(t, rollBack(t, b.Engine, RollbackOptions{}).State, journal.Applied, "not put back")
}

// TestResumeInterrupted: a machine on which a going on was cut short is put in order first; then the first is gone on
// with.
func TestResumeInterrupted(t *testing.T) {
	b := newBootable(t)
	first := b.apply(t, realtime(true, 0), "")
	b.boot("boot-2")
	ctx, cancel := context.WithCancel(t.Context())
	b.after = func(setting.Address) { cancel() }
	b.refuseTo[address(1)] = map[string]error{"old": errors.New("EIO")} // it cannot even be put back
	if _, err := b.Run(ctx, realtime(false, 1, 2), Options{Follows: first}); err == nil {
		t.Fatal("a cancelled run succeeded")
	}
	b.after = nil
	var unsettled *Unsettled
	if _, err := b.Resumable(t.Context()); !errors.As(err, &unsettled) {
		t.Errorf("%v, expected the machine to be put in order first", err)
	}
	delete(b.refuseTo, address(1))
	rollBack(t, b.Engine, RollbackOptions{})
	if r, err := b.Resumable(t.Context()); err != nil || r.TX != first {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestFits: another kernel than the chain chose is refused; one that merely came since, and another site file, are
// told.
func TestFits(t *testing.T) {
	r := &Remains{TX: "t1", resume: &journal.Resume{Kernel: "6.12-rt", Site: "0a"}}
	if err := r.Fits("6.12-rt", "0a"); err != nil || len(r.Notes) != 0 {
		t.Errorf("the same: %v, %v", err, r.Notes)
	}
	if err := r.Fits("6.12", "0b"); err != nil || len(r.Notes) != 2 {
		t.Errorf("others: %v, %v", err, r.Notes)
	}
	r.chosen = true
	var other *OtherKernel
	if err := r.Fits("6.12", "0a"); !errors.As(err, &other) || other.Chosen != "6.12-rt" {
		t.Errorf("not the chosen one: %v", err)
	}
}

// TestChainKilled: a rollback of a chain that dies between two transactions, or within one, is completed by asking
// again, in the right order.
func TestChainKilled(t *testing.T) {
	for die := 1; ; die++ {
		b := newBootable(t)
		before := b.snapshot()
		first := b.apply(t, realtime(true, 0), "")
		b.boot("boot-2")
		second := b.apply(t, realtime(false, 1, 2), first)
		n := 0
		died := errors.New("died")
		b.Journal.Appended = func(string, journal.Record) {
			if n++; n == die {
				panic(died)
			}
		}
		finished := func() (finished bool) {
			defer func() {
				if p := recover(); p != nil && p != died {
					panic(p)
				}
			}()
			_, err := b.Rollback(t.Context(), RollbackOptions{TX: first, WithLater: true})
			return err == nil
		}()
		b.Journal.Appended = nil
		if finished {
			must.Need(t, die >= 6, "only %d records were written", n)
			return
		}
		b.boot("boot-3") // as after a loss of power
		b.values[address(1)], b.values[address(2)] = setting.Value("old"), setting.Value("old")
		all, err := b.Rollback(t.Context(), RollbackOptions{TX: first, WithLater: true})
		must.Need(t, err == nil, "died at record %d, then: %v", die, err)
		if len(all) == 2 && (all[0].Of != second || all[1].Of != first) {
			t.Errorf("died at record %d, then in the order %s, %s", die, all[0].Of, all[1].Of)
		}
		if !b.same(before) {
			t.Errorf("died at record %d: values %v, before %v", die, b.values, before)
		}
		b.boot("boot-4")
		must.Equal(t, state(t, b.Engine), IsClean, "died at record %d: status", die)
	}
}
