package systemd

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"mpps/internal/machine/tree"
)

// Detach starts this program with other arguments in its own session and without streams, so that it survives the
// shell, its terminal and this process. It returns the PID.
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

// listeningWithin is how long a program started by DetachListening may take to report that it listens. systemd makes a
// scope first.
const listeningWithin = 10 * time.Second

// DetachListening starts this program with other arguments, as Detach does, and returns a pipe to its standard input.
// The pipe closes when this process ends, even by SIGKILL. The started program must write a line once it listens. Under
// systemd it gets its own scope, so that it survives the cgroup of the operator's session; if systemd refuses the
// scope, it is started without one.
func DetachListening(m *tree.Tree, unit string, args ...string) (io.WriteCloser, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	if booted(m) {
		scope := exec.Command("systemd-run",
			append([]string{"--quiet", "--collect", "--scope", "--unit=" + unit, "--", program}, args...)...)
		if to, err := startListening(scope); err == nil {
			return to, nil
		}
	}
	cmd := exec.Command(program, args...)
	cmd.Args[0] = os.Args[0]
	return startListening(cmd)
}

// startListening starts a program and waits for its first line.
func startListening(cmd *exec.Cmd) (io.WriteCloser, error) {
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	to, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	from, answer, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, to.Close())
	}
	defer from.Close()
	cmd.Stdout = answer
	err = cmd.Start()
	_ = answer.Close()
	if err == nil {
		err = from.SetReadDeadline(time.Now().Add(listeningWithin))
	}
	if err == nil {
		_, err = bufio.NewReader(from).ReadString('\n')
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s in the background: %w", cmd.Path, err), to.Close())
	}
	return to, cmd.Process.Release()
}
