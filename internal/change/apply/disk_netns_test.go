//go:build netns

package apply

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mpps/internal/change/journal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// disk mounts its own small file system as a root directory. scripts/own-mounts keeps it from others.
func disk(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	must.Do(t, syscall.Mount("disk", root, "tmpfs", 0, "size=512k"))
	t.Cleanup(func() {
		must.Try(t, syscall.Unmount(root, 0))
	})
	return root
}

// fill takes every byte that is left of a file system, and returns what gives them back.
func fill(t *testing.T, root string) (free func()) {
	t.Helper()
	name := filepath.Join(root, "filler")
	f, err := os.Create(name)
	for size := 64 << 10; err == nil || size > 1; size = max(size/2, 1) {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
	}
	must.Need(t, errors.Is(err, syscall.ENOSPC), "filling the disk: %v", err)
	return func() {
		must.Do(t, errors.Join(f.Close(), os.Remove(name)))
	}
}

func readOnly(t *testing.T, root string) (again func()) {
	t.Helper()
	must.Do(t, syscall.Mount("", root, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	return func() {
		must.Do(t, syscall.Mount("", root, "", syscall.MS_REMOUNT, ""))
	}
}

// anApply applies a plan whose time to be confirmed is over, and returns its name.
func anApply(t *testing.T, e *Engine) string {
	t.Helper()
	r, err := e.Run(t.Context(), changes(9), Options{Confirm: time.Millisecond, Beside: []setting.Address{address(9)}})
	must.Do(t, err)
	time.Sleep(2 * time.Millisecond)
	return r.TX
}

// TestRollbackFullDisk: an apply has reserved the room of its rollback's journal. Not a byte is left on the disk, and
// the rollback is journaled as ever: asked for, and by the guard.
func TestRollbackFullDisk(t *testing.T) {
	for name, undo := range map[string]func(*Engine, string) ([]Restored, error){
		"rollback": func(e *Engine, tx string) ([]Restored, error) { return e.Rollback(t.Context(), RollbackOptions{}) },
		"guard":    func(e *Engine, tx string) ([]Restored, error) { return e.Guard(t.Context(), tx) },
	} {
		t.Run(name, func(t *testing.T) {
			root, f := disk(t), newFake(t, 10)
			before, e := f.snapshot(), on(t, root, f.mechanisms())
			tx := anApply(t, e)
			defer fill(t, root)()
			restored, err := undo(e, tx)
			if err != nil || len(restored) != 1 || restored[0].Unrecorded != "" || !f.same(before) {
				t.Errorf("%+v, %v: %v, expected %v", restored, err, f.values, before)
			}
			must.Equal(t, state(t, e), IsClean, "status")
			nothingReserved(t, root)
		})
	}
}

// nothingReserved expects that no room is kept for transactions that are over.
func nothingReserved(t *testing.T, root string) {
	t.Helper()
	left := must.Get(filepath.Glob(filepath.Join(root, journal.Path, "*")))(t)
	for _, name := range left {
		info := must.Get(os.Stat(name))(t)
		blocks := info.Sys().(*syscall.Stat_t).Blocks * 512
		if !strings.HasSuffix(name, ".jsonl") || blocks > info.Size()+4096 {
			t.Errorf("%s takes %d bytes of disk for %d", name, blocks, info.Size())
		}
	}
}

// TestRollbackWithoutJournal: the values come back where no journal can be written at all: nothing was reserved and the
// disk is full, or it is read-only. Once it takes writes another rollback records it.
func TestRollbackWithoutJournal(t *testing.T) {
	for name, spoil := range map[string]func(*testing.T, string) func(){
		"full": func(t *testing.T, root string) func() {
			reserves, err := filepath.Glob(filepath.Join(root, journal.Path, "reserve-*"))
			must.Need(t, err == nil && len(reserves) == 1, "%v, %v: expected the reserve of one apply", reserves, err)
			if err := os.Remove(reserves[0]); err != nil { // as with the journal of an earlier version
				t.Fatal(err)
			}
			return fill(t, root)
		},
		"read-only": readOnly,
	} {
		t.Run(name, func(t *testing.T) {
			root, f := disk(t), newFake(t, 10)
			before, e := f.snapshot(), on(t, root, f.mechanisms())
			tx := anApply(t, e)
			mend := spoil(t, root)
			for range 2 { // the second finds everything as before
				restored, err := e.Rollback(t.Context(), RollbackOptions{TX: tx})
				if err != nil || len(restored) != 1 || restored[0].Unrecorded == "" || restored[0].TX != "" ||
					restored[0].State != journal.Applied || !f.same(before) {
					t.Errorf("%+v, %v: %v, expected %v", restored, err, f.values, before)
				}
			}
			var unrecorded *Unrecorded
			g := guard{Engine: e, tx: tx}
			if _, done, err := g.look(t.Context()); done || !errors.As(err, &unrecorded) {
				t.Errorf("the guard: %v, %v: expected to go on until it is recorded", done, err)
			}
			mend()
			if restored, err := e.Rollback(t.Context(), RollbackOptions{TX: tx}); err != nil ||
				len(restored) != 1 || restored[0].Unrecorded != "" {
				t.Errorf("once the disk takes writes: %+v, %v", restored, err)
			}
			must.Equal(t, state(t, e), IsClean, "status")
			nothingReserved(t, root)
		})
	}
}

// TestDiskFillsUp: the disk takes no more bytes from any record of an apply or a rollback on. The apply has reserved
// what it needs; the rollback of an earlier version's, which has not, restores everything as well.
func TestDiskFillsUp(t *testing.T) {
	for _, mode := range []string{"apply", "rollback", "rollback without a reserve"} {
		for n, passed := 1, true; passed; n++ {
			root, f := disk(t), newFake(t, 10)
			before, e := f.snapshot(), on(t, root, f.mechanisms())
			if mode != "apply" {
				tx := anApply(t, e)
				if mode != "rollback" {
					must.Do(t, e.Journal.Unreserve(tx))
				}
			}
			at, mend := 0, func() {}
			e.Journal.Appended = func(string, journal.Record) {
				if at++; at == n {
					mend = fill(t, root)
				}
			}
			if mode == "apply" {
				must.Pass(e.Run(t.Context(), changes(9), Options{Confirm: time.Minute}))(t, "%s, full at %d", mode, n)
				passed = at >= n
				e.Journal.Appended = nil
				if tx, err := e.Confirm(""); err != nil {
					t.Errorf("%s, full at %d: confirm %s: %v", mode, n, tx, err)
				}
			} else {
				restored, err := e.Rollback(t.Context(), RollbackOptions{})
				if err != nil || !f.same(before) {
					t.Errorf("%s, full at %d: %v: %v", mode, n, err, f.values)
				}
				if mode == "rollback" && restored[0].Unrecorded != "" {
					t.Errorf("%s, full at %d: %s", mode, n, restored[0].Unrecorded)
				}
				passed = at >= n
				e.Journal.Appended = nil
			}
			mend()
			_, err := e.Rollback(t.Context(), RollbackOptions{})
			if err != nil || state(t, e) != IsClean || !f.same(before) {
				t.Errorf("%s, full at %d: once the disk takes writes: %v, %s", mode, n, err, state(t, e))
			}
			nothingReserved(t, root)
		}
	}
}

// TestApplyNeedsRoom: an apply whose rollback could not be journaled does not begin, and leaves nothing behind.
func TestApplyNeedsRoom(t *testing.T) {
	for kept := 0; kept <= 384<<10; kept += 64 << 10 {
		root, f := disk(t), newFake(t, 100)
		before, e := f.snapshot(), on(t, root, f.mechanisms())
		room := filepath.Join(root, "room")
		must.Do(t, os.WriteFile(room, make([]byte, kept), 0o644))
		free := fill(t, root)
		must.Do(t, os.Remove(room))
		_, err := e.Run(t.Context(), changes(100), Options{})
		must.Refuse(t, err, "applied with %d bytes left, expected a refusal", kept)
		must.Hold(t, f.same(before) && len(f.writes) <= 0, "refused (%v), but wrote %v", err, f.writes)
		free()
		nothingReserved(t, root)
		must.Pass(e.Run(t.Context(), changes(30), Options{}))(t, "with an empty disk of 512 KiB")
	}
}
