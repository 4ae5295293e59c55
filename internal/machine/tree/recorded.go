package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// regular opens a file of a tree and refuses what is none: a recorded tree may hold anything, and to open a named pipe
// or a terminal would wait for somebody who never comes.
func regular(root *os.Root, name string, flags int) (*os.File, error) {
	f, err := root.OpenFile(name, flags|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("expected a file, found a %s", kindOf(info.Mode()))}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// kindOf names what a directory's entry is.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "directory"
	case mode&fs.ModeNamedPipe != 0:
		return "named pipe"
	case mode&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}

// directory opens a directory of a tree for its names.
func directory(root *os.Root, name string) (*os.File, error) {
	return root.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY, 0)
}

// subtree opens a directory of a tree as a root of its own. OpenRoot opens whatever bears the name before it looks, so
// this looks first.
func subtree(root *os.Root, name string) (*os.Root, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: unix.ENOTDIR}
	}
	return root.OpenRoot(name)
}

// record writes one value into a recorded tree, as the kernel would show it: the whole file is replaced and ends in a
// newline. A file that is not there is not made.
func (t *Tree) record(name, text string) error {
	f, err := regular(t.Root, name, os.O_WRONLY|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text + "\n")
	return errors.Join(err, f.Close())
}
