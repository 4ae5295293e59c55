package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"golang.org/x/sys/unix"

	"mpps/internal/model/facts"
)

// Missed counts the files and folders that could not be opened for want of descriptors or memory, or because the disk
// fails. They read as if they were not there, which they may be.
type Missed struct {
	mu    sync.Mutex
	count int
	first string
	why   error // of the first
}

// NoteMissed adds what was missed to h.Unseen, if anything was.
func (m *Missed) NoteMissed(h *facts.Host) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.count > 0 {
		AddUnseen(h, fmt.Sprintf("files and folders (%d, first %s)", m.count, m.first), m.why)
	}
}

// miss counts a file or folder below that could not be opened although it may be there.
func (d *Folder) miss(name string, err error) {
	if err == nil || d.Missed == nil {
		return
	}
	var errno unix.Errno
	var at *fs.PathError
	if !errors.As(err, &errno) || errors.As(err, &at) && at.Op == "read" { // drivers answer EIO when they know no value
		return
	}
	switch errno {
	case unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EIO:
	default:
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.count++; d.count == 1 {
		d.first, d.why = d.path(name), errno
	}
}
