package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lockFile takes an exclusive flock, polling so that ctx can end the wait. waiting is called once
// when another process holds it. A holder may unlink the file: a lock on a file that the path does
// not name any more is not taken for one.
func lockFile(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	for first := true; ; {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o644)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil && isNamed(f, path) {
			return func() { f.Close() }, nil
		}
		f.Close()
		if err == nil {
			continue
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if first {
			waiting()
			first = false
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// isNamed reports whether path still names the open file.
func isNamed(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(path)
	return err == nil && os.SameFile(a, b)
}

// lockName serialises what starts and ends the lab of one name. The lock file stands beside the run
// folder because that folder is removed under the lock; it goes with the last unlock.
func lockName(ctx context.Context, name string) (func(), error) {
	if err := os.MkdirAll(runRoot, 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(runRoot, "."+name+".lock")
	unlock, err := lockFile(ctx, path, func() {})
	if err != nil {
		return nil, err
	}
	return func() {
		if _, err := os.Stat(runDir(name)); errors.Is(err, os.ErrNotExist) {
			os.Remove(path)
		}
		unlock()
	}, nil
}
