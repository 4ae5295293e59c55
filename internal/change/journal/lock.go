package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The lock of a machine, relative to the root directory. Only root can open LockPath, since any process that can open a
// file can lock it; HolderPath names the holder and is readable for all.
const (
	LockPath   = "run/mpps/lock"
	HolderPath = "run/mpps/holder"
)

// Holder is the process that changes the machine.
type Holder struct {
	PID     int       `json:"pid"`
	Began   uint64    `json:"began"` // start time of the process: field 22 of /proc/PID/stat, in clock ticks since boot (proc(5))
	Command string    `json:"command"`
	Since   time.Time `json:"since"`        // UTC
	TX      string    `json:"tx,omitempty"` // the transaction that it writes
}

// Lock is the exclusive right to change a machine. The kernel releases it whenever the process dies: a leftover file
// means nothing.
type Lock struct {
	lock, holderFile *os.File // holderFile is nil if its disk takes no writes
	holder           Holder
	unnamed          error
}

// Unnamed returns why the holder file does not name this process: the disk takes no writes. nil: it does.
func (l *Lock) Unnamed() error { return l.unnamed }

// Lock takes the machine's lock, or fails with a *Locked that names the holder. command describes this process to
// others.
func (d *Dir) Lock(command string) (*Lock, error) {
	if err := d.root.MkdirAll(path.Dir(LockPath), 0o755); err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	lock, err := d.openLock(LockPath, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		lock.Close()
		return nil, d.lockedError()
	}
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("lock: %w", err)
	}
	_, start := processStart(os.Getpid())
	l := &Lock{lock: lock, holder: Holder{PID: os.Getpid(), Began: start, Command: command, Since: time.Now().UTC()}}
	if l.holderFile, err = d.openLock(HolderPath, 0o644); err != nil {
		l.holderFile = nil
		if !Unwritable(err) {
			return nil, errors.Join(err, l.Release())
		}
		l.unnamed = err
		return l, nil
	}
	if err := l.writeHolder(); err != nil {
		return nil, errors.Join(err, l.Release())
	}
	return l, nil
}

// lockedError returns the error for a taken lock. The holder takes the lock a moment before it writes its name. A
// process that was killed during a hanging write still has the lock, though it counts as dead.
func (d *Dir) lockedError() *Locked {
	for range 4 {
		if h, err := d.Holder(); err == nil && h != nil {
			return &Locked{Holder: *h}
		}
		time.Sleep(5 * time.Millisecond)
	}
	if h, err := d.lastHolder(); err == nil && h != nil {
		return &Locked{Holder: *h, Ending: true}
	}
	return &Locked{}
}

func (d *Dir) openLock(name string, mode fs.FileMode) (*os.File, error) {
	if info, err := d.root.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return nil, &Refused{File: "/" + name, what: "lock", Problem: fmt.Errorf("it is a %s, expected a file",
			fileType(info)), hint: "see who made it, and remove it"}
	}
	f, err := d.root.OpenFile(name, os.O_RDWR|os.O_CREATE, mode)
	if errors.Is(err, syscall.EROFS) && name == LockPath { // flock(2) needs no permission to write
		f, err = d.root.OpenFile(name, os.O_RDONLY, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	return f, nil
}

// setTX publishes the transaction that the holder writes.
func (l *Lock) setTX(tx string) error {
	l.holder.TX = tx
	return l.writeHolder()
}

// Release releases the lock explicitly: a child between fork and exec has a copy of the descriptor, so that closing
// ours alone would leave the lock held for that moment (flock(2)).
func (l *Lock) Release() error {
	var said error
	if l.holderFile != nil {
		said = errors.Join(l.holderFile.Truncate(0), l.holderFile.Close())
	}
	return errors.Join(said, syscall.Flock(int(l.lock.Fd()), syscall.LOCK_UN), l.lock.Close())
}

// writeHolder writes the holder file. If the disk takes no writes, the lock is held all the same (Unnamed).
func (l *Lock) writeHolder() error {
	if l.holderFile == nil {
		return nil
	}
	text, err := json.Marshal(l.holder)
	if err == nil {
		_, err = l.holderFile.WriteAt(append(text, '\n'), 0)
	}
	if err == nil {
		err = l.holderFile.Truncate(int64(len(text) + 1))
	}
	if Unwritable(err) {
		l.unnamed = err
		return nil
	}
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	return nil
}

// Holder returns the holder of the lock, nil if it is free. It takes no lock, so it blocks no other process.
func (d *Dir) Holder() (*Holder, error) {
	h, err := d.lastHolder()
	if err != nil || h == nil {
		return nil, err
	}
	if alive, start := processStart(h.PID); !alive || start != h.Began {
		return nil, nil
	}
	return h, nil
}

// lastHolder returns the last process that took the lock and did not release it, nil if there is none.
func (d *Dir) lastHolder() (*Holder, error) {
	f, err := d.root.OpenFile(HolderPath, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	defer f.Close()
	var h Holder
	for range 4 {
		text, err := io.ReadAll(io.NewSectionReader(f, 0, 64<<10))
		if err == nil && len(text) == 0 {
			return nil, nil
		}
		if err == nil {
			err = json.Unmarshal(text, &h)
		}
		if err == nil {
			return &h, nil
		}
		time.Sleep(5 * time.Millisecond) // it may be being written
	}
	return nil, nil
}

// processStart reports whether a process lives (a zombie does not), and its start time in clock ticks since boot.
func processStart(pid int) (alive bool, start uint64) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false, 0
	}
	// The command in field 2 may hold spaces and parentheses; field 3, the state, follows the last parenthesis.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return false, 0
	}
	start, err = strconv.ParseUint(fields[19], 10, 64)
	return err == nil, start
}
