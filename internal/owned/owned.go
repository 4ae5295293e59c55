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
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	}
	if cmd.SysProcAttr.Pdeathsig == 0 {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the signal is sent when the forking thread ends, so it stays until the program ends
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

// Run starts a program as Start does and waits for it to end.
func Run(cmd *exec.Cmd) error {
	if err := Start(cmd); err != nil {
		return err
	}
	return cmd.Wait()
}
