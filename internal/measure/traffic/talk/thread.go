package talk

import (
	"runtime"
	"time"
)

// onThread runs f on a locked thread.
func onThread(f func()) {
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		f()
	}()
}

// The Go runtime watches threads in system calls (sysmon and retake in runtime/proc.go). While it wants a processor of
// the scheduler back from one, it looks every 20 µs, on a CPU that is measured: with client and server on one CPU the
// 99th percentile of transactions was 40 µs instead of 7. It wants one back when none is idle, and from a goroutine
// that has not been scheduled for 10 ms. Neither happens with spare processors and turns.

// maxSpare bounds what spare asks for: with more threads than that the CPUs are busy anyway.
const maxSpare = 64

// spare has more processors in the Go scheduler than n threads can hold in system calls. Nothing takes them away again:
// idle ones cost nothing.
func spare(n int) {
	if want := min(n+2, maxSpare); runtime.GOMAXPROCS(0) < want {
		runtime.GOMAXPROCS(want)
	}
}

// A turn says when a goroutine that lives in system calls should be scheduled again.
type turn struct{ last time.Duration }

// turnEvery is half of what the runtime lets a goroutine run for.
const turnEvery = 5 * time.Millisecond

// due reports whether the turn is over at a time that only grows. A caller then yields, which takes some 10 µs on a
// locked thread.
func (t *turn) due(now time.Duration) bool {
	if now-t.last < turnEvery {
		return false
	}
	t.last = now
	return true
}
