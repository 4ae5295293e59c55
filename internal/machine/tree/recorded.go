package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// openRegular opens a regular file of a tree. It refuses everything else: a recorded tree may hold anything, and
// opening a named pipe or a terminal could block for ever.
func openRegular(root *os.Root, name string, flags int) (*os.File, error) {
	f, err := root.OpenFile(name, flags|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		found := fmt.Errorf("expected a file, found a %s", typeName(info.Mode()))
		err = &fs.PathError{Op: "open", Path: name, Err: found}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// typeName returns a word for the type of a file that is not regular.
func typeName(mode fs.FileMode) string {
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

// openDirectory opens a directory of a tree to list it.
func openDirectory(root *os.Root, name string) (*os.File, error) {
	return root.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY, 0)
}

// openSubtree opens a directory of a tree as a root. It checks the type first because OpenRoot opens any file before it
// looks at the type.
func openSubtree(root *os.Root, name string) (*os.Root, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: unix.ENOTDIR}
	}
	return root.OpenRoot(name)
}

// record writes one value into a recorded tree as the kernel would show it: it replaces the whole file and ends it with
// a newline. It does not create files.
func (t *Tree) record(name, text string) error {
	f, err := openRegular(t.Root, name, os.O_WRONLY|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text + "\n")
	return errors.Join(err, f.Close())
}
