// Package thread runs functions on separate OS threads, which may change their namespace, CPU affinity and priority.
package thread

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Go runs f in a goroutine on its own thread, which ends with f. It is never the first thread of the process:
// Linux shows that thread's namespaces in /proc/self and /proc/net (fs/proc/proc_net.c, get_proc_task_net), and the Go
// runtime does not end it but parks it in the state that f left (runtime/proc.go, mexit).
func Go(f func()) {
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its goroutine
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		moved := make(chan struct{})
		Go(func() { // gets another thread while this goroutine holds the first
			close(moved)
			f()
		})
		<-moved
		runtime.UnlockOSThread()
	}()
}

// Do calls f as Go does and returns its error.
func Do(f func() error) error {
	done := make(chan error, 1)
	Go(func() { done <- f() })
	return <-done
}
