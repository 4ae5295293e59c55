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

// The Go runtime watches threads in system calls (sysmon and retake in runtime/proc.go). While it tries to take back a
// processor from one, it polls every 20 µs, on a CPU that is being measured: with client and server on one CPU the 99th
// percentile of transactions was 40 µs instead of 7. It wants one back if none is idle, and from a goroutine that has
// not been scheduled for 10 ms. Spare processors and turns avoid both.

// maxSpare limits reserveProcs: with more threads than that the CPUs are busy anyway.
const maxSpare = 64

// reserveProcs gives the Go scheduler more processors than n threads can hold in system calls. They are never taken
// away: idle ones cost nothing.
func reserveProcs(n int) {
	if want := min(n+2, maxSpare); runtime.GOMAXPROCS(0) < want {
		runtime.GOMAXPROCS(want)
	}
}

// A turn decides when a goroutine that spends its life in system calls should yield.
type turn struct{ last time.Duration }

// turnEvery is half of the time that the runtime lets a goroutine run.
const turnEvery = 5 * time.Millisecond

// due reports whether the turn is over at time now, which only grows. The caller then yields, which takes some 10 µs on
// a locked thread.
func (t *turn) due(now time.Duration) bool {
	if now-t.last < turnEvery {
		return false
	}
	t.last = now
	return true
}
