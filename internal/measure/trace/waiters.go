package trace

import (
	"os"
	"runtime"
	"slices"
	"strings"

	"mpps/internal/advise/queuepath"
)

// The tracepoint contention_begin reports waits for locks when a CPU queues. On bare metal the first waiting CPU does
// not queue: it spins on the pending bit and gets the lock without reaching the tracepoint (kernel/locking/qspinlock.c,
// queued_spin_lock_slowpath). So of two CPUs that take turns at a lock nearly nothing is seen, and of more CPUs one is
// missing. In a guest with paravirtual spinlocks every waiting CPU queues; under other hypervisors none does (arch/x86,
// virt_spin_lock).

// paravirtual are the hypervisors under which Linux has paravirtual spinlocks.
var paravirtual = []string{"kvm", "xen", "hyperv"}

// unseenWaits returns the waits that the tracepoint does not report on this machine.
func (w *watcher) unseenWaits() queuepath.Unseen {
	virtual := ""
	if w.host != nil {
		virtual = w.host.Virtual
	} else if text, err := os.ReadFile("/proc/cpuinfo"); err == nil && guestFlag(string(text)) {
		virtual = "kvm"
	}
	return unseenWaits(virtual, runtime.GOARCH)
}

func unseenWaits(virtual, arch string) queuepath.Unseen {
	first := queuepath.Unseen{Blind: queuepath.BlindFirst, What: "the first of the CPUs that wait for a transmit " +
		"queue's lock"}
	switch {
	case virtual == "" || arch != "amd64":
		first.Why = "the kernel tells of those that queue behind it; of two CPUs that take turns that is nearly nothing"
	case !slices.Contains(paravirtual, virtual):
		first.Why = "as a guest of " + virtual +
			" CPUs do not queue for locks, and the kernel may tell of no wait at all"
	default:
		return queuepath.Unseen{}
	}
	return first
}

// guestFlag reports whether the processor identifies itself as virtual.
func guestFlag(cpuinfo string) bool {
	for line := range strings.Lines(cpuinfo) {
		if name, flags, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "flags" {
			return slices.Contains(strings.Fields(flags), "hypervisor")
		}
	}
	return false
}
