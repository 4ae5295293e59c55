//go:build faults

package faults

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"mpps/internal/apply"
	"mpps/internal/lab/labtest"
)

// rootDir is a directory for trees, in memory where there is such a file system: a killed process loses nothing on either,
// and thousands of fsyncs cost nothing there.
func rootDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "mpps-faults-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// tally is what a row of kills came to.
type tally struct{ kills, lost, behind int }

// afterKill looks at a tree whose apply or rollback was killed: the status must tell the truth, and a rollback must leave
// everything as it was.
func (c *tally) afterKill(t *testing.T, root string, before map[string]string, what string) {
	t.Helper()
	c.kills++
	e, closed, err := engine(root)
	if err != nil {
		t.Fatal(err)
	}
	defer closed()
	s, err := e.Status(t.Context())
	if err != nil {
		t.Fatalf("%s: status: %v", what, err)
	}
	changed := len(differences(before, contents(t, root))) > 0
	switch s.State {
	case apply.IsClean:
		if changed {
			c.lost++
			t.Errorf("%s: status is clean, but something is changed", what)
		}
	case apply.IsInterrupted, apply.IsApplied:
	default:
		c.lost++
		t.Errorf("%s: status is %s: %s", what, s.State, s.Why)
	}
	if _, err := e.Rollback(t.Context(), apply.RollbackOptions{}); err != nil {
		t.Errorf("%s: rollback: %v", what, err)
	}
	after := contents(t, root)
	for name := range after {
		if _, there := before[name]; !there {
			c.behind++
		}
	}
	if different := differences(before, after); len(different) > 0 {
		c.lost++
		t.Errorf("%s: after rollback %q", what, different)
	}
	if s, err := e.Status(t.Context()); err != nil || s.State != apply.IsClean {
		c.lost++
		t.Errorf("%s: after rollback the status is %s, %v; expected clean", what, s.State, err)
	}
}

// TestKillAtEveryPosition kills an apply of 80 values and of the files that make them last, and the rollback of one, at every
// record of the journal and before and after every write.
func TestKillAtEveryPosition(t *testing.T) {
	var c tally
	for _, mode := range []string{"apply", "rollback"} {
		for at := 1; ; at++ {
			root := rootDir(t)
			makeTree(t, root)
			before := contents(t, root)
			p := makePlan(t, root)
			if mode == "rollback" {
				e, closed, err := engine(root)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := e.Run(t.Context(), p, apply.Options{}); err != nil {
					t.Fatal(err)
				}
				closed()
			}
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "MPPS_VICTIM="+mode, "MPPS_VICTIM_ROOT="+root, "MPPS_VICTIM_PLAN="+writePlan(t, p), "MPPS_VICTIM_DIES="+strconv.Itoa(at))
			out, err := cmd.CombinedOutput()
			var died *exec.ExitError
			if err == nil {
				if at < 4*80 {
					t.Fatalf("%s passed only %d points", mode, at)
				}
				break
			}
			if !errors.As(err, &died) || died.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("%s at %d: %v: %s", mode, at, err, out)
			}
			c.afterKill(t, root, before, mode+" killed at position "+strconv.Itoa(at))
			os.RemoveAll(root)
		}
	}
	t.Logf("kills tried %d · states lost %d · files left behind %d", c.kills, c.lost, c.behind)
}

// TestKillProgram kills the program itself at random moments of an apply, on a disk.
func TestKillProgram(t *testing.T) {
	program := labtest.Binary(t)
	var c tally
	finished := 0
	span := 500 * time.Millisecond
	for range 40 {
		root := t.TempDir()
		makeTree(t, root)
		before := contents(t, root)
		file := writePlan(t, makePlan(t, root))
		cmd := exec.Command(program, "apply", file, "--root", root, "--quiet")
		began := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		pause := rand.N(span)
		timer := time.AfterFunc(pause, func() { _ = cmd.Process.Kill() })
		err := cmd.Wait()
		if timer.Stop() && err != nil {
			t.Fatalf("mpps apply: %v", err)
		}
		if err == nil {
			finished++
			span = min(span, time.Since(began)) // of all of its life
		}
		c.afterKill(t, root, before, "mpps apply killed after "+pause.String())
	}
	t.Logf("kills tried %d (%d of them too late) · states lost %d · files left behind %d", c.kills, finished, c.lost, c.behind)
}

// TestUndo80 measures how long 80 values and the files that make them last take to be put back, on a disk.
func TestUndo80(t *testing.T) {
	root := t.TempDir()
	makeTree(t, root)
	before := contents(t, root)
	p := makePlan(t, root)
	e, closed, err := engine(root)
	if err != nil {
		t.Fatal(err)
	}
	defer closed()
	done, err := e.Run(t.Context(), p, apply.Options{})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := e.Rollback(t.Context(), apply.RollbackOptions{}); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	if different := differences(before, contents(t, root)); len(different) > 0 {
		t.Errorf("after rollback %q", different)
	}
	if took > 2*time.Second {
		t.Errorf("put back in %v, expected under 2 s", took)
	}
	t.Logf("%d changes applied in %.2f s, put back in %.2f s", len(p.Changes), done.Seconds, took.Seconds())
}
