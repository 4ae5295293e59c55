package trace

import (
	"os"
	"runtime"
	"slices"
	"strings"

	"mpps/internal/advise/queuepath"
)

// Waits for locks are told by the tracepoint contention_begin, which a CPU comes to when it queues. On a machine of its
// own the first that waits does not queue: it spins on the pending bit, and is through before the tracepoint
// (kernel/locking/qspinlock.c, queued_spin_lock_slowpath). So of two CPUs that take turns at a lock next to nothing is
// seen, and of more one less. As a guest with paravirtual spinlocks every CPU that waits queues; with other hypervisors
// none does (arch/x86, virt_spin_lock).

// paravirtual are the hypervisors for which Linux has such spinlocks.
var paravirtual = []string{"kvm", "xen", "hyperv"}

// untold is what the tracepoint does not tell of here.
func (w *watcher) untold() queuepath.Unseen {
	virtual := ""
	if w.host != nil {
		virtual = w.host.Virtual
	} else if text, err := os.ReadFile("/proc/cpuinfo"); err == nil && guestFlag(string(text)) {
		virtual = "kvm"
	}
	return untold(virtual, runtime.GOARCH)
}

func untold(virtual, arch string) queuepath.Unseen {
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

// guestFlag reports whether a processor says that it is a virtual one.
func guestFlag(cpuinfo string) bool {
	for line := range strings.Lines(cpuinfo) {
		if name, flags, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "flags" {
			return slices.Contains(strings.Fields(flags), "hypervisor")
		}
	}
	return false
}
