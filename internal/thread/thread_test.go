package thread

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"mpps/internal/must"
)

// The main goroutine, in which TestMain runs, begins on the first thread. With one processor for Go, a goroutine that
// it waits for runs on the same thread.
func init() { runtime.LockOSThread() }

// plain and own count the goroutines, of tries each, that ran on the first thread: started by go and by Do.
const tries = 1000

var plain, own int

func TestMain(m *testing.M) {
	processors := runtime.GOMAXPROCS(1)
	runtime.UnlockOSThread()
	for range tries {
		done := make(chan bool)
		go func() { done <- first() }()
		if <-done {
			plain++
		}
	}
	for range tries {
		_ = Do(func() error {
			if first() {
				own++
			}
			return nil
		})
	}
	runtime.GOMAXPROCS(processors)
	os.Exit(m.Run())
}

func first() bool { return unix.Gettid() == unix.Getpid() }

func TestNeverOnTheFirstThread(t *testing.T) {
	must.Hold(t, own <= 0, "%d of %d were on the first thread", own, tries)
	must.Hold(t, plain != 0, "no plain goroutine came to the first thread: this test could not fail")
	t.Logf("%d of %d plain goroutines were on the first thread", plain, tries)
}
