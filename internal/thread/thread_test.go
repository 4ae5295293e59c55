package thread

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

func first() bool { return unix.Gettid() == unix.Getpid() }

func TestGoIsNeverOnTheFirstThread(t *testing.T) {
	for range 2000 {
		var on bool
		if err := Do(func() error { on = first(); return nil }); err != nil || on {
			t.Fatalf("on the first thread: %v, %v", on, err)
		}
	}
}

// TestPlainGoroutinesAre: without Go some function comes to the first thread, or the test above could not fail.
func TestPlainGoroutinesAre(t *testing.T) {
	var found atomic.Bool
	for range 2000 {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				if first() {
					found.Store(true)
				}
			})
		}
		if all.Wait(); found.Load() {
			return
		}
	}
	t.Error("no goroutine came to the first thread")
}
