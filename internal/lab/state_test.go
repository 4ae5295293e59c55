package lab

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mpps/internal/must"
)

func TestParseStat(t *testing.T) {
	st, start, err := parseStat("7 (a) b (c)) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 9 9")
	must.Hold(t, err == nil && st == 'S' && start == 12345, "found %c %d %v", st, start, err)
	for _, bad := range []string{"", "7 (x", "7 (x) S 1"} {
		if _, _, err := parseStat(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestProcIsNotARecycledNumber(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	must.Do(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	p, ok := readProc("x", cmd.Process.Pid)
	must.Need(t, ok && p.Alive(), "a running process does not count as alive")
	earlier := p
	earlier.Start--
	must.Hold(t, !earlier.Alive(), "another process with the same number counts as alive")
	if err := earlier.kill(); err != nil || !p.Alive() {
		t.Errorf("a process with the same number was ended (%v)", err)
	}
	if err := p.kill(); err != nil || p.Alive() {
		t.Errorf("not ended: %v", err)
	}
	must.Succeed(t, p.kill(), "ending twice")
}

func TestOrphaned(t *testing.T) {
	me, _ := readProc("owner", os.Getpid())
	gone := me
	gone.Start--
	qemu := Proc{Role: roleQEMU, PID: me.PID, Start: me.Start}
	for name, c := range map[string]struct {
		s    state
		want bool
	}{
		"owner lives":        {state{Boot: bootID(), Owner: me}, false},
		"owner gone":         {state{Boot: bootID(), Owner: gone, Procs: []Proc{qemu}}, true},
		"detached and runs":  {state{Boot: bootID(), Owner: gone, Detached: true, Procs: []Proc{qemu}}, false},
		"detached and ended": {state{Boot: bootID(), Owner: gone, Detached: true}, true},
		"before a reboot":    {state{Boot: "other", Owner: me, Detached: true, Procs: []Proc{qemu}}, true},
	} {
		must.Equal(t, c.s.orphaned(), c.want, "%s", name)
	}
}

func TestStateKeepsWhatIsNeeded(t *testing.T) {
	s := state{Boot: "b", Owner: Proc{"o", 1, 2}, Config: Config{Name: "n", Mode: Systemd, Args: []string{"a"},
		Persist: true, Log: func(string) {}, Tree: &Tree{}}, Procs: []Proc{{roleQEMU, 3, 4}}}
	b := must.Get(json.Marshal(s))(t)
	var back state
	must.Do(t, json.Unmarshal(b, &back))
	s.Config.Log, s.Config.Tree = nil, nil
	must.NoDiff(t, cmp.Diff(s, back), "difference")
}

func TestEvents(t *testing.T) {
	log := []byte(`{"QMP": {"version": {}}}
{"return": {}}
{"timestamp": {"seconds": 1}, "event": "SHUTDOWN", "data": {"guest": true, "reason": "guest-reset"}}
{"timestamp": {"seconds": 2}, "event": "STO`)
	must.Equal(t, shutdownReason(log), "guest-reset", "shutdownReason")
	must.Hold(t, !hasEvent(log, "STOP"), "half a line counts")
	must.Equal(t, shutdownReason(nil), "killed", "without events")
}

func TestFairShare(t *testing.T) {
	for _, c := range []struct{ dt, run, wait, want time.Duration }{
		{time.Second, 2 * time.Second, 0, time.Second},
		{time.Second, time.Second, time.Second, 500 * time.Millisecond},
		{time.Second, 0, 0, time.Second},
	} {
		must.Equal(t, fairShare(c.dt, c.run, c.wait), c.want, "%+v", c)
	}
	if run, _ := schedstat(os.Getpid()); run <= 0 {
		t.Skip("this kernel does not account run time of threads")
	}
}

func TestLockFileThatWasUnlinkedIsNoLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l")
	unlock := must.Get(lockFile(t.Context(), path, func() {}))(t)
	got, waits := make(chan error, 1), make(chan bool, 1)
	go func() {
		u, err := lockFile(t.Context(), path, func() { waits <- true })
		if err == nil {
			defer u()
		}
		got <- err
	}()
	<-waits
	must.Do(t, os.Remove(path))
	if err := <-got; err != nil { // on a new file of that name, without waiting for the old one
		t.Error(err)
	}
	unlock()
}

// TestFairTimeoutSaysWhy checks that a context whose limit was reached has another error than one that its caller
// canceled, and that contexts derived from it have the same.
func TestFairTimeoutSaysWhy(t *testing.T) {
	for _, c := range []struct {
		limit time.Duration
		want  error
	}{{time.Millisecond, context.DeadlineExceeded}, {time.Hour, context.Canceled}} {
		above, cancelAbove := context.WithCancel(t.Context())
		fair, cancel := (&Lab{st: new(state)}).withFairTimeout(above, c.limit)
		below, cancelBelow := context.WithCancel(fair)
		if c.want == context.Canceled {
			cancelAbove()
		}
		<-below.Done()
		if fair.Err() != c.want || below.Err() != c.want || context.Cause(below) != c.want {
			t.Errorf("limit %v: %v, and below it %v; expected %v", c.limit, fair.Err(), below.Err(), c.want)
		}
		cancelBelow()
		cancel()
		cancelAbove()
	}
}
