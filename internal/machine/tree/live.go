package tree

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// The files of the live /proc and /sys are read with bare system calls: open, read, read, close. An os.File of an
// os.Root costs about twelve for the same (one open for each element of the path, the poller's registration), and an
// inventory reads thousands of files: under emulation that is the difference between a quarter of a second and one.

// straight reports whether a name may be opened by its path: on the live machine, whose links are the kernel's own.
func (t *Tree) straight(name string) bool {
	return t.live && t.Path == "/" && filepath.IsLocal(name)
}

// readLive reads at most the given number of bytes of a file named from a directory. It does not wait at a named pipe
// (below /etc or /run): without a writer that reads as empty, with one as an error.
func readLive(dir int, name string, most int) (string, error) {
	fd, err := openFD(dir, name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	text := make([]byte, 0, 512)
	for len(text) < most {
		if len(text) == cap(text) {
			text = append(text, 0)[:len(text)]
		}
		n, err := unix.Read(fd, text[len(text):min(cap(text), most)])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return "", &fs.PathError{Op: "read", Path: name, Err: err}
		case n == 0:
			return string(text), nil
		default:
			text = text[:len(text)+n]
		}
	}
	return string(text), nil
}

// Brief is a file that the kernel writes in one piece of less than 256 bytes, on the live machine read with one call:
// where tens of thousands are read the call that would only say that nothing follows counts.
func (d *Folder) Brief(name string) (string, bool) {
	if d.root != nil {
		return d.Text(name)
	}
	fd, err := openFD(d.fd, name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return "", false
	}
	defer unix.Close(fd)
	var text [256]byte
	n, err := unix.Read(fd, text[:])
	if err != nil || n == len(text) {
		return "", false
	}
	return string(text[:n]), true
}

// liveFolder opens a directory; nil where there is none.
func liveFolder(dir int, name string) *Folder {
	fd, err := openFD(dir, name, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil
	}
	return &Folder{fd: fd}
}

// linkAt is the last element of a symbolic link's target; empty where there is none.
func linkAt(dir int, name string) string {
	var target [unix.PathMax]byte
	n, err := unix.Readlinkat(dir, name, target[:])
	if err != nil || n <= 0 {
		return ""
	}
	return path.Base(string(target[:n]))
}

func openLive(dir int, name string) (*os.File, error) {
	fd, err := openFD(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func openFD(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_CLOEXEC, 0)
		if err == nil {
			return fd, nil
		}
		if !errors.Is(err, unix.EINTR) {
			return -1, &fs.PathError{Op: "open", Path: name, Err: err}
		}
	}
}
