package apply

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// An operation is a system call of a process that changes files below a root, in the order in which they were made.
type operation struct {
	call     uint64 // its number
	name, to string // relative to the root; to of a rename
	inode    uint64 // of the file, or of what was renamed
	data     []byte // of a write
	at       int64  // offset of a write, size of a truncation, mode of a chmod
	seen     int    // which operation on the disk it is, from 1: those of the kernel's values are none
}

// fails says which error the operations on the disk from the n-th on have instead of being made, 1 is the first; 0 is
// none.
type fails struct {
	from  int
	errno syscall.Errno
}

// traced runs a program under ptrace(2) until it ends, and returns its operations below a root, and how many the disk
// saw.
func traced(t *testing.T, cmd *exec.Cmd, root string, fails fails) (all []operation, seen int, err error) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // which traces; it ends with the goroutine
		tr := &tracer{root: root, fails: fails, inside: map[int]*operation{}}
		cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
		if err = cmd.Start(); err != nil {
			return
		}
		err = tr.run(cmd.Process.Pid)
		all, seen = tr.all, tr.seen
	}()
	<-done
	return all, seen, err
}

func (f fails) hits(o *operation) bool { return f.from > 0 && o.seen >= f.from }

type tracer struct {
	root   string
	fails  fails
	seen   int // operations on the disk, failed ones included
	all    []operation
	inside map[int]*operation // by thread, nil if the call is not of interest
}

// run returns nil if the process ends with exit code 0.
func (tr *tracer) run(pid int) error {
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, unix.WALL, nil); err != nil {
		return err
	}
	if err := unix.PtraceSetOptions(pid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_TRACECLONE|
		unix.PTRACE_O_EXITKILL); err != nil {
		return err
	}
	for tid, signal := pid, 0; ; {
		if err := unix.PtraceSyscall(tid, signal); err != nil && err != unix.ESRCH { // killed meanwhile
			return err
		}
		var err error
		if tid, err = unix.Wait4(-1, &status, unix.WALL|unix.WNOTHREAD, nil); err != nil {
			return err
		}
		signal = 0
		switch {
		case status.Exited() || status.Signaled():
			if tid == pid && status.Exited() && status.ExitStatus() == 0 {
				return nil
			}
			if tid == pid {
				return fmt.Errorf("ended with status %#x", status)
			}
		case status.StopSignal() == unix.SIGTRAP|0x80:
			if err := tr.stop(tid); err != nil && err != unix.ESRCH {
				return err
			}
		case status.StopSignal() == unix.SIGTRAP, status.StopSignal() == unix.SIGSTOP: // a new thread
		default:
			signal = int(status.StopSignal())
		}
	}
}

// stop is called at the begin and the end of each system call.
func (tr *tracer) stop(tid int) error {
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(tid, &regs); err != nil {
		return err
	}
	op, begun := tr.inside[tid]
	if !begun {
		op = tr.begin(tid, &regs)
		tr.inside[tid] = op
		if op == nil {
			return nil
		}
		if strings.HasPrefix(op.name, "var/") {
			tr.seen++
			op.seen = tr.seen
		}
		if tr.fails.hits(op) {
			regs.Orig_rax = ^uint64(0) // no call
			return unix.PtraceSetRegs(tid, &regs)
		}
		return nil
	}
	delete(tr.inside, tid)
	if op == nil {
		return nil
	}
	if tr.fails.hits(op) {
		regs.Rax = uint64(-int64(tr.fails.errno))
		return unix.PtraceSetRegs(tid, &regs)
	}
	if int64(regs.Rax) < 0 {
		return nil
	}
	switch op.call {
	case unix.SYS_OPENAT:
		op.inode = inode(fmt.Sprintf("/proc/%d/fd/%d", tid, regs.Rax))
	case unix.SYS_WRITE, unix.SYS_PWRITE64:
		op.data = op.data[:regs.Rax]
	case unix.SYS_MKDIRAT:
		op.inode = inode(filepath.Join(tr.root, op.name))
	}
	tr.all = append(tr.all, *op)
	return nil
}

// begin returns what a call is about to do, nil if that is not of interest.
func (tr *tracer) begin(tid int, r *unix.PtraceRegs) *operation {
	op := &operation{call: r.Orig_rax}
	switch r.Orig_rax {
	case unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_FTRUNCATE, unix.SYS_FCHMOD:
		op.name = tr.descriptor(tid, r.Rdi)
		op.inode = inode(fmt.Sprintf("/proc/%d/fd/%d", tid, r.Rdi))
		switch r.Orig_rax {
		case unix.SYS_PWRITE64:
			op.at = int64(r.R10)
			op.data = memory(tid, r.Rsi, int(r.Rdx))
		case unix.SYS_WRITE:
			op.at = -1 // of files that are new, so at the end
			op.data = memory(tid, r.Rsi, int(r.Rdx))
		default:
			op.at = int64(r.Rsi)
		}
	case unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2:
		op.name, op.at = tr.path(tid, r.Rdi, r.Rsi), int64(r.Rdx)
		op.inode = inode(filepath.Join(tr.root, op.name))
	case unix.SYS_UNLINKAT, unix.SYS_MKDIRAT:
		op.name = tr.path(tid, r.Rdi, r.Rsi)
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2:
		op.name, op.to = tr.path(tid, r.Rdi, r.Rsi), tr.path(tid, r.Rdx, r.R10)
		op.inode = inode(filepath.Join(tr.root, op.name))
	case unix.SYS_OPENAT:
		if r.Rdx&(unix.O_CREAT|unix.O_TRUNC) == 0 {
			return nil
		}
		op.name, op.at = tr.path(tid, r.Rdi, r.Rsi), int64(r.Rdx)
	default:
		return nil
	}
	if !strings.HasPrefix(op.name, "var/") && !strings.HasPrefix(op.name, "proc/") {
		return nil // its lock, in a file system in memory, and what is no file
	}
	return op
}

func (tr *tracer) descriptor(tid int, fd uint64) string {
	name, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", tid, fd))
	name, _ = filepath.Rel(tr.root, name)
	return name
}

func (tr *tracer) path(tid int, dir, at uint64) string {
	text := memory(tid, at, unix.PathMax)
	end := bytes.IndexByte(text, 0)
	name := string(text[:max(end, 0)])
	switch {
	case filepath.IsAbs(name):
		name, _ = filepath.Rel(tr.root, name)
	case int32(dir) != unix.AT_FDCWD:
		name = filepath.Join(tr.descriptor(tid, dir), name)
	}
	return name
}

// memory reads bytes of a process: fewer, if there are not so many.
func memory(tid int, at uint64, n int) []byte {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", tid))
	if err != nil {
		return nil
	}
	defer f.Close()
	b := make([]byte, n)
	n, _ = f.ReadAt(b, int64(at))
	return b[:n]
}

func inode(name string) uint64 {
	var s unix.Stat_t
	_ = unix.Stat(name, &s)
	return s.Ino
}
