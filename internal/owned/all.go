package owned

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// supervisor is argv[0] of this binary when it runs as a supervisor.
const supervisor = "mpps: supervisor"

// Descriptors of the supervisor.
const (
	lifeline = 3 // end of file: kill everything
	startErr = 4 // gets the error if the program cannot be started
)

// killLimit is how long a supervisor keeps trying to kill processes that it may not be allowed to: those of another
// user.
const killLimit = 5 * time.Second

// StartAll starts a program whose descendants end with it, including daemons in their own sessions. All of them are
// killed when end is called, when the program ends, or when this process ends, SIGKILL included. cmd.Process is a
// supervisor in the program's process group. It ignores SIGTERM and SIGINT sent to the group and exits, once everything
// has ended, with the program's exit code, or 128 plus the number of the signal that killed the program. It needs no
// privileges.
func StartAll(cmd *exec.Cmd) (end func(), err error) {
	if cmd.Err != nil {
		return nil, cmd.Err
	}
	life, hold, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer life.Close()
	from, to, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, hold.Close())
	}
	defer from.Close()
	cmd.Args = append([]string{supervisor, cmd.Path}, cmd.Args...)
	cmd.Path = "/proc/self/exe"
	cmd.ExtraFiles = []*os.File{lifeline - 3: life, startErr - 3: to}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	_ = to.Close()
	if err != nil {
		return nil, errors.Join(err, hold.Close())
	}
	if why, _ := io.ReadAll(from); len(why) > 0 {
		_ = hold.Close()
		_ = cmd.Wait()
		return nil, errors.New(string(why))
	}
	return func() { _ = hold.Close() }, nil
}

// A binary started as a supervisor does nothing else. Every binary with this package can be one, test binaries too.
func init() {
	if os.Args[0] == supervisor && len(os.Args) > 2 {
		os.Exit(supervise(os.Args[1], os.Args[2:]))
	}
}

// supervise runs a program until it or the lifeline ends, then kills its descendants. It returns the exit code.
func supervise(path string, argv []string) int {
	// Caught, not ignored: the program would inherit SIG_IGN.
	signal.Notify(make(chan os.Signal, 1), unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	unix.CloseOnExec(lifeline)
	unix.CloseOnExec(startErr)
	// Descendants whose parent ends become children of this process.
	err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	var program int
	if err == nil {
		program, err = syscall.ForkExec(path, argv, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	}
	if err != nil {
		_, _ = unix.Write(startErr, []byte(err.Error()))
		return 1
	}
	for _, fd := range []int{0, 1, 2, startErr} { // only the program keeps its ends of the pipes
		_ = unix.Close(fd)
	}
	ended := make(chan int, 1)
	// Held from finding a process until it is killed, so that its PID is not reused meanwhile.
	var reaping sync.Mutex
	go func() {
		for {
			if err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT, nil); errors.Is(err, unix.ECHILD) {
				return
			}
			var status unix.WaitStatus
			reaping.Lock()
			pid, _ := unix.Wait4(-1, &status, unix.WNOHANG, nil)
			reaping.Unlock()
			switch {
			case pid != program:
			case status.Signaled():
				ended <- 128 + int(status.Signal())
			default:
				ended <- status.ExitStatus()
			}
		}
	}()
	lost := make(chan struct{})
	go func() {
		defer close(lost)
		await(lifeline)
	}()
	code := 128 + int(unix.SIGKILL)
	select {
	case code = <-ended:
	case <-lost:
	}
	for until := time.Now().Add(killLimit); time.Now().Before(until); time.Sleep(time.Millisecond) {
		reaping.Lock()
		pids := children("/proc", os.Getpid())
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		reaping.Unlock()
		if len(pids) == 0 {
			break
		}
	}
	return code
}

// children returns the processes whose parent is pid, zombies included.
func children(proc string, pid int) (pids []int) {
	files, _ := filepath.Glob(filepath.Join(proc, "[0-9]*", "stat"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		var state string
		var parent int
		if _, err := fmt.Sscan(string(text[bytes.LastIndexByte(text, ')')+1:]), &state, &parent); err != nil ||
			parent != pid {
			continue
		}
		if child, err := strconv.Atoi(strings.TrimPrefix(filepath.Dir(file), proc+"/")); err == nil {
			pids = append(pids, child)
		}
	}
	return pids
}
