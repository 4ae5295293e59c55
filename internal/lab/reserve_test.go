package lab

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"mpps/internal/must"
)

// inScratch gives labs a run folder of the test's own, and has no deaths recorded.
func inScratch(t *testing.T) {
	t.Setenv("MPPS_LAB_STATS", "")
	before := runRoot
	runRoot = t.TempDir()
	t.Cleanup(func() { runRoot = before })
}

// another starts a process that does nothing, as the owner of a lab.
func another(t *testing.T) Proc {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	must.Do(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	p, ok := readProc("owner", cmd.Process.Pid)
	must.Need(t, ok, "the process has ended")
	return p
}

func config(name string) Config {
	c := Config{Name: name}
	c.fill()
	return c
}

// write makes the run folder of a lab with a state.
func write(t *testing.T, s state) {
	t.Helper()
	if s.Boot == "" {
		s.Boot = bootID()
	}
	must.Do(t, errors.Join(os.MkdirAll(runDir(s.Config.Name), 0o755), s.write()))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// TestClaim: a name that another process has is refused at once, also while that one is still building or booting, and
// is to be had when that process has ended.
func TestClaim(t *testing.T) {
	inScratch(t)
	owner := another(t)
	write(t, state{Owner: owner, Config: config("demo")})
	began := time.Now()
	if _, err := claim(t.Context(), config("demo")); !errors.Is(err, ErrRunning) || time.Since(began) > 20*time.Second {
		t.Errorf("taken: %v after %v", err, time.Since(began))
	}
	if s, err := readState("demo"); err != nil || s.Owner != owner {
		t.Errorf("the refused one wrote %+v, %v", s, err)
	}
	must.Do(t, owner.kill())
	for range 2 { // the second time it is this process's own: what Reserve has taken, Start takes
		unlock := must.Get(claim(t.Context(), config("demo")))(t)
		unlock()
	}
	if s, err := readState("demo"); err != nil || s.Owner.PID != os.Getpid() || s.orphaned() {
		t.Errorf("found %+v, %v", s, err)
	}
	s, _ := readState("demo")
	s.Tree = "/tree" // started
	write(t, *s)
	must.Is(t, must.Err(claim(t.Context(), config("demo"))), ErrRunning, "twice in a process")
}

// TestClaimIsNotKeptWaiting: who holds the lock of a name for long has it.
func TestClaimIsNotKeptWaiting(t *testing.T) {
	inScratch(t)
	synctest.Test(t, func(t *testing.T) {
		unlock := must.Get(lockName(t.Context(), "demo", func() {}))(t)
		defer unlock()
		began := time.Now()
		if _, err := claim(t.Context(), config("demo")); !errors.Is(err, ErrRunning) ||
			time.Since(began) > 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// TestReleaseLeavesKeptData: giving up a name before anything was started removes the reservation alone.
func TestReleaseLeavesKeptData(t *testing.T) {
	inScratch(t)
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("labs/kept/upper", 0o755); err != nil { // where a relative path would lead
		t.Fatal(err)
	}
	unlock := must.Get(claim(t.Context(), config("kept")))(t)
	must.Do(t, release("kept", true))
	unlock()
	must.Hold(t, !exists(runDir("kept")) && !exists(nameLock("kept")) && exists("labs/kept/upper"),
		"the reservation was not removed, or more than that")
	write(t, state{Owner: another(t), Config: config("kept")})
	if err := release("kept", true); err != nil || !exists(stateFile("kept")) {
		t.Errorf("another's reservation was removed: %v", err)
	}
}

// TestHeld: a name that a process has reserved stays its own when a lab of that name ends, until it gives the name up.
// Another process's lab is ended with its reservation.
func TestHeld(t *testing.T) {
	inScratch(t)
	c := config("demo")
	c.Held = true
	me, _ := readProc("owner", os.Getpid())
	quiet := func(string) {}
	for range 2 {
		write(t, state{Owner: me, Config: c, Cache: t.TempDir(), Tree: "/tree"})
		must.Do(t, Down(t.Context(), "demo", quiet))
		s := must.Get(readState("demo"))(t)
		must.Hold(t, s.Owner == me && s.Tree == "" && s.Config.Held, "found %+v", s)
		unlock := must.Get(claim(t.Context(), c))(t)
		must.Do(t, release("demo", true)) // of a start that failed
		unlock()
		must.Need(t, exists(stateFile("demo")), "the name was given up")
	}
	must.Do(t, release("demo", false))
	must.Hold(t, !exists(runDir("demo")), "the name is still taken")
	write(t, state{Owner: another(t), Config: c, Cache: t.TempDir(), Tree: "/tree"})
	must.Do(t, Down(t.Context(), "demo", quiet))
	must.Hold(t, !exists(runDir("demo")), "another's reservation is still there")
}

// TestReapStarts: a start that was killed leaves nothing, also of a lab that was to outlive it; one that is under way,
// and one that has been detached, are left alone.
func TestReapStarts(t *testing.T) {
	inScratch(t)
	cache := t.TempDir()
	alive, gone, qemu := another(t), another(t), another(t)
	qemu.Role = roleQEMU
	must.Do(t, gone.kill())
	left := another(t)
	left.Role = roleQEMU
	c := config("killed")
	c.Detached = true
	write(t, state{Owner: gone, Config: c, Cache: cache, Tree: "/tree", Procs: []Proc{left}})
	must.Do(t, os.MkdirAll(filepath.Join(dataDir(cache, "killed"), "share"), 0o755))
	write(t, state{Owner: gone, Config: config("building")})
	write(t, state{Owner: alive, Config: config("starting")})
	c.Name = "detached"
	write(t, state{Owner: gone, Config: c, Detached: true, Procs: []Proc{qemu}})
	for _, folder := range []string{"empty", "locked"} {
		must.Do(t, os.Mkdir(runDir(folder), 0o755))
	}
	unlock := must.Get(lockName(t.Context(), "locked", func() {}))(t)
	defer unlock()

	labs := must.Get(List())(t)
	for _, i := range labs {
		must.Equal(t, i.Orphaned, i.Name == "killed" || i.Name == "building", "%s: found orphaned", i.Name)
	}
	began := time.Now()
	done, err := Reap(t.Context())
	if err != nil || !slices.Equal(done, []string{"building", "killed"}) || time.Since(began) > 20*time.Second {
		t.Errorf("found %v, %v after %v", done, err, time.Since(began))
	}
	must.Hold(t, !left.Alive() && qemu.Alive() && alive.Alive(), "ended the wrong processes")
	for path, want := range map[string]bool{runDir("killed"): false, dataDir(cache, "killed"): false,
		runDir("building"): false, runDir("empty"): false, runDir("locked"): true, runDir("starting"): true,
		runDir("detached"): true} {
		must.Equal(t, exists(path), want, "%s", path)
	}
}

// TestDown ends a lab of a process that was killed, whose tree is gone too.
func TestDown(t *testing.T) {
	inScratch(t)
	cache := t.TempDir()
	gone, qemu := another(t), another(t)
	qemu.Role = roleQEMU
	must.Do(t, gone.kill())
	write(t, state{Owner: gone, Config: config("demo"), Cache: cache, Tree: filepath.Join(cache, "tree-0"),
		Procs: []Proc{qemu}})
	must.Do(t, os.MkdirAll(filepath.Join(dataDir(cache, "demo"), "share"), 0o755))
	quiet := func(string) {}
	must.Do(t, Down(t.Context(), "demo", quiet))
	must.Hold(t, !qemu.Alive() && !exists(runDir("demo")) && !exists(dataDir(cache, "demo")) &&
		!exists(nameLock("demo")), "something is left")
	must.Is(t, Down(t.Context(), "demo", quiet), fs.ErrNotExist, "nothing to end")
}

// TestUnused names what killed processes have left in the cache, and nothing that is in use; Clean removes it, and
// nothing while a tree is built.
func TestUnused(t *testing.T) {
	inScratch(t)
	cache := t.TempDir()
	old := time.Now().Add(-time.Hour)
	var all []string
	for _, dir := range []string{"build-1", "tree-a/build-2", "tree-a/saved/unfinished-1", "labs/kept", "labs/up",
		"tree-a/saved/unfinished-2", "tree-a/saved/0123", "debs"} {
		path := filepath.Join(cache, dir)
		must.Do(t, os.MkdirAll(path, 0o755))
		all = append(all, path)
	}
	must.Do(t, os.Chtimes(all[2], old, old))
	write(t, state{Owner: another(t), Config: config("up"), Cache: cache, Tree: filepath.Join(cache, "tree-a")})
	want := slices.Sorted(slices.Values(all[:4]))
	unused, err := Unused(cache)
	if slices.Sort(unused); err != nil || !slices.Equal(unused, want) {
		t.Errorf("found %v, %v, expected %v", unused, err, want)
	}
	unlock := must.Get(tryLock(buildLock(cache)))(t)
	unused, err = Unused(cache)
	if slices.Sort(unused); err != nil || !slices.Equal(unused, slices.Sorted(slices.Values(all[2:4]))) {
		t.Errorf("during a build: found %v, %v", unused, err)
	}
	oneLine(t, Clean(t.Context(), cache)) // a lab is up
	must.Do(t, os.RemoveAll(runDir("up")))
	oneLine(t, Clean(t.Context(), cache))
	must.Hold(t, exists(all[0]), "a build under way was removed")
	unlock()
	must.Do(t, Clean(t.Context(), cache))
	if left, err := os.ReadDir(cache); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if unused, err := Unused(filepath.Join(cache, "none")); err != nil || len(unused) > 0 {
		t.Errorf("no cache: %v, %v", unused, err)
	}
}
