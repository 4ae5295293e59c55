package planted

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// A process is known by the name of its main thread. A goroutine has that for certain only if it was bound to it before
// main (runtime.LockOSThread): later, and on a slow machine nearly always, it runs on another one, and the guest is no
// QEMU to anybody.
func init() {
	if os.Getenv(actorVariable) != "" {
		runtime.LockOSThread()
	}
}

// onMain says what is wrong where the calling thread is not the main one.
func onMain() error {
	if tid, pid := unix.Gettid(), os.Getpid(); tid != pid {
		return fmt.Errorf("played on thread %d, expected the main one, %d", tid, pid)
	}
	return nil
}
