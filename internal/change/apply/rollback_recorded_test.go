package apply

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestRollbackThatDiedWhileItWrote: a rollback is killed in the middle of a write, which leaves something that is
// neither before nor after. The next one does not take it for somebody else's.
func TestRollbackThatDiedWhileItWrote(t *testing.T) {
	for _, reset := range []bool{false, true} {
		f := newFake(t, 3)
		e := engine(t, f)
		before := f.snapshot()
		applied(t, e, changes(3))
		f.becomes[address(1)] = map[string]string{"old": "half"}
		if _, err := e.Rollback(t.Context(), RollbackOptions{}); err == nil || state(t, e) != IsFailed {
			t.Fatalf("%v, status %s; expected the rollback to fail", err, state(t, e))
		}
		clear(f.becomes)
		if reset { // what the kernel holds is as a boot gives it, or as somebody set it since
			e.BootID = "boot-2"
			before[address(1)] = setting.Value("half")
		}
		done, err := e.Rollback(t.Context(), RollbackOptions{})
		must.Hold(t, err == nil && (done[0].Drifted() > 0) == reset && f.same(before),
			"reset %v: %+v, %v, the machine is %v, expected %v", reset, done, err, f.values, before)
	}
}

// TestRollbackOfARecordedMachine puts back what the journals tell that were recorded when the format was made.
func TestRollbackOfARecordedMachine(t *testing.T) {
	root := t.TempDir()
	must.Do(t, os.CopyFS(root, os.DirFS("../journal/testdata/machine")))
	must.Do(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return errors.Join(err, os.Chmod(name, 0o755)) // a checkout gives the modes of whoever makes it
		}
		return os.Chmod(name, 0o644)
	}))
	f := newFake(t, 0)
	for name, value := range map[string]string{"net.a": "1", "net.b": "1", "net.c": "3", "net.d": "half"} {
		f.values[setting.Of(setting.Sysctl, name)] = setting.Value(value)
	}
	e := on(t, root, f.mechanisms())
	e.BootID = "6ab6"
	must.Equal(t, state(t, e), IsInterrupted, "status")
	if done, err := e.Rollback(t.Context(), RollbackOptions{}); err != nil || len(done) != 1 ||
		f.values[setting.Of(setting.Sysctl, "net.d")].Value != "1" {
		t.Fatalf("%+v, %v, the machine is %v", done, err, f.values)
	}
	ledger := must.Get(e.Journal.Ledger())(t)
	if done, err := e.Rollback(t.Context(), RollbackOptions{TX: ledger.Open()[0].Header.TX,
		WithLater: true}); err != nil || len(done) != 2 {
		t.Errorf("%+v, %v", done, err)
	}
	for a, r := range f.values {
		must.Equal(t, r.Value, "1", "%s is %s", a, r)
	}
	must.Equal(t, state(t, e), IsClean, "status")
}
