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

// Where the lock of a machine lies, below its root directory. Only root can open LockPath, since whoever can open a
// file can lock it; HolderPath tells everybody who has it.
const (
	LockPath   = "run/mpps/lock"
	HolderPath = "run/mpps/holder"
)

// Holder is who changes the machine now.
type Holder struct {
	PID     int       `json:"pid"`
	Began   uint64    `json:"began"` // of the process: field 22 of /proc/PID/stat, in clock ticks since boot (proc(5))
	Command string    `json:"command"`
	Since   time.Time `json:"since"`        // UTC
	TX      string    `json:"tx,omitempty"` // the transaction it writes
}

// Lock is the right to change a machine. The kernel takes it back when the process dies, in whatever way: a file that
// a dead process left says nothing.
type Lock struct {
	lock, told *os.File
	holder     Holder
}

// Lock takes the lock of the machine, or fails with a *Locked that names who has it. command is what the holder is
// called in messages to others.
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
		return nil, d.locked()
	}
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("lock: %w", err)
	}
	told, err := d.openLock(HolderPath, 0o644)
	if err != nil {
		lock.Close()
		return nil, err
	}
	_, start := process(os.Getpid())
	l := &Lock{lock: lock, told: told, holder: Holder{PID: os.Getpid(), Began: start, Command: command,
		Since: time.Now().UTC()}}
	if err := l.tell(); err != nil {
		return nil, errors.Join(err, l.Release())
	}
	return l, nil
}

// locked says who has the lock that was just found taken. Between taking it and saying so passes a moment; and a
// process that is killed while the kernel does not return from its write has it still, though it is as good as dead.
func (d *Dir) locked() *Locked {
	for try := 0; ; try++ {
		h, err := d.Holder()
		if err == nil && h != nil {
			return &Locked{Holder: *h}
		}
		if try == 3 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if h, err := d.told(); err == nil && h != nil {
		return &Locked{Holder: *h, Ending: true}
	}
	return &Locked{}
}

func (d *Dir) openLock(name string, mode fs.FileMode) (*os.File, error) {
	if info, err := d.root.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return nil, &Refused{File: "/" + name, what: "lock", Problem: fmt.Errorf("it is a %s, expected a file",
			what(info)), hint: "see who made it, and remove it"}
	}
	f, err := d.root.OpenFile(name, os.O_RDWR|os.O_CREATE, mode)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	return f, nil
}

// Serve names the transaction that the holder writes, for those who look.
func (l *Lock) Serve(tx string) error {
	l.holder.TX = tx
	return l.tell()
}

// Release gives the lock back, also where a child between its fork and its exec has a copy of the descriptor: closing
// ours would leave the lock to it for that moment (flock(2)).
func (l *Lock) Release() error {
	return errors.Join(l.told.Truncate(0), l.told.Close(), syscall.Flock(int(l.lock.Fd()), syscall.LOCK_UN),
		l.lock.Close())
}

func (l *Lock) tell() error {
	text, err := json.Marshal(l.holder)
	if err == nil {
		_, err = l.told.WriteAt(append(text, '\n'), 0)
	}
	if err == nil {
		err = l.told.Truncate(int64(len(text) + 1))
	}
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	return nil
}

// Holder is who holds the lock now; nil where nobody does. It takes no lock, so that looking never stands in the way.
func (d *Dir) Holder() (*Holder, error) {
	h, err := d.told()
	if err != nil || h == nil {
		return nil, err
	}
	if alive, start := process(h.PID); !alive || start != h.Began {
		return nil, nil
	}
	return h, nil
}

// told is who last said to hold the lock and has not taken it back; nil where nobody has.
func (d *Dir) told() (*Holder, error) {
	f, err := d.root.OpenFile(HolderPath, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	defer f.Close()
	var h Holder
	for try := 0; ; try++ {
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
		if try == 3 { // it was not being written just then
			return nil, nil
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// process reports whether a process lives and when it began, in clock ticks since boot. A zombie does not live.
func process(pid int) (alive bool, start uint64) {
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
