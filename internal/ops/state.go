package ops

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"

	"mpps/internal/outcome"
	"mpps/internal/owner"
)

// Files that mpps keeps for itself below the root and reads again: what they say is done as root. Links in them do not
// lead out of the root.

// maxState is the maximum size of such a file in bytes.
const maxState = 16 << 20

// OpenState opens a file that mpps keeps below the root, for reading; fs.ErrNotExist if there is none. It refuses one
// that others than root and this user can write or replace, one that is no regular file, and one of more than 16 MiB.
func (e *Env) OpenState(name string) (*os.File, error) {
	root, err := os.OpenRoot(e.Root)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	folder, err := root.Stat(path.Dir(name))
	if err != nil {
		return nil, err
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would wait for its other end
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = errors.New("it is no file")
	case info.Size() > maxState:
		err = fmt.Errorf("it is larger than %d MiB", maxState>>20)
	default:
		if err = owner.Check(info); err == nil {
			if err = owner.Check(folder); err != nil {
				err = fmt.Errorf("its folder: %w", err)
			}
		}
	}
	if err != nil {
		return nil, errors.Join(outcome.Failed(fmt.Errorf("/%s: %w", name, err), "see what others wrote there, then "+
			"move it away"), f.Close())
	}
	return f, nil
}

// WriteState writes a file that mpps keeps below the root, and makes its folder. A reader sees the old text or the new
// one.
func (e *Env) WriteState(name string, text []byte) error {
	root, err := os.OpenRoot(e.Root)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	draft := name + "." + rand.Text()
	f, err := root.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return outcome.FileCause(err)
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = root.Rename(draft, name)
	}
	if err != nil {
		return outcome.FileCause(errors.Join(err, root.Remove(draft)))
	}
	return nil
}

// RemoveState removes a file that mpps keeps below the root. A missing file is no error.
func (e *Env) RemoveState(name string) error {
	root, err := os.OpenRoot(e.Root)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
