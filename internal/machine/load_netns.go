package machine

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"mpps/internal/thread"
)

// inNetns calls f on a thread that is in a network namespace: sockets that it opens and /proc/thread-self/net are of
// that one, /sys is not. The name is that below /run/netns (ip-netns(8)); the empty one is that of this process. The
// thread ends with f.
func (m *Machine) inNetns(name string, f func() error) error {
	if name == "" {
		return f()
	}
	return thread.Do(func() error {
		file := filepath.Join("/run/netns", name)
		fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("network namespace %s: %w", name, &os.PathError{Op: "open", Path: file, Err: err})
		}
		defer unix.Close(fd)
		if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network namespace %s: %w", name, err)
		}
		return f()
	})
}
