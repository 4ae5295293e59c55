package labtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/lab"
	"mpps/internal/must"
)

// places is the number of test processes that may have labs at the same time. An emulated host keeps about one of two
// CPUs busy; with three of them, time limits would decide tests.
const places = 2

// Place takes a place for tests of commands that boot a lab by themselves, until the process ends.
func Place(t testing.TB) {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	must.Do(t, takePlace(t.Context(), t))
}

// takePlace waits until fewer than places test processes have labs, first come, first served: all wait for the door
// lock, in the kernel, and its holder waits for a place.
func takePlace(ctx context.Context, t testing.TB) error {
	if place != nil {
		return nil
	}
	if err := os.MkdirAll(lab.Dir(), 0o755); err != nil {
		return err
	}
	door, err := lockFile("test.lock")
	if err != nil {
		return err
	}
	err = tryLock(door)
	if errors.Is(err, unix.EWOULDBLOCK) {
		t.Log("waiting for the labs of other test processes")
		err = wait(ctx, door)
	}
	if err != nil {
		return err
	}
	defer door.Close()
	for {
		for i := range places {
			f, err := lockFile(fmt.Sprintf("test.place%d.lock", i))
			if err != nil {
				return err
			}
			if err = tryLock(f); err == nil {
				place = f
				return nil
			}
			f.Close()
			if !errors.Is(err, unix.EWOULDBLOCK) {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func lockFile(name string) (*os.File, error) {
	return os.OpenFile(filepath.Join(lab.Dir(), name), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
}

func tryLock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// wait waits in the kernel, which hands the lock to waiters: a poller would lose it to every process that starts when
// the last one ends. If ctx ends first, the file stays open until the process ends.
func wait(ctx context.Context, f *os.File) error {
	done := make(chan error, 1)
	go func() {
		for {
			if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != unix.EINTR {
				done <- err
				return
			}
		}
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
