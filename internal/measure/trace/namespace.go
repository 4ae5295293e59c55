package trace

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"mpps/internal/thread"
)

// namespace is the network namespace whose devices are watched.
type namespace struct {
	name  string // below /run/netns; empty: that of this process
	inode uint32
}

// openNamespace looks up a namespace by its ip-netns(8) name.
func openNamespace(name string) (namespace, error) {
	n := namespace{name: name}
	file := n.file()
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil {
		return n, fmt.Errorf("network namespace %s: %w", name, &os.PathError{Op: "stat", Path: file, Err: err})
	}
	n.inode = uint32(st.Ino) // ns_common.inum is the inode that nsfs shows (fs/nsfs.c)
	return n, nil
}

func (n namespace) file() string {
	if n.name == "" {
		return "/proc/self/ns/net"
	}
	return filepath.Join("/run/netns", n.name)
}

// do calls f on a thread in the namespace that sees its devices in /sys. A sysfs mount shows the devices of the
// namespace that mounted it (fs/sysfs/mount.c), so the thread of another namespace gets its own mount, in its own mount
// namespace. The thread ends with f.
func (n namespace) do(f func() error) error {
	if n.name == "" {
		return f()
	}
	return thread.Do(func() error {
		if err := n.enter(); err != nil {
			return err
		}
		return f()
	})
}

func (n namespace) enter() error {
	fd, err := unix.Open(n.file(), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("network namespace %s: %w", n.name, err)
	}
	defer unix.Close(fd)
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("mount namespace of its own: %w", err)
	}
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network namespace %s: %w", n.name, err)
	}
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("keep mounts to itself: %w", err)
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("sysfs of network namespace %s: %w", n.name, err)
	}
	return nil
}
