package journal

import (
	"time"

	"golang.org/x/sys/unix"
)

// Clock tells the time in two ways. The time of day may be set at any moment, so no deadline rests on it.
type Clock struct {
	Now func() time.Time     // time of day
	Up  func() time.Duration // since the boot, suspends included
}

// SystemClock is the machine's.
var SystemClock = Clock{Now: time.Now, Up: func() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) // never fails since Linux 2.6.39: clock_gettime(2)
	return time.Duration(t.Nano())
}}
