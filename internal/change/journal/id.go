package journal

import (
	"crypto/rand"
	"encoding/hex"
	"regexp"
	"time"

	"golang.org/x/sys/unix"
)

// IDs sort by the start time of the transaction: "20261120T210912.123456Z-3f9a1c".
var idForm = regexp.MustCompile(`^\d{8}T\d{6}\.\d{6}Z-[0-9a-f]{6}$`)

const idTime = "20060102T150405.000000Z"

// newID returns an ID for a transaction that begins now. It sorts after the last one even if the clock was set back,
// because the order of IDs shows which transaction depends on which.
func newID(now time.Time, last string) string {
	var random [3]byte
	rand.Read(random[:]) // never fails
	now = now.UTC()
	if len(last) >= len(idTime) {
		if before, err := time.Parse(idTime, last[:len(idTime)]); err == nil &&
			!now.Truncate(time.Microsecond).After(before) {
			now = before.Add(time.Microsecond)
		}
	}
	return now.Format(idTime) + "-" + hex.EncodeToString(random[:])
}

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
