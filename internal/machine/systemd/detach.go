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

// Detach starts this program again with other arguments, in a session of its own and with no streams, so that it lives
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

// listeningWithin is how long what DetachListening starts may take to say that it listens. systemd makes a scope first.
const listeningWithin = 10 * time.Second

// DetachListening starts this program again with other arguments, as Detach does, with a pipe as its standard input
// that is returned. It ends when this process does, in whatever way, SIGKILL included. What is started must write a
// line once it listens. Where systemd is the init system it gets a scope of its own, so that it outlives the control
// group of the operator's session; where systemd does not give it one it is started all the same.
func DetachListening(m *tree.Tree, unit string, args ...string) (io.WriteCloser, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	if (service{m}).systemd() {
		scope := exec.Command("systemd-run",
			append([]string{"--quiet", "--collect", "--scope", "--unit=" + unit, "--", program}, args...)...)
		if to, err := listening(scope); err == nil {
			return to, nil
		}
	}
	cmd := exec.Command(program, args...)
	cmd.Args[0] = os.Args[0]
	return listening(cmd)
}

// listening starts a program and waits for its first line.
func listening(cmd *exec.Cmd) (io.WriteCloser, error) {
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
