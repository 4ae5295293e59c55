package host

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// Detach starts this program anew with other arguments, in a session of its own and with no streams, so that it lives
// on when the shell, its terminal and this process are gone. It returns the process's number.
func Detach(args ...string) (pid int, err error) {
	program, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.Command(program, args...)
	cmd.Args[0] = os.Args[0]
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start %s in the background: %w", program, err)
	}
	pid = cmd.Process.Pid
	return pid, cmd.Process.Release()
}
