package owned

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// freezer is argv[0] of this binary when it stops a process again.
const freezer = "mpps: freezer"

// tethered is the pidfd of the process that a helper is about; its lifeline has the number that a supervisor's has.
const tethered = 4

// tether starts this binary as a helper that has a pidfd and the other end of hold, a pipe, which closes with this
// process at the latest. The pidfd is closed here.
func tether(helper string, pidfd int) (hold *os.File, cmd *exec.Cmd, err error) {
	target := os.NewFile(uintptr(pidfd), "pidfd")
	defer target.Close()
	life, hold, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer life.Close()
	cmd = exec.Command("/proc/self/exe")
	cmd.Args = []string{helper}
	cmd.ExtraFiles = []*os.File{lifeline - 3: life, tethered - 3: target}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no signal of a terminal reaches it
	if err := cmd.Start(); err != nil {
		return nil, nil, errors.Join(err, hold.Close())
	}
	return hold, cmd, nil
}

// Thaw lets a stopped process run (SIGCONT) until freeze is called or this process ends, SIGKILL included. Then it is
// stopped again (SIGSTOP), unless it has ended. process is a pidfd.
func Thaw(process int) (freeze func(), err error) {
	duplicate, err := unix.FcntlInt(uintptr(process), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	hold, cmd, err := tether(freezer, duplicate)
	if err != nil {
		return nil, err
	}
	freeze = func() { _ = errors.Join(hold.Close(), cmd.Wait()) } // an error means that the process has ended
	if err := unix.PidfdSendSignal(process, unix.SIGCONT, nil, 0); err != nil {
		freeze()
		return nil, err
	}
	return freeze, nil
}

func init() {
	if os.Args[0] == freezer {
		signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
		await(lifeline)
		if unix.PidfdSendSignal(tethered, unix.SIGSTOP, nil, 0) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// await returns when the other end of a pipe is closed.
func await(pipe int) {
	for {
		if _, err := unix.Read(pipe, make([]byte, 1)); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// Stopped reports whether a process is stopped by a signal (proc_pid_stat(5)).
func Stopped(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && bytes.HasPrefix(text[bytes.LastIndexByte(text, ')')+1:], []byte(" T "))
}
