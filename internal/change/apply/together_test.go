package apply

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"mpps/internal/advise/plan"
	"mpps/internal/change/journal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// menu is a mechanism of kernel arguments whose one program writes all of them.
type menu struct {
	*fake
	runs   []int // how many values each run wrote
	breaks error // of runs that write more than one
}

func (m *menu) WriteAll(ctx context.Context, all []setting.Assignment) error {
	m.runs = append(m.runs, len(all))
	if m.breaks != nil && len(all) > 1 {
		return m.breaks
	}
	for _, one := range all {
		if err := m.Write(ctx, one.Address, one.To); err != nil {
			return err
		}
	}
	return nil
}

// withMenu is a machine with n kernel parameters and n kernel arguments behind them, and a plan for all of them.
func withMenu(t *testing.T, n int) (*menu, *Engine, *plan.Plan) {
	f := newFake(t, n)
	m := &menu{fake: f}
	p := changes(n)
	for _, name := range []string{"a", "b", "c"}[:n] {
		a := setting.Of(setting.KernelArg, name)
		f.values[a] = setting.Value("old")
		p.Changes = append(p.Changes, plan.Change{ID: "test." + name, Address: a, From: setting.Value("old"),
			To:   setting.Value("new"),
			Want: setting.Exact("new"), Risk: "none", Lasts: setting.InBootLoader})
	}
	p.Changes = append(p.Changes, plan.Change{ID: "test.last", Address: setting.Of(setting.Sysfs, "last"),
		From: setting.Value("old"), To: setting.Value("new"),
		Want: setting.Exact("new"), Risk: "none", Lasts: setting.UntilReboot})
	f.values[setting.Of(setting.Sysfs, "last")] = setting.Value("old")
	all := f.mechanisms()
	all[setting.KernelArg] = m
	return m, on(t, t.TempDir(), all), p
}

func TestChangesTogether(t *testing.T) {
	m, e, p := withMenu(t, 3)
	before := m.snapshot()
	result, err := e.Run(t.Context(), p, Options{})
	if err != nil || result.Written() != 7 || !slices.Equal(m.runs, []int{3}) {
		t.Fatalf("%d written, runs of %v, %v; expected 7 and one run of 3", result.Written(), m.runs, err)
	}
	m.runs = nil
	done, err := e.Rollback(t.Context(), RollbackOptions{})
	must.Hold(t, err == nil && done[0].Written() == 7 && slices.Equal(m.runs, []int{3}) && m.same(before) &&
		state(t, e) == IsClean, "%+v, runs of %v, %v, %v", done, m.runs, m.values, err)
}

func TestChangesTogetherOneAlready(t *testing.T) {
	m, e, p := withMenu(t, 3)
	m.values[setting.Of(setting.KernelArg, "b")] = setting.Value("new")
	result, err := e.Run(t.Context(), p, Options{})
	must.Hold(t, err == nil && result.Written() == 6 && slices.Equal(m.runs, []int{2}) &&
		result.Changes[4].State == journal.ChangeAlready, "%+v, runs of %v, %v", result.Changes, m.runs, err)
}

func TestChangesTogetherAreRefused(t *testing.T) {
	m, e, p := withMenu(t, 3)
	before := m.snapshot()
	m.breaks = errors.New("no space left")
	result, err := e.Run(t.Context(), p, Options{})
	var failure *Failure
	must.Need(t, errors.As(err, &failure) && failure.State == journal.FailedUndone &&
		strings.Contains(err.Error(), "kernel-arg:a: wanted new: no space left"), "error is %v", err)
	for _, c := range result.Changes {
		must.Equal(t, c.State, journal.ChangeUndone, "%s", c.Address)
	}
	must.Hold(t, m.same(before) && len(m.runs) == 1 && state(t, e) == IsClean,
		"runs of %v, the machine is %v", m.runs, m.values)
}

// TestTogetherUndone: a change behind them fails, and they are put back in one go; where that is refused, one by one.
func TestTogetherUndone(t *testing.T) {
	for name, broken := range map[string]error{"in one go": nil, "one by one": errors.New("no space left")} {
		t.Run(name, func(t *testing.T) {
			m, e, p := withMenu(t, 3)
			before := m.snapshot()
			last := setting.Of(setting.Sysfs, "last")
			m.refuseTo[last] = map[string]error{"new": errors.New("invalid argument")}
			m.after = func(a setting.Address) {
				if a.Path == "c" {
					m.breaks = broken // from now on
				}
			}
			_, err := e.Run(t.Context(), p, Options{})
			var failure *Failure
			must.Hold(t, errors.As(err, &failure) && failure.State == journal.FailedUndone && failure.Undone == 7 &&
				m.same(before) && slices.Equal(m.runs, []int{3, 3}),
				"runs of %v, the machine is %v, %v", m.runs, m.values, err)
		})
	}
}

// TestTogetherInterrupted: a run that stops between writing and reading back leaves intents, and a rollback puts back
// all.
func TestTogetherInterrupted(t *testing.T) {
	for name, written := range map[string]int{"before": 0, "in the middle": 2, "behind": 3} {
		t.Run(name, func(t *testing.T) {
			m, e, p := withMenu(t, 3)
			before := m.snapshot()
			lock := must.Get(e.Journal.Lock("apply"))(t)
			w := must.Get(e.Journal.Create(lock, journal.Header{Kind: journal.Apply, Host: e.Host, BootID: e.BootID,
				Version: e.Version, Changes: 3}))(t)
			for i, c := range p.Changes[3:6] {
				must.Do(t, w.Append(journal.Record{Event: journal.Intent, N: i + 1, ID: c.ID, Address: &c.Address,
					Before: &c.From, After: &c.To, Want: &c.Want}))
			}
			for _, c := range p.Changes[3 : 3+written] {
				m.values[c.Address] = c.To
			}
			must.Do(t, w.Close())
			lock.Release()
			must.Equal(t, state(t, e), IsInterrupted, "state")
			if _, err := e.Rollback(t.Context(), RollbackOptions{}); err != nil || !m.same(before) ||
				state(t, e) != IsClean {
				t.Errorf("the machine is %v, %v", m.values, err)
			}
		})
	}
}

// TestTogetherOnRollbackOneByOne: one of them cannot be put back; the others are, and the error names it.
func TestTogetherOnRollbackOneByOne(t *testing.T) {
	m, e, p := withMenu(t, 3)
	must.Get(e.Run(t.Context(), p, Options{}))(t)
	b := setting.Of(setting.KernelArg, "b")
	m.refuseTo[b] = map[string]error{"old": errors.New("invalid argument")}
	_, err := e.Rollback(t.Context(), RollbackOptions{})
	must.Hold(t, err != nil && strings.Contains(err.Error(), "kernel-arg:b: wanted old: invalid argument") &&
		!strings.Contains(err.Error(), "kernel-arg:a"), "error is %v", err)
	for a, r := range m.values {
		must.Equal(t, r.Value, map[bool]string{true: "new", false: "old"}[a == b], "%s is %s", a, r)
	}
}
