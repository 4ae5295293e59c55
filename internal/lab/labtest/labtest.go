// Package labtest gives tests a lab host. The tests of a package share one per kind; it is booted by the first that
// asks and ended by Main. Packages that are tested at the same time wait for a place in a queue (queue.go). Where a
// test fails and the kernel of its emulated host or of a guest has died, it is tried once more, in another process and
// lab (again.go); nothing else is.
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
	"mpps/internal/owned"
)

// Option changes the lab that Host gives.
type Option func(*options)

type options struct {
	c        lab.Config
	noBinary bool
	fresh    bool
}

// Systemd wants a lab with a whole Debian running.
func Systemd(o *options) { o.c.Mode = lab.Systemd }

// Persist wants a file system that survives Reset.
func Persist(o *options) { o.c.Persist = true }

// Disk wants that file system on a disk: Reset loses what was not fsynced, as a loss of power does.
func Disk(o *options) { o.c.Persist, o.c.Disk = true, true }

// Size wants a host of so many CPUs and so much memory, halved between its two nodes.
func Size(cpus, memoryMiB int) Option {
	return func(o *options) { o.c.CPUs, o.c.MemoryMiB = cpus, memoryMiB }
}

// Realtime wants a host that has booted Debian's kernel with PREEMPT_RT; the first of its kind takes half a minute
// longer to build. Emulated it is slow, and dies more often than the usual one: keep what it is asked short.
func Realtime(o *options) { o.c.Realtime = lab.RealtimeBooted }

// RealtimeInstalled wants a host that has that kernel in its boot menu and has booted the usual one.
func RealtimeInstalled(o *options) { o.c.Realtime = lab.RealtimeInstalled }

// NoBinary wants no mpps in /share.
func NoBinary(o *options) { o.noBinary = true }

// Args wants kernel arguments of the lab host besides the lab's own.
func Args(args ...string) Option { return func(o *options) { o.c.Args = append(o.c.Args, args...) } }

// Fresh wants a lab that no other test has used; it ends with the test.
func Fresh(o *options) { o.fresh = true }

// Begin wants a host of which something was made already: see lab.Beginning.
func Begin(b *lab.Beginning) Option { return func(o *options) { o.c.Begin = b } }

var (
	mu     sync.Mutex
	shared = map[string]*lab.Lab{}
	place  *os.File // what this process holds of the places of the queue; nil: none yet
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
	if code != 0 && mayTryAgain() {
		place.Close() // the other process waits for its turn like any
		code = again()
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

// Long skips a scene that 'make test' leaves out, which runs with -short: with all of them it would take more than an
// hour on two cores, where everything is emulated. 'make test-turn' plays a quarter of them (test/scenes), 'make
// test-long' all. Call it in the test itself: test/scenes finds it there.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("minutes of emulation: 'make test-turn' and 'make test-long' play it")
	}
}

// Host gives a running lab with /share/mpps in it, built from this tree.
func Host(t testing.TB, opts ...Option) *lab.Lab {
	t.Helper()
	var o options
	for _, f := range opts {
		f(&o)
	}
	l, err := host(t, o)
	if err != nil {
		t.Fatal(err)
	}
	if !o.noBinary {
		if err := l.Put("mpps", Binary(t)); err != nil {
			t.Fatal(err)
		}
	}
	before := l.Retries()
	t.Cleanup(func() {
		note(t, l)
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
	if o.c.Begin != nil {
		key += o.c.Begin.Key
	}
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
	// The log belongs to a test that may be over when a later one uses the lab.
	l.SetLog(func(s string) { fmt.Fprintln(logTo, "labtest:", s) })
	if o.fresh {
		t.Cleanup(func() {
			if err := stop(l); err != nil {
				t.Error(err)
			}
		})
	} else {
		shared[key] = l
	}
	return l, nil
}

// logTo gets the retries of shared labs.
var logTo io.Writer = os.Stderr

var (
	dir    string
	binary = sync.OnceValues(build)
)

// Binary is the path of a static mpps built from this tree, once for each test process; MPPS_BIN names
// one that is built already.
func Binary(t testing.TB) string { return program(t, "mpps") }

// Init is the path of the static program that is the init of guests: beside mpps.
func Init(t testing.TB) string { return program(t, "mpps-guest") }

// Command is the path of mpps-lab: beside mpps.
func Command(t testing.TB) string { return program(t, "mpps-lab") }

func program(t testing.TB, name string) string {
	t.Helper()
	mpps, err := binary()
	if err != nil {
		t.Fatal(err)
	}
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
