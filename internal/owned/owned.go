// Package owned starts programs that end with this process however it ends, SIGKILL included.
package owned

import (
	"errors"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Start starts a program; the kernel kills it when this process dies. Where cmd has no SysProcAttr the program gets a
// process group of its own, where it has one with a Pdeathsig that signal is kept. What the program starts itself gets
// no signal: see StartAll.
func Start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	}
	if cmd.SysProcAttr.Pdeathsig == 0 {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the signal is bound to the thread that forks: it stays until the program has ended
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		for errors.Is(unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
		}
	}()
	return <-started
}

// Run starts a program as Start does and waits for its end.
func Run(cmd *exec.Cmd) error {
	if err := Start(cmd); err != nil {
		return err
	}
	return cmd.Wait()
}
