package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lockFile takes an exclusive flock, polling so that ctx can end the wait. It calls waiting once if another process
// holds the lock.
func lockFile(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	for first := true; ; first = false {
		unlock, err := tryLock(path)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return unlock, err
		}
		if first {
			waiting()
		}
		if sleep(ctx, 100*time.Millisecond) != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// tryLock takes an exclusive flock; the error is EWOULDBLOCK if another process holds it. A holder may unlink the file:
// a lock on a file that the path no longer names does not count.
func tryLock(path string) (unlock func(), err error) {
	for {
		f, err := openLock(path)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil && isNamed(f, path) {
			return func() { f.Close() }, nil
		}
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
	}
}

// openLock opens a file for flock and makes it if need be. No other user may open it: who can read a file can lock it.
func openLock(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
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

// nameLock is the lock for starting and ending the lab of a name. It is next to the run folder, because that folder is
// removed under the lock; the last unlock removes it.
func nameLock(name string) string { return filepath.Join(runRoot, "."+name+".lock") }

// lockName takes the lock of a name. It calls waiting once if another process holds it.
func lockName(ctx context.Context, name string, waiting func()) (func(), error) {
	const hint = "labs have their sockets and locks there: it must be writable"
	if err := os.MkdirAll(runRoot, 0o755); err != nil {
		return nil, advise(fmt.Errorf("lab: %w", err), hint)
	}
	unlock, err := lockFile(ctx, nameLock(name), waiting)
	if errors.As(err, new(*fs.PathError)) {
		err = advise(fmt.Errorf("lab: %w", err), hint)
	}
	if err != nil {
		return nil, err
	}
	return func() {
		if _, err := os.Stat(runDir(name)); errors.Is(err, os.ErrNotExist) {
			os.Remove(nameLock(name))
		}
		unlock()
	}, nil
}
