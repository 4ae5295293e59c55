// Package wakeloop measures how late timers wake threads on this machine, without another program, and makes load for
// such a measurement. Both are for machines without rt-tests; docs/latency.md describes the limits of the loop.
package wakeloop

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"mpps/internal/measure"
	"mpps/internal/measure/traffic"
	"mpps/internal/measure/wakeup"
	"mpps/internal/thread"
)

// Options describe what to measure.
type Options struct {
	CPUs     []int
	Interval time.Duration // from one wake-up to the next: 20 µs to 1 s
	For      time.Duration
	Priority int // of SCHED_FIFO, 1–99
	Keep     int // long wake-ups per thread to keep with their times
}

// Measure runs a thread on each CPU until the time is up or the context ends. A thread that cannot get SCHED_FIFO is
// measured anyway and reports the problem.
func Measure(ctx context.Context, o Options) ([]wakeup.OwnThread, error) {
	if len(o.CPUs) == 0 || o.Interval < 20*time.Microsecond || o.Interval > time.Second || o.Keep < 1 {
		return nil, fmt.Errorf("interval %v on %d CPUs: expected 20µs to 1s on one at least", o.Interval, len(o.CPUs))
	}
	// The threads sleep in the kernel without the runtime's knowledge, so that nothing of it comes between a wake-up
	// and reading the clock. Each keeps one of the runtime's processors, and no garbage collection may wait for one.
	runtime.GOMAXPROCS(len(o.CPUs) + 2)
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	locked := unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE)
	if locked == nil {
		defer func() { _ = unix.Munlockall() }() // only affects this process, and cannot fail
	}
	var stop atomic.Bool
	threads := make([]measured, len(o.CPUs))
	var all sync.WaitGroup
	for i, cpu := range o.CPUs {
		t := &threads[i]
		t.CPU, t.keep = cpu, make(shortest, 0, o.Keep)
		if locked != nil {
			t.Problem = fmt.Sprintf("its memory is not locked: %v", locked)
		}
		all.Add(1)
		thread.Go(func() {
			defer all.Done()
			t.run(o, &stop)
		})
	}
	end := time.NewTimer(o.For)
	defer end.Stop()
	select {
	case <-end.C:
	case <-ctx.Done():
	}
	stop.Store(true)
	all.Wait()
	results := make([]wakeup.OwnThread, len(threads))
	var errs []error
	for i := range threads {
		results[i] = threads[i].result()
		errs = append(errs, threads[i].err)
	}
	return results, errors.Join(errs...)
}

// measured is a measured thread.
type measured struct {
	wakeup.OwnThread
	histogram traffic.Histogram
	sum       uint64
	keep      shortest
	err       error
}

// shortest is a min-heap of long wake-ups.
type shortest []wakeup.OwnLong

func (s shortest) Len() int           { return len(s) }
func (s shortest) Less(i, j int) bool { return s[i].Ns < s[j].Ns }
func (s shortest) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *shortest) Push(x any)        { *s = append(*s, x.(wakeup.OwnLong)) }
func (s *shortest) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}

func (t *measured) run(o Options, stop *atomic.Bool) {
	var set unix.CPUSet
	set.Set(t.CPU)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		t.err = fmt.Errorf("CPU %d: %w", t.CPU, err)
		return
	}
	if err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO,
		Priority: uint32(o.Priority)}, 0); err != nil {
		t.Problem = fmt.Sprintf("it could not have SCHED_FIFO: %v", err)
	}
	blockSignals()
	next := now() + int64(o.Interval)
	// It ends by its own clock: if it leaves no time to others, nothing else would stop it.
	for end := next + int64(o.For); next < end && !stop.Load(); {
		sleepUntil(next)
		at := now()
		t.record(max(at-next, 0), at)
		// missed periods are skipped, as in cyclictest
		for next += int64(o.Interval); next <= at; next += int64(o.Interval) {
		}
	}
}

// record counts a wake-up.
func (t *measured) record(late, at int64) {
	ns := uint64(late)
	t.histogram.Record(time.Duration(late))
	t.sum += ns
	if t.Count == 0 || ns < t.MinNs {
		t.MinNs = ns
	}
	t.Count, t.MaxNs = t.Count+1, max(t.MaxNs, ns)
	switch {
	case len(t.keep) < cap(t.keep):
		heap.Push(&t.keep, wakeup.OwnLong{Ns: ns, When: at})
	case ns > t.keep[0].Ns:
		t.keep[0] = wakeup.OwnLong{Ns: ns, When: at}
		heap.Fix(&t.keep, 0)
	}
}

func (t *measured) result() wakeup.OwnThread {
	r := t.OwnThread
	for _, bin := range t.histogram.Bins() {
		r.Buckets = append(r.Buckets, measure.Bucket{FromNs: bin.Low, ToNs: bin.High, Count: bin.Count})
	}
	if t.Count > 0 {
		r.MeanNs = float64(t.sum) / float64(t.Count)
	}
	if len(t.keep) > 0 {
		r.TriggerNs = t.keep[0].Ns
	}
	for len(t.keep) > 0 {
		r.Long = append(r.Long, heap.Pop(&t.keep).(wakeup.OwnLong))
	}
	return r
}

// now returns CLOCK_MONOTONIC in nanoseconds.
func now() int64 {
	var ts unix.Timespec
	unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}

// sleepUntil sleeps until a time of CLOCK_MONOTONIC. Signals are blocked, so nothing else ends it.
func sleepUntil(ns int64) {
	ts := unix.NsecToTimespec(ns)
	unix.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, uintptr(unsafe.Pointer(&ts)),
		0, 0, 0)
}

// blockSignals blocks all signals on this thread, including those by which the runtime would make it yield.
func blockSignals() {
	all := ^uint64(0)
	unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), 0, unsafe.Sizeof(all), 0,
		0)
}
