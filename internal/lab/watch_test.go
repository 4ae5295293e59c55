package lab

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/must"
)

// TestStillness: a lab is ended after frozenLooks looks in a row at which nothing had run or a process did not serve
// it.
func TestStillness(t *testing.T) {
	one, two := Proc{roleQEMU, 1, 1}, Proc{roleQEMU, 1, 2}
	type look struct {
		qemu     Proc
		ran      time.Duration
		unserved bool
	}
	always := func(l look) func(int) look { return func(int) look { return l } }
	for name, c := range map[string]struct {
		look func(i int) look
		want int // the look at which it is ended, in 40; 0: never
	}{
		"runs":                       {func(i int) look { return look{one, time.Duration(i), false} }, 0},
		"stands still":               {always(look{one, time.Second, false}), frozenLooks + 1},
		"stopped":                    {always(look{one, time.Second, true}), frozenLooks + 1},
		"no accounting":              {always(look{one, 0, false}), 0},
		"no accounting, and stopped": {always(look{one, 0, true}), frozenLooks + 1},
		"another of the lab's processes is absent": {func(i int) look { return look{one, time.Duration(i), true} },
			frozenLooks + 1},
		"now and then": {func(i int) look { return look{one, time.Duration(i / (frozenLooks - 1)), false} }, 0},
		"booted again": {func(i int) look {
			if i < frozenLooks {
				return look{one, time.Second, false}
			}
			return look{two, time.Second, false}
		}, 2 * frozenLooks},
	} {
		var s stillness
		got := 0
		for i := 1; i <= 40 && got == 0; i++ {
			if l := c.look(i); s.look(l.qemu, l.ran, l.unserved) {
				got = i
			}
		}
		must.Equal(t, got, c.want, "%s: ended at look", name)
	}
	if within := (frozenLooks + 1) * lookEvery; within > 25*time.Second {
		t.Errorf("it takes %v to notice", within)
	}
}

// TestWatch: whoever has a handle of a lab whose QEMU was stopped by a signal sees it end, and why.
func TestWatch(t *testing.T) {
	inScratch(t)
	qemu := another(t)
	qemu.Role = roleQEMU
	c := config("frozen")
	me, _ := readProc("owner", os.Getpid())
	write(t, state{Owner: me, Config: c, Tree: t.TempDir(), Procs: []Proc{qemu}})
	must.Do(t, os.WriteFile(filepath.Join(runDir(c.Name), eventsLog), []byte(qmpHello), 0o644))
	must.Do(t, os.WriteFile(filepath.Join(runDir(c.Name), "serial.log"), nil, 0o644))
	must.Do(t, unix.Kill(qemu.PID, unix.SIGSTOP))
	for !qemu.absent() {
		time.Sleep(time.Millisecond)
	}
	isEnded(t, c.Name, false)
	must.Hold(t, !qemu.Alive(), "it was not ended")
}

// TestWatchServer: so does whoever has one of a lab whose QEMU runs and waits for a program that served it.
func TestWatchServer(t *testing.T) {
	inScratch(t)
	qemu, server := another(t), another(t)
	qemu.Role, server.Role = roleQEMU, roleVirtiofs+"share"
	c := config("unserved")
	me, _ := readProc("owner", os.Getpid())
	write(t, state{Owner: me, Config: c, Tree: t.TempDir(), Procs: []Proc{server, qemu}})
	must.Do(t, os.WriteFile(filepath.Join(runDir(c.Name), eventsLog), []byte(qmpHello), 0o644))
	must.Do(t, os.WriteFile(filepath.Join(runDir(c.Name), "serial.log"), nil, 0o644))
	must.Hold(t, !server.absent(), "a process that sleeps is taken for one that has ended")
	must.Do(t, server.kill())
	isEnded(t, c.Name, true)
	must.Hold(t, !qemu.Alive(), "it was not ended")
}

// isEnded requires that a lab is ended by its watcher; runs: its QEMU counts as running.
func isEnded(t *testing.T, name string, runs bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := must.Get(readState(name))(t)
		l := handle(&Tree{}, func(string) {}, s)
		defer l.Close()
		l.paused.Store(runs)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		reason, err := l.Wait(ctx)
		if err != nil || reason != frozen || time.Since(began) > 30*time.Second {
			t.Errorf("%q, %v after %v", reason, err, time.Since(began))
		}
		if died := l.Death(t.Context()); died == "" {
			t.Error("a test that failed by it is not tried again")
		}
	})
}
