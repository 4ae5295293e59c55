// Package owned starts programs that end when this process ends, even by SIGKILL.
package owned

import (
	"errors"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Exists reports whether there is a program of a name or path that can be run.
func Exists(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

// Start starts a program that the kernel kills when this process dies. Without cmd.SysProcAttr the program gets its own
// process group; a Pdeathsig that is set there is kept. Processes started by the program get no signal: see StartAll.
func Start(cmd *exec.Cmd) error {
	return StartWithin(cmd, func(start func() error) error { return start() })
}

// StartWithin is Start from a thread that within has prepared, such as by entering a network namespace. within calls
// start there and keeps the thread until start returns, which is when the program has ended.
func StartWithin(cmd *exec.Cmd, within func(start func() error) error) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	}
	if cmd.SysProcAttr.Pdeathsig == 0 {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	started := make(chan error, 2) // within may fail after the program has ended
	go func() {
		started <- within(func() error {
			runtime.LockOSThread() // the signal is sent when the forking thread ends, so it stays until then
			defer runtime.UnlockOSThread()
			if err := cmd.Start(); err != nil {
				return err
			}
			started <- nil
			for errors.Is(unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
			}
			return nil
		})
	}()
	return <-started
}

// Run starts a program as Start does and waits for it to end.
func Run(cmd *exec.Cmd) error {
	if err := Start(cmd); err != nil {
		return err
	}
	return cmd.Wait()
}
