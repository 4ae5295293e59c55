// Package labtest provides lab hosts for tests. The tests of a package share one per kind; the first that needs it
// boots it, and Main ends it. Packages that are tested concurrently queue for a place (queue.go). If a test fails and
// the kernel of its emulated host or of a guest died, it is repeated once, in another process and lab (again.go);
// nothing else is.
package labtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mpps/internal/lab"
	"mpps/internal/must"
	"mpps/internal/owned"
)

// Option configures the lab that Host returns.
type Option func(*options)

type options struct {
	c        lab.Config
	noBinary bool
	fresh    bool
}

// Systemd runs a complete Debian.
func Systemd(o *options) { o.c.Mode = lab.Systemd }

// Persist keeps the file system over Reset.
func Persist(o *options) { o.c.Persist = true }

// Disk keeps it on a disk: Reset loses what was not fsynced, like a power cut.
func Disk(o *options) { o.c.Persist, o.c.Disk = true, true }

// Size sets the host's CPUs and memory, split between its two nodes.
func Size(cpus, memoryMiB int) Option {
	return func(o *options) { o.c.CPUs, o.c.MemoryMiB = cpus, memoryMiB }
}

// Realtime boots Debian's PREEMPT_RT kernel; the first build takes half a minute longer. Emulated it is slow, and dies
// more often than the usual one: keep such tests short.
func Realtime(o *options) { o.c.Realtime = lab.RealtimeBooted }

// RealtimeInstalled puts that kernel into the boot menu and boots the usual one.
func RealtimeInstalled(o *options) { o.c.Realtime = lab.RealtimeInstalled }

// NoBinary puts no mpps into /share.
func NoBinary(o *options) { o.noBinary = true }

// Args adds kernel arguments of the lab host.
func Args(args ...string) Option { return func(o *options) { o.c.Args = append(o.c.Args, args...) } }

// Fresh returns a lab that no other test has used; it ends with the test.
func Fresh(o *options) { o.fresh = true }

var (
	mu     sync.Mutex
	shared = map[string]*lab.Lab{}
	place  *os.File // this process's place in the queue; nil: none yet
	count  int
)

// Main runs a package's tests and ends their labs. Use it in TestMain: os.Exit(labtest.Main(m)).
func Main(m *testing.M) int {
	code := m.Run()
	mu.Lock()
	defer mu.Unlock()
	for _, l := range shared {
		if err := stop(l); err != nil {
			fmt.Fprintln(os.Stderr, "labtest:", err)
			code = max(code, 1)
		}
	}
	if code != 0 && mayRetry() {
		place.Close() // the other process queues like any
		code = retryFailed()
	}
	if dir != "" {
		os.RemoveAll(dir)
	}
	return code
}

func stop(l *lab.Lab) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	// also what a persistent one keeps: its name is never used again
	return errors.Join(l.Stop(ctx), lab.RemoveData(l.Name()))
}

// Long skips a scene in 'make test', which runs with -short: all of them take more than an hour on two cores, where
// everything is emulated. 'make test-turn' plays a quarter of them (test/scenes), 'make test-long' all. Call it in the
// test itself: test/scenes finds it there.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("minutes of emulation: 'make test-turn' and 'make test-long' play it")
	}
}

// Host returns a running lab with mpps of this tree in it (lab.Install).
func Host(t testing.TB, opts ...Option) *lab.Lab {
	t.Helper()
	var o options
	for _, f := range opts {
		f(&o)
	}
	l := must.Get(host(t, o))(t)
	if !o.noBinary {
		must.Do(t, l.Install(t.Context(), Binary(t)))
	}
	before := l.Retries()
	t.Cleanup(func() {
		recordResult(t, l)
		if n := l.Retries() - before; n > 0 {
			t.Logf("lab: %d hung boots or guest starts were tried again", n)
		}
	})
	return l
}

func host(t testing.TB, o options) (*lab.Lab, error) {
	mu.Lock()
	defer mu.Unlock()
	ctx := t.Context()
	if err := takePlace(ctx, t); err != nil {
		return nil, err
	}
	key := fmt.Sprint(o.c.Mode, o.c.Persist, o.c.Disk, o.c.CPUs, o.c.MemoryMiB, o.c.Args, o.c.Realtime)
	if l, ok := shared[key]; ok && !o.fresh {
		if _, err := l.Run(ctx, "true"); !errors.Is(err, lab.ErrGone) {
			return l, err
		}
		t.Logf("the shared lab has ended (%s); starting another", l.Reason())
		if err := stop(l); err != nil {
			return nil, err
		}
		delete(shared, key)
	}
	count++
	o.c.Name = fmt.Sprintf("test-%d-%d", os.Getpid(), count)
	o.c.Log = func(s string) { t.Log(s) }
	start := time.Now()
	l, err := lab.Start(ctx, o.c)
	if err != nil {
		return nil, err
	}
	t.Logf("lab %s up in %.1f s (%s)", l.Name(), time.Since(start).Seconds(), l.Accel())
	// The test that owns the log may be over when a later one uses the lab.
	l.SetLog(func(s string) { fmt.Fprintln(logTo, "labtest:", s) })
	if o.fresh {
		t.Cleanup(func() {
			must.Try(t, stop(l))
		})
	} else {
		shared[key] = l
	}
	return l, nil
}

// logTo receives the retries of shared labs.
var logTo io.Writer = os.Stderr

var (
	dir    string
	binary = sync.OnceValues(build)
)

// Binary returns the path of a static mpps built from this tree, once per test process; MPPS_BIN names an existing one.
func Binary(t testing.TB) string { return program(t, "mpps") }

// Init returns the path of the guests' static init, next to mpps.
func Init(t testing.TB) string { return program(t, "mpps-guest") }

// Command returns the path of mpps-lab, next to mpps.
func Command(t testing.TB) string { return program(t, "mpps-lab") }

func program(t testing.TB, name string) string {
	t.Helper()
	mpps := must.Get(binary())(t)
	if name == "mpps" {
		return mpps // under the name that MPPS_BIN gives it
	}
	return filepath.Join(filepath.Dir(mpps), name)
}

func build() (string, error) {
	if b := os.Getenv("MPPS_BIN"); b != "" {
		return filepath.Abs(b)
	}
	var err error
	if dir, err = os.MkdirTemp("", "mpps-labtest-"); err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", dir+"/", "mpps/cmd/...")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := owned.Run(cmd); err != nil {
		return "", fmt.Errorf("build mpps: %w\n%s", err, strings.TrimSpace(said.String()))
	}
	return filepath.Join(dir, "mpps"), nil
}
