package load

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"mpps/internal/thread"
)

// inNetns calls f on a thread in a network namespace, which applies to its sockets and to /proc/thread-self/net, but
// not to /sys. The name is the one below /run/netns (ip-netns(8)); with the empty name, f is called directly. The
// thread ends with f.
func inNetns(name string, f func() error) error {
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
