package traffic

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// xdpWorker is one copy of the program and its counters.
type xdpWorker struct {
	cpu    int
	stream uint16
	count  uint64 // 0: no limit
	start  flow
	frame  []byte
	coll   *ebpf.Collection
	prog   *ebpf.Program
	limit  *ebpf.Variable
	state  *ebpf.Variable
	mu     sync.Mutex   // guards limit and stop
	stop   time.Time    // when it was halted, zero before
	tid    atomic.Int64 // of the running thread, 0 otherwise
}

// reset prepares a worker for a run.
func (w *xdpWorker) reset() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stop = time.Time{}
	err := w.state.Set(genState{Src: w.start.src, Dst: w.start.dst, Sport: w.start.sport, Dport: w.start.dport})
	if err == nil {
		limit := w.count
		if limit == 0 {
			limit = math.MaxUint64
		}
		err = w.limit.Set(limit)
	}
	if err != nil {
		return fmt.Errorf("reset the generator: %w", err)
	}
	return nil
}

// halt makes the program stop the run. It may be called repeatedly.
func (w *xdpWorker) halt() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stop.IsZero() {
		w.stop = time.Now()
		// The variable is mapped memory of the right size: this cannot fail.
		_ = w.limit.Set(uint64(0))
	}
}

func (w *xdpWorker) stopped() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.stop.IsZero()
}

// interrupt ends the call of a worker whose program has stopped, or is overdue to. It reports whether the worker is
// running.
func (w *xdpWorker) interrupt() bool {
	tid := w.tid.Load()
	if tid == 0 {
		return false
	}
	w.mu.Lock()
	overdue := !w.stop.IsZero() && time.Since(w.stop) > 30*time.Millisecond
	w.mu.Unlock()
	if s, err := w.read(); err == nil && s.Ended != 0 || overdue {
		// The thread may already be gone.
		_ = unix.Tgkill(os.Getpid(), int(tid), endRun)
	}
	return true
}

func (w *xdpWorker) read() (genState, error) {
	var s genState
	if err := w.state.Get(&s); err != nil {
		return s, fmt.Errorf("read the generator's counters: %w", err)
	}
	return s, nil
}

// finish records the end of a run that its program did not see.
func (w *xdpWorker) finish() error {
	s, err := w.read()
	if err != nil || s.Ended != 0 || s.Started == 0 {
		return err
	}
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return fmt.Errorf("read the monotonic clock: %w", err)
	}
	s.Ended = uint64(ts.Nano())
	if err := w.state.Set(s); err != nil {
		return fmt.Errorf("note the end of a run: %w", err)
	}
	return nil
}

// run calls the kernel until the limit is reached or halt is called.
func (w *xdpWorker) run(paced bool, batch int) error {
	defer runtime.KeepAlive(w.coll)
	for !w.stopped() {
		repeat := uint64(longRun)
		s, err := w.read()
		if err != nil {
			return err
		}
		if w.count > 0 && !paced {
			// Each call of the program is one frame, plus one that sees the end.
			repeat = min(repeat, w.count-s.Seq+1)
		}
		err = testRunLive(w.prog, w.frame, uint32(repeat), batch)
		if err != nil && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return fmt.Errorf("live frame run: %w", err)
		}
		if s, err = w.read(); err != nil {
			return err
		}
		switch {
		case s.Gone != 0:
			return fmt.Errorf("%w: it was removed during the run", ErrNoDevice)
		case s.Ended != 0:
			return nil
		}
	}
	return nil
}
