package gallery

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTimer begins to measure the CPU time of this goroutine, whose thread no other one has meanwhile: other tests take
// theirs beside it. took ends that.
func cpuTimer() (took func() time.Duration) {
	runtime.LockOSThread()
	before := threadTime()
	return func() time.Duration {
		defer runtime.UnlockOSThread()
		return threadTime() - before
	}
}

func threadTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		panic(err) // a constant of Linux
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
