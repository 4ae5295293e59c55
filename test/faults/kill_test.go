//go:build faults

package faults

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mpps/internal/advise/plan"
	"mpps/internal/change/apply"
	"mpps/internal/change/journal"
	"mpps/internal/lab/labtest"
	"mpps/internal/must"
)

// rootDir is a directory for trees, in memory where there is such a file system: a killed process loses nothing on
// either, and thousands of fsyncs cost nothing there.
func rootDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "mpps-faults-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// afterKill looks at a tree whose apply or rollback was killed: the status must tell the truth, and a rollback must
// leave everything as it was.
func afterKill(t *testing.T, root string, before map[string]string, what string) {
	t.Helper()
	e, closed, err := engine(root)
	must.Do(t, err)
	defer closed()
	s, err := e.Status(t.Context())
	must.Need(t, err == nil, "%s: status: %v", what, err)
	total.status(string(s.State))
	now := contents(t, root)
	switch s.State {
	case apply.IsClean:
		if len(differences(before, now))+len(added(before, now)) > 0 {
			total.lose(t, "%s: status is clean, but something is changed", what)
		}
	case apply.IsApplied:
		if n := s.Counts[string(apply.Compliant)]; n < planned {
			total.lose(t, "%s: status is applied, but only %d values are", what, n)
		}
	case apply.IsInterrupted:
	default:
		total.lose(t, "%s: status is %s: %s", what, s.State, s.Why)
	}
	if _, err := e.Rollback(t.Context(), apply.RollbackOptions{}); err != nil {
		total.lose(t, "%s: rollback: %v", what, err)
	}
	after := contents(t, root)
	if different := differences(before, after); len(different) > 0 {
		total.lose(t, "%s: after rollback %q", what, different)
	}
	total.leave(t, what, leftovers(t, root, before, after)...)
	if s, err := e.Status(t.Context()); err != nil || s.State != apply.IsClean {
		total.lose(t, "%s: after rollback the status is %s, %v; expected clean", what, s.State, err)
	}
}

// leftovers are files that were not there before, and what is no journal among the journals.
func leftovers(t *testing.T, root string, before, after map[string]string) []string {
	t.Helper()
	left := added(before, after)
	entries, err := os.ReadDir(filepath.Join(root, journal.Path))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".jsonl") {
			left = append(left, journal.Path+"/"+entry.Name())
		}
	}
	return left
}

// killedAt runs a victim that dies at a point; over tells that it has fewer points.
func killedAt(t *testing.T, mode, root, plan string, at int) (over bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "MPPS_VICTIM="+mode, "MPPS_VICTIM_ROOT="+root, "MPPS_VICTIM_PLAN="+plan,
		"MPPS_VICTIM_DIES="+strconv.Itoa(at))
	out, err := cmd.CombinedOutput()
	if err == nil {
		return true
	}
	var died *exec.ExitError
	must.Need(t, errors.As(err, &died) && died.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL,
		"%s at %d: %v: %s", mode, at, err, out)
	return false
}

// TestKillAtEveryPosition kills, at every record of the journal and before and after every write: an apply of 80 values
// and of the files that make them last, one that fails at its last value and undoes itself, and the rollback of one.
func TestKillAtEveryPosition(t *testing.T) {
	for _, mode := range []string{"apply", "failing", "rollback"} {
		points := 0
		for !killOnce(t, mode, points+1, func(root string, p *plan.Plan, _ string) {
			if mode != "rollback" {
				return
			}
			e, closed, err := engine(root)
			must.Do(t, err)
			must.Get(e.Run(t.Context(), p, apply.Options{}))(t)
			closed()
		}) {
			points++
			total.killed(mode)
		}
		must.Need(t, points >= 4*planned, "%s passed only %d points", mode, points)
		t.Logf("%s: killed at %d positions", mode, points)
	}
}

// TestKillTwice kills the rollback of an apply that was killed itself, early and late.
func TestKillTwice(t *testing.T) {
	for _, first := range []int{30, 130, 230, 330} {
		for at := 1 + rand.IntN(8); !killOnce(t, "rollback", at, func(root string, _ *plan.Plan, file string) {
			must.Need(t, !killedAt(t, "apply", root, file, first), "the apply has fewer than %d positions", first)
		}); at += 1 + rand.IntN(12) {
			total.killed("apply and its rollback")
		}
	}
}

// killOnce makes a tree, prepares it, kills a victim at a point and looks at what is left; over tells that the victim
// has fewer points.
func killOnce(t *testing.T, mode string, at int, prepare func(root string, p *plan.Plan, file string)) (over bool) {
	t.Helper()
	root := rootDir(t)
	defer os.RemoveAll(root)
	makeTree(t, root)
	before := contents(t, root)
	p := makePlan(t, root)
	file := writePlan(t, p)
	prepare(root, p, file)
	if killedAt(t, mode, root, file, at) {
		return true
	}
	afterKill(t, root, before, mode+" killed at position "+strconv.Itoa(at))
	return false
}

// TestKillProgram kills the program itself at random moments of an apply and of a rollback, on a disk.
func TestKillProgram(t *testing.T) {
	program := labtest.Binary(t)
	finished := 0
	span := map[string]time.Duration{"apply": 500 * time.Millisecond, "rollback": 500 * time.Millisecond}
	for n := range 60 {
		root := t.TempDir()
		makeTree(t, root)
		before := contents(t, root)
		verb := "apply"
		arguments := []string{verb, "--yes", writePlan(t, makePlan(t, root)), "--root", root, "--quiet"}
		if n%3 == 2 {
			if out, err := exec.Command(program, arguments...).CombinedOutput(); err != nil {
				t.Fatalf("mpps apply: %v: %s", err, out)
			}
			verb = "rollback"
			arguments = []string{verb, "--root", root, "--quiet"}
		}
		cmd := exec.Command(program, arguments...)
		began := time.Now()
		must.Do(t, cmd.Start())
		pause := rand.N(span[verb])
		timer := time.AfterFunc(pause, func() { _ = cmd.Process.Kill() })
		err := cmd.Wait()
		if timer.Stop() && err != nil {
			t.Fatalf("mpps %s: %v", verb, err)
		}
		if err == nil {
			finished++
			span[verb] = min(span[verb], time.Since(began)) // of all of its life
		} else {
			total.killed("mpps " + verb)
		}
		afterKill(t, root, before, "mpps "+verb+" killed after "+pause.String())
	}
	t.Logf("%d came too late", finished)
}
