package ops

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"mpps/internal/model/facts"
	"mpps/internal/outcome"
	"mpps/internal/owner"
)

// ReadSnapshot reads a file written by 'mpps snapshot'.
func ReadSnapshot(file string) (*facts.Host, error) {
	return ReadJSON(file, "snapshot", "mpps snapshot", facts.ReadSnapshot)
}

// ReadJSON reads a file of a kind (noun) that a command makes. The hint of an error says how to make another.
func ReadJSON[T any](file, noun, command string, decode func(io.Reader) (*T, error)) (*T, error) {
	f, err := OpenJSON(file)
	if err != nil {
		return nil, outcome.Failed(fmt.Errorf("%s %w", noun, err), "make one with '"+command+" -o FILE'")
	}
	defer f.Close()
	result, err := decode(f)
	if err != nil {
		return nil, outcome.Failed(fmt.Errorf("%s %s: %w", noun, file, outcome.FileCause(err)),
			"make a new one with '"+command+" -o FILE'")
	}
	return result, nil
}

// ReplaceFile writes a file atomically: a reader sees the old text or the new one. A new file has the permissions that
// the umask leaves, an existing one keeps its own and its owner. A link is followed. Anything but a regular file, such
// as /dev/null or a pipe, is written in place; a pipe that nobody reads is an error.
//
// In a folder where others can write, a link is replaced and not followed, since they decide where it leads; so is what
// belongs neither to root, nor to this user, nor to the owner of the folder.
func ReplaceFile(name string, text []byte) error { return replaceFile(name, text, 0o666) }

func replaceFile(name string, text []byte, mode fs.FileMode) error {
	info, follow, err := existing(name)
	switch {
	case err != nil:
		return outcome.FileCause(err)
	case info == nil:
	case info.IsDir():
		return errors.New("is a directory")
	case !info.Mode().IsRegular():
		return writeInPlace(name, text, follow)
	case follow:
		if name, err = filepath.EvalSymlinks(name); err != nil {
			return err
		}
		mode = 0o600 // until it has those of the file that it replaces
	default:
		mode = 0o600
	}
	f, err := os.OpenFile(name+"."+rand.Text(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return outcome.FileCause(err)
	}
	_, err = f.Write(text)
	if info != nil {
		err = errors.Join(err, takeOver(f, info))
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return outcome.FileCause(errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// Create creates a file that is written piece by piece, or empties it. Where ReplaceFile would replace what others have
// put there, it fails.
func Create(name string) (*os.File, error) {
	info, follow, err := existing(name)
	if err != nil {
		return nil, err
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC | syscall.O_NONBLOCK // a pipe that nobody reads is an error
	switch {
	case follow:
	case info == nil:
		flags |= os.O_EXCL
	case owner.Links(info) > 1:
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("it has another name, in a folder where " +
			"others can write")}
	default:
		flags |= syscall.O_NOFOLLOW
	}
	return os.OpenFile(name, flags, 0o666)
}

// Reopen opens a file for writing that was read before, and fails if its name leads to another file by now.
func Reopen(name string, before fs.FileInfo) (*os.File, error) {
	_, follow, err := existing(name)
	if err != nil {
		return nil, err
	}
	flags := os.O_WRONLY | syscall.O_NONBLOCK
	if !follow {
		flags |= syscall.O_NOFOLLOW
	}
	f, err := os.OpenFile(name, flags, 0)
	if err != nil {
		return nil, err
	}
	now, err := f.Stat()
	if err == nil && !os.SameFile(before, now) {
		err = &fs.PathError{Op: "open", Path: name, Err: errors.New("it is another file than the one that was read")}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// MakeFolder makes a folder for outputs, and its missing parents. One that is there is refused where others can write
// next to it, if it is a link or belongs neither to root, nor to this user, nor to the owner of the folder above it:
// they would decide where the files land.
func MakeFolder(name string) error {
	switch info, follow, err := existing(name); {
	case errors.Is(err, fs.ErrNotExist): // of the folder above
		if err := MakeFolder(filepath.Dir(name)); err != nil {
			return err
		}
	case err != nil:
		return err
	case info == nil && !follow:
		if info, err := os.Lstat(name); err == nil && (info.Mode()&fs.ModeSymlink != 0 || info.IsDir()) {
			return &fs.PathError{Op: "mkdir", Path: name, Err: errors.New("somebody else made it, in a folder where " +
				"others can write")}
		}
	case info != nil && info.IsDir():
		return nil
	}
	return os.Mkdir(name, 0o755)
}

// existing describes the file of a name, nil if there is none or it is to be replaced as if there were none. follow
// reports whether a link of this name may be followed.
func existing(name string) (info fs.FileInfo, follow bool, err error) {
	folder, err := os.Stat(filepath.Dir(name))
	if err != nil {
		return nil, false, outcome.FolderError(err)
	}
	stat := os.Lstat
	if follow = owner.Check(folder) == nil; follow {
		stat = os.Stat
	}
	info, err = stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, follow, nil
	case err != nil, follow:
		return info, follow, err
	case info.Mode()&fs.ModeSymlink != 0, !owner.Either(info, folder):
		return nil, false, nil
	}
	return info, false, nil
}

// takeOver gives a file the owner and the permissions of the file that it replaces.
func takeOver(f *os.File, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if ok && (int(stat.Uid) != os.Geteuid() || int(stat.Gid) != os.Getegid()) {
		if err := f.Chown(int(stat.Uid), int(stat.Gid)); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return f.Chmod(info.Mode().Perm())
}

// writeInPlace writes into something that is no regular file. A signal ends a write that its reader holds up.
func writeInPlace(name string, text []byte, follow bool) error {
	flags := os.O_WRONLY | syscall.O_NONBLOCK
	if !follow {
		flags |= syscall.O_NOFOLLOW
	}
	f, err := os.OpenFile(name, flags, 0)
	if errors.Is(err, syscall.ENXIO) {
		return errors.New("nobody reads from it")
	}
	if err != nil {
		return outcome.FileCause(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, func() { _ = f.SetWriteDeadline(time.Unix(1, 0)) })()
	_, err = f.Write(text)
	return outcome.FileCause(errors.Join(err, f.Close()))
}

// OpenFile opens a file that the user named, for reading. Only regular files are accepted: opening a named pipe could
// block for ever.
func OpenFile(name string) (*os.File, error) {
	return regular(os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0))
}

// OpenIn opens a file of a folder that the user named, for reading, as OpenFile does. A link that leaves the folder is
// an error: whoever fills the folder would have any file of the host read, and shown where it is found wanting.
func OpenIn(folder, name string) (*os.File, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return regular(root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0))
}

// regular returns an open file if it is a regular one.
func regular(f *os.File, err error) (*os.File, error) {
	if err != nil {
		return nil, outcome.FileError(err)
	}
	name := f.Name()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		kind := "special file"
		switch mode := info.Mode(); {
		case mode.IsDir():
			kind = "directory"
		case mode&fs.ModeNamedPipe != 0:
			kind = "pipe"
		case mode&fs.ModeDevice != 0:
			kind = "device"
		}
		err = &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("is a %s, expected a file", kind)}
	}
	if err != nil {
		return nil, outcome.FileError(errors.Join(err, f.Close()))
	}
	_ = f.SetReadDeadline(time.Now().Add(readWithin)) // fails for files that no reader waits for
	return f, nil
}

// readWithin is how long a file that the user named may keep its reader waiting: some in /proc look regular and wait
// for events, such as kmsg.
const readWithin = 2 * time.Second

// OpenJSON opens a JSON file for reading. It refuses files larger than facts.MaxSnapshot bytes.
func OpenJSON(name string) (io.ReadCloser, error) {
	f, err := OpenFile(name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.Size() > facts.MaxSnapshot {
		return nil, outcome.FileError(errors.Join(&fs.PathError{Op: "open", Path: name,
			Err: fmt.Errorf("larger than %d MiB", facts.MaxSnapshot>>20)}, f.Close()))
	}
	return struct {
		io.Reader
		io.Closer
	}{JSON(f), f}, nil
}

// JSON returns a reader that fails at the first NUL byte, which JSON cannot contain: a file of zeros is not read to its
// end.
func JSON(from io.Reader) io.Reader { return &nulChecker{from: from} }

type nulChecker struct {
	from io.Reader
	read int64
}

func (r *nulChecker) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if at := bytes.IndexByte(p[:n], 0); at >= 0 {
		return at, fmt.Errorf("byte %d is NUL: expected JSON", r.read+int64(at)+1)
	}
	r.read += int64(n)
	return n, err
}
