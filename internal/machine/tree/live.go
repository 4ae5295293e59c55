package tree

import (
	"errors"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// Files of the live /proc and /sys are read with bare system calls: open, read, read, close. An os.File of an os.Root
// takes about twelve (one open for each element of the path, registration with the poller). An inventory reads
// thousands of files: under emulation that is 0.25 s against 1 s.

// readLive reads at most the given number of bytes of a file in a directory. It does not wait for a named pipe (below
// /etc or /run): without a writer the pipe is empty, with a writer the read fails.
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

// Brief returns the text of a file that the kernel writes in one piece of less than 256 bytes, and whether it could be
// read. On the live machine it saves the second read(2), which only finds the end: some callers read tens of thousands
// of files.
func (d *Folder) Brief(name string) (string, bool) {
	if d.mem != nil || d.root != nil {
		return d.Text(name)
	}
	if ended(d.ctx) != nil {
		return "", false
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

// linkAt returns the last element of a symbolic link's target; empty if there is no link.
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
