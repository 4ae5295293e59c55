package setting

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"mpps/internal/must"
)

// A write during which the process is stopped for longer than the limit is not in doubt: it returned at once.
func TestPatienceStopped(t *testing.T) {
	const limit = 100 * time.Millisecond
	if os.Getenv("MPPS_STOP") != "" {
		ctx, cancel := WithPatience(t.Context(), limit, errors.New("late"))
		defer cancel()
		err := Within(ctx, func() error { return syscall.Kill(syscall.Getpid(), syscall.SIGSTOP) })
		must.Try(t, err)
		return
	}
	child := exec.Command(os.Args[0], "-test.run", "^TestPatienceStopped$")
	child.Env = append(os.Environ(), "MPPS_STOP=1")
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must.Do(t, child.Start())
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(child.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatal(err, status)
	}
	time.Sleep(3 * limit)
	must.Do(t, child.Process.Signal(syscall.SIGCONT))
	must.Try(t, child.Wait())
}

func TestWritesGiveUpWaiting(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	hang := make(chan struct{})
	defer close(hang)
	must.Is(t, Within(ctx, func() error { <-hang; return nil }), ErrInDoubt, "a call that hangs")
}

// A call that does not return is in doubt, with the given cause. Deadline is the earlier of the limit and the parent's.
func TestPatienceOver(t *testing.T) {
	late := errors.New("late")
	ctx, cancel := WithPatience(t.Context(), 10*time.Millisecond, late)
	defer cancel()
	hang := make(chan struct{})
	defer close(hang)
	err := Within(ctx, func() error { <-hang; return nil })
	must.Hold(t, errors.Is(err, ErrInDoubt) && errors.Is(err, late), "%v", err)
	soon, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	inner, cancel := WithPatience(soon, time.Hour, late)
	defer cancel()
	if end, _ := inner.Deadline(); time.Until(end) > time.Minute {
		t.Error(end)
	}
	outer, cancel := WithPatience(t.Context(), time.Second, late)
	defer cancel()
	inner, cancel = WithPatience(outer, time.Hour, errors.New("later"))
	defer cancel()
	if end, _ := inner.Deadline(); time.Until(end) > time.Second {
		t.Error(end)
	}
}
