package owned

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/must"
)

// TestThaw: a process that was stopped is stopped again after freeze, and after the SIGKILL of who let it run.
func TestThaw(t *testing.T) {
	for _, killed := range []bool{false, true} {
		process := exec.Command("sleep", "600")
		must.Do(t, process.Start())
		t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
		fd := must.Get(unix.PidfdOpen(process.Process.Pid, 0))(t)
		t.Cleanup(func() { _ = unix.Close(fd) })
		must.Do(t, process.Process.Signal(unix.SIGSTOP))
		awaitStopped(t, process.Process.Pid, true)
		if killed {
			user := exec.Command("/proc/self/exe")
			user.Env = append(os.Environ(), owner+"=thaw")
			user.ExtraFiles = []*os.File{os.NewFile(uintptr(must.Get(unix.Dup(fd))(t)), "pidfd")}
			must.Do(t, user.Start())
			awaitStopped(t, process.Process.Pid, false)
			must.Do(t, user.Process.Kill())
			_ = user.Wait()
		} else {
			freeze := must.Get(Thaw(fd))(t)
			awaitStopped(t, process.Process.Pid, false)
			freeze()
		}
		awaitStopped(t, process.Process.Pid, true)
	}
}

func awaitStopped(t *testing.T, pid int, stopped bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); Stopped(pid) != stopped; time.Sleep(time.Millisecond) {
		must.Need(t, !time.Now().After(end), "stopped: %v, expected %v", !stopped, stopped)
	}
}
