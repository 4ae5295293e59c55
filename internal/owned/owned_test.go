package owned

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/must"
)

const owner = "MPPS_TEST_OWNER"

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(owner) {
	default:
		os.Exit(m.Run())
	case "program":
		cmd := exec.Command("sh", "-c", "echo $$; exec sleep 60")
		cmd.Stdout = os.Stdout
		err = Start(cmd)
	case "session":
		cmd := exec.Command("sh", "-c", "echo $$; exec sleep 60")
		cmd.Stdout = os.Stdout
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		err = Start(cmd)
	case "all":
		cmd := exec.Command("sh", "-c", daemons)
		cmd.Stdout = os.Stdout
		_, err = StartAll(cmd)
	case "guarded", "released":
		cmd := exec.Command("sh", "-c", "echo $$; exec sleep 60")
		cmd.Stdout = os.Stdout
		if err = cmd.Start(); err == nil {
			var release func()
			if release, err = Guard(cmd.Process.Pid); err == nil && os.Getenv(owner) == "released" {
				release()
			}
		}
	case "thaw":
		_, err = Thaw(3)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	time.Sleep(time.Minute)
}

// daemons starts a child, a grandchild whose parent ends, and one in its own session, and prints their PIDs and its
// own.
const daemons = `sh -c 'echo $$; trap "" TERM; exec sleep 60' & sh -c 'sh -c "echo \$\$; exec sleep 60" & '
setsid sh -c 'sh -c "echo \$\$; exec sleep 60" &' & echo $$; sleep 60; true`

// startedProcesses reads the PIDs of some processes from out and returns their pidfds. It fails if one does not run.
func startedProcesses(t *testing.T, out io.Reader, processes int) (fds []int) {
	t.Helper()
	lines := bufio.NewScanner(out)
	for range processes {
		lines.Scan()
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatalf("found %q, expected a process's number", lines.Text())
		}
		fd := must.Get(unix.PidfdOpen(pid, 0))(t)
		t.Cleanup(func() { _ = unix.Close(fd) })
		fds = append(fds, fd)
	}
	time.Sleep(200 * time.Millisecond)
	for i, fd := range fds {
		if n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0); n > 0 {
			t.Fatalf("process %d of %d ended by itself", i+1, processes)
		}
	}
	return fds
}

// checkGone fails if one of the processes still runs 5 s later, and kills it.
func checkGone(t *testing.T, fds []int) {
	t.Helper()
	for i, fd := range fds {
		if n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 5000); n == 0 {
			_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
			t.Errorf("process %d of %d outlived its owner by 5 s", i+1, len(fds))
		}
	}
}

func TestEndsWithKilledOwner(t *testing.T) {
	for how, processes := range map[string]int{"program": 1, "session": 1, "all": 4, "guarded": 1} {
		t.Run(how, func(t *testing.T) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), owner+"="+how)
			out := must.Get(cmd.StdoutPipe())(t)
			must.Do(t, cmd.Start())
			fds := startedProcesses(t, out, processes)
			_ = cmd.Process.Signal(syscall.SIGKILL)
			_ = cmd.Wait()
			checkGone(t, fds)
		})
	}
}

// TestGuard: a guarded process outlives its owner once it was released, and its guard ends with it.
func TestGuard(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), owner+"=released")
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	fd := startedProcesses(t, out, 1)[0]
	_ = cmd.Process.Signal(syscall.SIGKILL)
	_ = cmd.Wait()
	n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 500)
	must.Hold(t, n == 0, "it ended with its owner although it was released")
	_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)

	process := exec.Command("true")
	must.Do(t, process.Start())
	release := must.Get(Guard(process.Process.Pid))(t)
	_ = process.Wait()
	release() // does not hang
	must.Fail(Guard(process.Process.Pid))(t, "a guard of nothing")
}

func TestStartAllEnd(t *testing.T) {
	cmd := exec.Command("sh", "-c", daemons)
	out := must.Get(cmd.StdoutPipe())(t)
	end := must.Get(StartAll(cmd))(t)
	fds := startedProcesses(t, out, 4)
	end()
	_ = cmd.Wait()
	checkGone(t, fds)
}

func TestStartAllProgramEnds(t *testing.T) {
	cmd := exec.Command("sh", "-c", `setsid sh -c 'echo $$; exec sleep 60' & sleep 0.5; exit 7`)
	out := must.Get(cmd.StdoutPipe())(t)
	end := must.Get(StartAll(cmd))(t)
	defer end()
	checkGone(t, startedProcesses(t, out, 1))
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 7 {
		t.Errorf("found exit code %d, expected 7", code)
	}
}

func TestStartAllRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "program")
	must.Do(t, os.WriteFile(file, []byte("no program"), 0o700))
	for _, name := range []string{file, "/nowhere/program", "no-such-program-at-all"} {
		if end, err := StartAll(exec.Command(name)); err == nil {
			end()
			t.Errorf("%s: found no error", name)
		}
	}
}
