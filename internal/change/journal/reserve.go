package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"mpps/internal/owner"
)

// The disk may be full when values have to be put back. So an apply allocates the blocks of its own journal before it
// writes anything, and a file beside it that becomes the journal of its rollback.

const reservePrefix = "reserve-"

// reserveName has no dot, so that no pattern of journals matches it.
func reserveName(tx string) string {
	return Path + "/" + reservePrefix + strings.ReplaceAll(tx, ".", "-")
}

// Unwritable reports whether an error says that the disk takes no writes: it is full, over its quota, read-only, or
// fails.
func Unwritable(err error) bool {
	return slices.ContainsFunc([]syscall.Errno{unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EIO, unix.EFBIG},
		func(errno syscall.Errno) bool { return errors.Is(err, errno) })
}

// Unadorned returns the kernel's words for an error of a disk, without the names of files.
func Unadorned(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return err.Error()
}

// NoRoom refuses an apply whose rollback could not be journaled: the disk of the journal has too little space.
type NoRoom struct {
	Bytes int64
	Err   error
}

func (n *NoRoom) Error() string {
	return fmt.Sprintf("nothing was changed: the disk of /%s has no room for the journals of this apply and its "+
		"rollback, %d KiB each: %s", Path, (n.Bytes+1023)>>10, Unadorned(n.Err))
}

func (n *NoRoom) Unwrap() error { return n.Err }

// Hint says what to do.
func (n *NoRoom) Hint() string { return "free some space on the disk of /" + Path }

// allocate reserves the blocks of a file without changing its size (fallocate(2)). File systems that cannot do so (NFS
// before 4.2, some FUSE) are no reason to refuse.
func allocate(f *os.File, bytes int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, bytes)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return nil
		}
		return err
	}
}

// reserve allocates the journal of an apply, and that of its rollback. file is the apply's draft.
func (w *Writer) reserve(file *os.File, bytes int64) error {
	if bytes == 0 {
		return nil
	}
	err := allocate(file, bytes)
	if err == nil {
		err = w.reserveRollback(bytes)
	}
	if err != nil && Unwritable(err) {
		return &NoRoom{Bytes: bytes, Err: err}
	}
	return err
}

func (w *Writer) reserveRollback(bytes int64) error {
	f, err := w.dir.root.OpenFile(reserveName(w.tx), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	err = errors.Join(allocate(f, bytes), f.Sync(), f.Close())
	if err != nil {
		return errors.Join(err, w.dir.Unreserve(w.tx))
	}
	return nil
}

// claim turns the file that an apply has reserved into the draft of its rollback. It reports whether there was one.
func (d *Dir) claim(of string) bool {
	if of == "" {
		return false
	}
	info, err := d.root.Lstat(reserveName(of))
	if err != nil || !info.Mode().IsRegular() || info.Size() != 0 || owner.Check(info) != nil {
		return false
	}
	return d.root.Rename(reserveName(of), Path+"/"+draftName) == nil
}

// Unreserve frees the space that an apply has reserved for itself and its rollback.
func (d *Dir) Unreserve(tx string) error {
	if f, err := d.root.OpenFile(fileName(tx), os.O_WRONLY, 0); err == nil {
		if info, err := f.Stat(); err == nil {
			_ = f.Truncate(info.Size()) // else it keeps blocks that it does not need
		}
		f.Close()
	}
	err := d.root.Remove(reserveName(tx))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// orphans lists the reserves of transactions that never began, and drafts of an index.
func (d *Dir) orphans() []string {
	dir, err := d.root.Open(Path)
	if err != nil {
		return nil
	}
	defer dir.Close()
	entries, _ := dir.Readdirnames(maxFiles + 1) // what could not be listed stays
	known := map[string]bool{}
	for _, entry := range entries {
		if tx, ok := strings.CutSuffix(entry, suffix); ok {
			known[reserveName(tx)] = true
		}
	}
	var orphans []string
	for _, entry := range entries {
		name := Path + "/" + entry
		if strings.HasPrefix(entry, reservePrefix) && !known[name] || strings.HasPrefix(entry, indexDraft) {
			orphans = append(orphans, name)
		}
	}
	return orphans
}
