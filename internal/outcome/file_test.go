package outcome

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"mpps/internal/must"
)

// TestFileError: a file is named once, without the system call, and the cause stays what it was.
func TestFileError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	gone := filepath.Join(dir, "gone")
	_, open := os.Open(gone)
	_, through := os.Stat("/dev/null/x")
	for _, c := range []struct {
		err         error
		says, cause string
		is          error
	}{
		{FileError(open), gone + ": no such file", "no such file", fs.ErrNotExist},
		{FolderError(fmt.Errorf("wrapped: %w", open)), gone + ": no such directory", "no such directory", fs.ErrNotExist},
		{FileError(os.Rename(gone, dir+"/new")), dir + "/new: no such file", "no such file", fs.ErrNotExist},
		{FileError(through), "/dev/null/x: not a directory", "not a directory", syscall.ENOTDIR},
		{errors.New("other"), "other", "other", nil},
	} {
		must.Hold(t, c.err.Error() == c.says && FileCause(c.err).Error() == c.cause &&
			(c.is == nil || errors.Is(c.err, c.is)), "%v, because of %v; expected %s", c.err, FileCause(c.err), c.says)
	}
	must.Hold(t, FileCause(open).Error() == "no such file" && FileError(nil) == nil, "%v", FileCause(open))
}
