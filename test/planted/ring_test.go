package planted

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ring stands between a vhost thread and a vCPU as a vring does: with room for 256 packets. Who waits sleeps in the
// kernel, as a vCPU that halts and a vhost thread without work do, and Go's scheduler, whose own threads would take CPU
// time, has no part in it.
type ring struct {
	lock    atomic.Uint32
	slots   [256][]byte
	head    uint32        // of the next to be taken
	held    uint32        // packets
	filled  atomic.Uint32 // changes with each packet that is put
	emptied atomic.Uint32 // changes with each that is taken
	waiting atomic.Int32  // threads that sleep
}

// put puts a packet; where the ring is full it waits for room, or gives up.
func (r *ring) put(frame []byte, wait bool) bool {
	for {
		seen := r.emptied.Load()
		r.acquire()
		if r.held < uint32(len(r.slots)) {
			r.slots[(r.head+r.held)%uint32(len(r.slots))] = frame
			r.held++
			r.release()
			r.filled.Add(1)
			r.wake(&r.filled)
			return true
		}
		r.release()
		if !wait {
			return false
		}
		r.sleep(&r.emptied, seen)
	}
}

// take takes the next packet, for which it waits.
func (r *ring) take() []byte {
	for {
		seen := r.filled.Load()
		r.acquire()
		if r.held > 0 {
			frame := r.slots[r.head]
			r.head = (r.head + 1) % uint32(len(r.slots))
			r.held--
			r.release()
			r.emptied.Add(1)
			r.wake(&r.emptied)
			return frame
		}
		r.release()
		r.sleep(&r.filled, seen)
	}
}

// acquire takes the lock, which nobody holds for longer than a few instructions but who was taken from its CPU
// meanwhile.
func (r *ring) acquire() {
	for !r.lock.CompareAndSwap(0, 1) {
		_, _ = raw(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
}

func (r *ring) release() { r.lock.Store(0) }

const (
	futexWait = 128 // FUTEX_WAIT_PRIVATE, include/uapi/linux/futex.h
	futexWake = 129
)

// sleep waits until a word is no longer what it was.
func (r *ring) sleep(word *atomic.Uint32, seen uint32) {
	r.waiting.Add(1)
	// it changed already, or a signal: looked at again
	_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, uintptr(seen), 0, 0, 0)
	r.waiting.Add(-1)
}

func (r *ring) wake(word *atomic.Uint32) {
	if r.waiting.Load() > 0 {
		_, _ = raw(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, 64)
	}
}
