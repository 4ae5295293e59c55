package apply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mpps/internal/change/journal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// files is a machine of real files below a root; the process that uses it can be made to die at any point.
type files struct {
	root string
	dies func(point string) // called before and after every write
	odd  setting.Address    // writes of "new" to it set something else: the apply fails there
}

func (f *files) name(a setting.Address) string {
	return filepath.Join(f.root, "proc/sys", strings.ReplaceAll(a.Path, ".", "/"))
}

func (f *files) Read(_ context.Context, a setting.Address) setting.Reading {
	text, err := os.ReadFile(f.name(a))
	if err != nil {
		return setting.CouldNotTell(err.Error())
	}
	return setting.Value(strings.TrimSpace(string(text)))
}

func (f *files) Write(_ context.Context, a setting.Address, to setting.Reading) error {
	f.dies("before write")
	value := to.Value
	if a == f.odd && value == "new" {
		value = "odd"
	}
	err := os.WriteFile(f.name(a), []byte(value+"\n"), 0o644)
	if a == address(0) { // moves a value that no change is about
		err = errors.Join(err, os.WriteFile(f.name(bystander), []byte("moved\n"), 0o644))
	}
	f.dies("after write")
	return err
}

const victims = 4 // values that the victim changes

// bystander is moved by every write of the first of them, and is to stay as it is.
var bystander = setting.Of(setting.Sysctl, "net.bystander")

// tree makes a machine of files and returns its root.
func tree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	must.Do(t, os.MkdirAll(filepath.Join(root, "proc/sys/net"), 0o755))
	for i := range victims + 1 {
		name := (&files{root: root}).name(address(i))
		if i == victims {
			name = (&files{root: root}).name(bystander)
		}
		must.Do(t, os.WriteFile(name, []byte("old\n"), 0o644))
	}
	return root
}

// contents is every file of the machine; its journal and lock are not part of it.
func contents(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must.Do(t, filepath.WalkDir(filepath.Join(root, "proc"), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		all[name] = string(text)
		return err
	}))
	return all
}

// victim is this test binary as another process, which kills itself at the n-th point that it passes: every record of
// the journal, and the time before and after every write.
func victim(mode, root string, n int) int {
	at := 0
	dies := func(string) {
		if at++; at == n {
			exhaustMemory(os.Getenv("MPPS_VICTIM_GROUP"))
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			time.Sleep(time.Minute)
		}
	}
	j, err := journal.Open(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	j.Appended = func(_ string, r journal.Record) { dies(string(r.Event)) }
	m := &files{root: root, dies: dies}
	e := &Engine{Mechanisms: setting.Mechanisms{setting.Sysctl: m}, Journal: j, Host: "box", BootID: "boot-1",
		Version: "test"}
	dies("begin")
	beside := []setting.Address{bystander}
	switch mode {
	case "apply":
		_, err = e.Run(context.Background(), changes(victims), Options{Confirm: time.Minute, Beside: beside})
	case "undo":
		m.odd = address(victims - 1)
		var failure *Failure
		if _, err = e.Run(context.Background(), changes(victims), Options{Beside: beside}); errors.As(err, &failure) {
			err = nil
		}
	case "rollback":
		_, err = e.Rollback(context.Background(), RollbackOptions{})
	case "status":
		j.Indexed = true
		_, err = e.Status(context.Background())
	}
	dies("end")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	return 0
}

// exhaustMemory takes memory in a control group with a limit until the kernel ends this process. Without a group it
// returns.
func exhaustMemory(group string) {
	if group == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte("0"), 0); err != nil {
		panic(err)
	}
	for held := [][]byte{}; len(held) < 256; { // four times the limit
		held = append(held, bytes.Repeat([]byte{1}, 1<<20))
	}
}

// TestKillAnywhere kills an apply, an apply that undoes itself, and a rollback, at every point that they pass.
// Afterwards the status must tell the truth, and a rollback must leave every file as it was before.
func TestKillAnywhere(t *testing.T) {
	t.Logf("%d kills, 0 states lost", killAnywhere(t, []string{"apply", "undo", "rollback"}))
}

// killAnywhere kills victims with these variables at every point, and returns how often it did.
func killAnywhere(t *testing.T, modes []string, variables ...string) (kills int) {
	t.Helper()
	for _, mode := range modes {
		for n := 1; ; n++ {
			root := tree(t)
			before := contents(t, root)
			e := on(t, root, setting.Mechanisms{setting.Sysctl: &files{root: root, dies: func(string) {}}})
			if mode == "rollback" {
				applied(t, e, changes(victims), bystander)
			}
			cmd := exec.Command(os.Args[0])
			cmd.Env = slices.Concat(os.Environ(), variables, []string{"MPPS_VICTIM=" + mode, "MPPS_VICTIM_ROOT=" + root,
				"MPPS_VICTIM_DIES=" + strconv.Itoa(n)})
			out, err := cmd.CombinedOutput()
			var died *exec.ExitError
			if err == nil { // it passed fewer points than n: all are tried
				must.Need(t, n >= 10, "%s passed only %d points", mode, n)
				break
			}
			must.Need(t, errors.As(err, &died) && died.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL,
				"%s at %d: %v: %s", mode, n, err, out)
			kills++
			got, changed := state(t, e), !maps.Equal(contents(t, root), before)
			if got == IsClean && changed {
				t.Errorf("%s killed at %d: status is clean, but values are changed", mode, n)
			}
			must.Hold(t, got != IsInFlight && got != IsFailed && got != IsInDoubt && got != IsDrifted,
				"%s killed at %d: status is %s", mode, n, got)
			must.Pass(e.Rollback(t.Context(), RollbackOptions{}))(t, "%s killed at %d: rollback", mode, n)
			must.Same(t, contents(t, root), before, "%s killed at %d: after rollback", mode, n)
			must.Equal(t, state(t, e), IsClean, "%s killed at %d: after rollback the status", mode, n)
			if done, err := e.Rollback(t.Context(), RollbackOptions{}); err != nil || len(done) > 0 {
				t.Errorf("%s killed at %d: a second rollback did %v, %v", mode, n, done, err)
			}
		}
	}
	return kills
}

// TestPowerLoss cuts the journal of an apply at every byte, as a machine that stops may leave it, with the values as
// they stood when the record that is cut was to be written.
func TestPowerLoss(t *testing.T) {
	root := tree(t)
	before := contents(t, root)
	e := on(t, root, setting.Mechanisms{setting.Sysctl: &files{root: root, dies: func(string) {}}})
	values := map[int]map[string]string{} // size of the journal → the files at the time
	name := ""
	e.Journal.Appended = func(tx string, _ journal.Record) {
		name = filepath.Join(root, journal.Path, tx+".jsonl")
		info := must.Get(os.Stat(name))(t)
		values[int(info.Size())] = contents(t, root)
	}
	applied(t, e, changes(victims), bystander)
	e.Journal.Appended = nil
	text := must.Get(os.ReadFile(name))(t)
	header := strings.Index(string(text), "\n") + 1
	values[header] = before
	stood := before
	for size := header; size <= len(text); size++ {
		if values[size] != nil {
			stood = values[size]
		} else if size%23 != 0 { // every 23rd byte, and every end of a line
			continue
		}
		next := stood // what the record that is cut tells may have been done or not
		for more := size + 1; more <= len(text) && maps.Equal(next, stood); more++ {
			if values[more] != nil {
				next = values[more]
				break
			}
		}
		for _, machine := range []map[string]string{stood, next} {
			powerLost(t, e, root, name, text[:size], machine)
			if after := contents(t, root); !maps.Equal(after, before) {
				t.Fatalf("cut at byte %d: after rollback %v, expected %v", size, after, before)
			}
		}
	}
}

// powerLost leaves a journal and the files of the machine as given, rolls back, and forgets the rollback's own journal.
func powerLost(t *testing.T, e *Engine, root, name string, text []byte, machine map[string]string) {
	t.Helper()
	must.Do(t, os.WriteFile(name, text, 0o644))
	if err := os.Chmod(name, 0o644); err != nil { // what had not ended could still be written
		t.Fatal(err)
	}
	for file, value := range machine {
		must.Do(t, os.WriteFile(file, []byte(value), 0o644))
	}
	if _, err := e.Rollback(t.Context(), RollbackOptions{}); err != nil {
		t.Fatalf("cut at byte %d: %v", len(text), err)
	}
	others := must.Get(filepath.Glob(filepath.Join(root, journal.Path, "*")))(t)
	for _, other := range others {
		if other != name {
			must.Do(t, os.Remove(other))
		}
	}
}
