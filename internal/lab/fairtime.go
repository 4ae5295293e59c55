package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// fairTick is the polling interval of a fair limit.
const fairTick = 250 * time.Millisecond

// maxStretch bounds how far a fair limit may be stretched.
const maxStretch = 6

// withFairTimeout returns a context that ends when L1 had the time d: while L0's CPUs are busy with other work, the
// time that the threads of L1's QEMU wait for a CPU does not count. So a limit distinguishes a hung guest from a
// starved one. If the kernel does not account waiting, all time counts.
func (l *Lab) withFairTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return fairTimeout(ctx, d, l.qemuPID)
}

// FairTimeout is a limit in fair time for work that starts labs of a name: all time counts while none runs.
func FairTimeout(ctx context.Context, name string, d time.Duration) (context.Context, context.CancelFunc) {
	return fairTimeout(ctx, d, func() int {
		s, err := readState(name)
		if err != nil {
			return 0
		}
		return s.proc(roleQEMU).PID
	})
}

func fairTimeout(ctx context.Context, d time.Duration, qemu func() int) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, maxStretch*d)
	ctx, end := context.WithCancelCause(ctx)
	fair := &fairContext{ctx, make(chan struct{})}
	go func() {
		defer close(fair.done)
		defer cancel()
		var had time.Duration
		last, pid := time.Now(), qemu()
		run, wait := schedstat(pid)
		for had < d {
			if sleep(ctx, min(fairTick, d)) != nil {
				return
			}
			now, was := time.Now(), pid
			pid = qemu()
			r, w := schedstat(pid)
			if pid != was {
				run, wait = r, w // of another boot: all time counts
			}
			had += fairShare(now.Sub(last), r-run, w-wait)
			last, run, wait = now, r, w
		}
		end(context.DeadlineExceeded)
	}()
	return fair, cancel
}

// fairContext ends with DeadlineExceeded, not Canceled, when its fair time is over. It has its own Done, because
// contexts derived from it would otherwise take their error from the embedded one.
type fairContext struct {
	context.Context
	done chan struct{}
}

func (c *fairContext) Done() <-chan struct{} { return c.done }

func (c *fairContext) Err() error {
	select {
	case <-c.done:
	default:
		return nil
	}
	if cause := context.Cause(c.Context); cause == context.DeadlineExceeded {
		return cause
	}
	return c.Context.Err()
}

// qemuPID returns the process ID of L1's QEMU, 0 if there is none.
func (l *Lab) qemuPID() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.st.proc(roleQEMU).PID
}

// fairShare returns the part of dt that counts if threads ran for run and waited for wait in it.
func fairShare(dt, run, wait time.Duration) time.Duration {
	if run <= 0 || wait <= 0 {
		return dt
	}
	return time.Duration(float64(dt) * float64(run) / float64(run+wait))
}

// schedstat sums the run time and wait time of a process's threads, the first two fields of
// /proc/PID/task/TID/schedstat (Documentation/scheduler/sched-stats.rst).
func schedstat(pid int) (run, wait time.Duration) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return 0, 0
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // a thread that has just ended
		}
		var r, w int64
		if _, err := fmt.Sscan(string(b), &r, &w); err == nil {
			run += time.Duration(r)
			wait += time.Duration(w)
		}
	}
	return run, wait
}
