package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/owned"
	"mpps/internal/thread"
)

// Proc identifies a process: IDs are reused, but the pair of ID and start time is unique within a boot.
type Proc struct {
	Role  string `json:"role"`
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot, field 22 of /proc/PID/stat (proc_pid_stat(5))
}

// parseStat returns the state and start time in /proc/PID/stat. The program's name, in parentheses, may contain spaces
// and parentheses.
func parseStat(text string) (state byte, start uint64, err error) {
	i := strings.LastIndexByte(text, ')')
	if i < 0 {
		return 0, 0, fmt.Errorf("stat %.40q: no program name", text)
	}
	f := strings.Fields(text[i+1:])
	if len(f) < 20 {
		return 0, 0, fmt.Errorf("stat: found %d fields after the name, want at least 20", len(f))
	}
	start, err = strconv.ParseUint(f[19], 10, 64)
	return f[0][0], start, err
}

// procStat returns the current state and start time of a process.
func procStat(pid int) (state byte, start uint64, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, false
	}
	state, start, err = parseStat(string(b))
	return state, start, err == nil
}

// readProc returns the identity of a process; ok is false if it does not run (a zombie does not).
func readProc(role string, pid int) (p Proc, ok bool) {
	state, start, ok := procStat(pid)
	return Proc{role, pid, start}, ok && state != 'Z' && state != 'X'
}

// Alive reports whether this very process still runs.
func (p Proc) Alive() bool {
	now, ok := readProc(p.Role, p.PID)
	return ok && now.Start == p.Start
}

// kill ends this very process, never a later one with its ID: it opens a pidfd, compares the start time, and signals
// through the pidfd. It waits for the end of all threads (pidfd_open(2)): if the first thread is already a zombie, QEMU
// may still hold its taps.
func (p Proc) kill() error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("end %s (%d): %w", p.Role, p.PID, err)
	}
	defer unix.Close(fd)
	if _, start, ok := procStat(p.PID); !ok || start != p.Start {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("end %s (%d): %w", p.Role, p.PID, err)
	}
	end := time.Now().Add(killedWithin)
	for time.Now().Before(end) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 1000)
		if n > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("end %s (%d): %w", p.Role, p.PID, err)
		}
	}
	return fmt.Errorf("end %s (%d): still there %v after SIGKILL", p.Role, p.PID, killedWithin)
}

// killedWithin is how long a process may take to end: QEMU closes its taps under the kernel's RTNL, which network
// namespaces that end at the same time hold for long (tun_chr_close, drivers/net/tun.c).
const killedWithin = time.Minute

func killAll(procs []Proc) error {
	var errs []error
	for _, p := range procs {
		errs = append(errs, p.kill())
	}
	return errors.Join(errs...)
}

// newNetwork creates L0's network (net.sh) in an unnamed network namespace, which ends with its last process once the
// file is closed.
func newNetwork(ctx context.Context) (*os.File, error) {
	var ns *os.File
	err := thread.Do(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		var err error
		ns, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		return nil, err
	}
	script := within(fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), ns.Fd()), "sh", "-c", netScript)
	if _, err := output(ctx, nil, script...); err != nil {
		return nil, errors.Join(err, ns.Close())
	}
	return ns, nil
}

// within returns the command that runs a program in a network namespace by execve, without a process in between.
func within(ns string, argv ...string) []string {
	return append([]string{"nsenter", "--net=" + ns}, argv...)
}

// spawn starts a program of the lab in a network namespace and a new session, with its output in a log file. If ours is
// set it ends with this process, otherwise it outlives it.
func spawn(role string, ns *os.File, log string, ours bool, env, argv []string) (Proc, error) {
	f, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return Proc{}, err
	}
	defer f.Close()
	argv = within("/proc/self/fd/3", argv...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = f, f, []*os.File{ns}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	start := cmd.Start
	if ours {
		start = func() error { return owned.Start(cmd) } // execve keeps the signal
	}
	if err := start(); err != nil {
		return Proc{}, fmt.Errorf("start %s: %w", role, err)
	}
	p, ok := readProc(role, cmd.Process.Pid)
	go cmd.Wait() // reaps it; others use Alive
	if !ok {
		return Proc{}, fmt.Errorf("start %s: ended at once: %s", role, logTail(log, 5))
	}
	return p, nil
}

func logTail(path string, n int) string {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || len(b) == 0 {
		return "(nothing in " + filepath.Base(path) + ")"
	}
	if err != nil {
		return err.Error()
	}
	return tail(strings.ReplaceAll(string(b), "\r", ""), n)
}
