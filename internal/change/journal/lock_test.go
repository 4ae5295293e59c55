package journal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mpps/internal/must"
)

func TestNamesRise(t *testing.T) {
	now := time.Date(2026, 11, 20, 21, 0, 0, 0, time.UTC)
	first := newID(now, "")
	must.Need(t, idForm.MatchString(first), "%q", first)
	for _, back := range []time.Duration{0, time.Nanosecond, -time.Hour, 48 * time.Hour} {
		next := newID(now.Add(back), first)
		must.Hold(t, next > first && idForm.MatchString(next), "%v later: %q does not sort after %q", back, next, first)
	}
}

func TestLock(t *testing.T) {
	d, root := open(t)
	l := lock(t, d)
	var locked *Locked
	if _, err := d.Lock("again"); !errors.As(err, &locked) || locked.Holder.PID != os.Getpid() ||
		!strings.Contains(err.Error(), "(test)") {
		t.Errorf("error is %v, expected it to name this process", err)
	}
	check(t, l.setTX("20200101T000000.000000Z-000000"))
	if h, err := d.Holder(); err != nil || h == nil || h.TX != "20200101T000000.000000Z-000000" {
		t.Errorf("holder is %+v, %v", h, err)
	}
	check(t, l.Release())
	if h, err := d.Holder(); err != nil || h != nil {
		t.Errorf("holder is %+v, %v; expected none", h, err)
	}
	// What a dead process left, or one whose number another process got.
	for _, left := range []string{
		`{"pid":999999999,"began":5,"command":"apply","since":"2026-01-01T00:00:00Z"}`,
		`{"pid":1,"began":123456789,"command":"apply","since":"2026-01-01T00:00:00Z"}`,
		"garbage", "\x00\x00",
	} {
		write(t, filepath.Join(root, HolderPath), left)
		if h, err := d.Holder(); err != nil || h != nil {
			t.Errorf("%s: holder is %+v, %v; expected none", left, h, err)
		}
		again, err := d.Lock("again")
		must.Need(t, err == nil, "%s: %v", left, err)
		check(t, again.Release())
	}
	if info, err := os.Stat(filepath.Join(root, LockPath)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("lock: %v, %v; expected mode 0600", info.Mode(), err)
	}
}

// TestLockOfTheDying: a killed process that hangs in the kernel keeps its locks; it is named all the same.
func TestLockOfTheDying(t *testing.T) {
	d, root := open(t)
	check(t, lock(t, d).Release())
	f, err := os.OpenFile(filepath.Join(root, LockPath), os.O_RDWR, 0)
	check(t, err)
	defer f.Close()
	check(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
	var locked *Locked
	if _, err := d.Lock("again"); !errors.As(err, &locked) || locked.Ending ||
		!strings.Contains(err.Error(), "did not say who it is") {
		t.Errorf("error is %v", err)
	}
	write(t, filepath.Join(root, HolderPath),
		`{"pid":999999999,"began":5,"command":"apply","since":"2026-01-01T00:00:00Z","tx":"20260101T000000.000000Z-000000"}`)
	_, err = d.Lock("again")
	must.Hold(t, errors.As(err, &locked) && locked.Ending &&
		strings.Contains(err.Error(), "process 999999999 (apply), "+"since 2026-01-01T00:00:00Z, transaction 2026") &&
		strings.Contains(err.Error(), "was killed"), "error is %v, expected it to name the process that hangs", err)
	if !strings.Contains(locked.Hint(), "kernel's log") || locked.OutcomeCode() != 11 {
		t.Errorf("hint is %q, exit code %d", locked.Hint(), locked.OutcomeCode())
	}
}

// TestLockOfAChild: a lock that was given back is free though a child has a copy of its descriptor.
func TestLockOfAChild(t *testing.T) {
	d, _ := open(t)
	l := lock(t, d)
	child, err := syscall.Dup(int(l.lock.Fd()))
	check(t, err)
	defer syscall.Close(child)
	check(t, l.Release())
	check(t, lock(t, d).Release())
}

// TestLockIsNoLink: whoever could put a link there could have a file of root's written to.
func TestLockIsNoLink(t *testing.T) {
	for _, name := range []string{LockPath, HolderPath} {
		d, root := open(t)
		check(t, os.MkdirAll(filepath.Join(root, "run/mpps"), 0o755))
		check(t, os.Symlink("elsewhere", filepath.Join(root, name)))
		var refused *Refused
		if _, err := d.Lock("test"); !errors.As(err, &refused) || !strings.Contains(err.Error(), "lock /"+name+
			" is refused: it is a symbolic link") || refused.Hint() == "" {
			t.Errorf("error is %v", err)
		}
	}
}

func TestFindByBeginning(t *testing.T) {
	d, _ := open(t)
	l := lock(t, d)
	w := create(t, d, l, Header{Kind: Apply})
	add(t, w, Record{Event: Committed})
	ledger, err := d.Ledger()
	check(t, err)
	if got, err := ledger.Find(w.TX()[:15]); err != nil || got.Header.TX != w.TX() {
		t.Errorf("%v, %v", got, err)
	}
	for _, name := range []string{"", "1999", "../../etc"} {
		if _, err := ledger.Find(name); !errors.Is(err, ErrNoTransaction) {
			t.Errorf("%q: %v, expected no such transaction", name, err)
		}
	}
	must.Is(t, must.Err(d.Load("../../../etc/passwd")), ErrNoTransaction, "a path as a name")
}
