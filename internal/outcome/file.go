package outcome

import (
	"errors"
	"io/fs"
	"os"
)

// fileError is what went wrong with a file that the user named.
type fileError struct {
	name, noun string
	cause      error
}

func (e *fileError) Error() string { return e.name + ": " + e.reason().Error() }

func (e *fileError) Unwrap() error { return e.cause }

func (e *fileError) reason() error {
	if errors.Is(e.cause, fs.ErrNotExist) {
		return errors.New("no such " + e.noun)
	}
	return e.cause
}

// FileError words an error of package os about a file that the user named, as in "nope.json: no such file": without
// the system call, and with the file's name once. Other errors are returned as they are.
func FileError(err error) error { return named(err, "file") }

// FolderError is FileError for a directory.
func FolderError(err error) error { return named(err, "directory") }

func named(err error, noun string) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return &fileError{path.Path, noun, path.Err}
	case errors.As(err, &link):
		return &fileError{link.New, noun, link.Err}
	}
	return err
}

// FileCause is FileError without the file's name, which may be that of a temporary file.
func FileCause(err error) error {
	var f *fileError
	if errors.As(err, &f) || errors.As(FileError(err), &f) {
		return f.reason()
	}
	return err
}
