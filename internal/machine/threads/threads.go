// Package threads reads processes and threads, where they ran and what disturbed them, and reads and writes their
// affinity and scheduling policy.
package threads

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree"
	"mpps/internal/machine/trust"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// policies are the names of scheduling policies by number (include/uapi/linux/sched.h).
var policies = [...]string{0: "SCHED_OTHER", 1: "SCHED_FIFO", 2: "SCHED_RR", 3: "SCHED_BATCH", 5: "SCHED_IDLE",
	6: "SCHED_DEADLINE"}

// Tasks returns the threads of a process in the order of their creation.
func Tasks(m *tree.Tree, pid int) []trust.Stat {
	folder := m.Folder("proc/" + strconv.Itoa(pid) + "/task")
	defer folder.Close()
	var list []trust.Stat
	for _, name := range folder.Names() {
		text, there := folder.Text(name + "/stat")
		if !there {
			continue // it ended meanwhile
		}
		if t, err := trust.ParseStat(text); err == nil {
			list = append(list, t)
		}
	}
	sortTasks(list)
	return list
}

// sortTasks sorts threads by creation: by start time, within one tick (10 ms) by TID.
func sortTasks(list []trust.Stat) {
	slices.SortFunc(list, func(a, b trust.Stat) int {
		return cmp.Or(cmp.Compare(a.Started, b.Started), cmp.Compare(a.TID, b.TID))
	})
}

// KernelVhosts returns the vhost workers of a process that are kernel threads. Before Linux 6.4 (commit 6e890c5d5021,
// "vhost: use vhost_tasks for worker threads") they were not threads of QEMU, only named after it.
func KernelVhosts(m *tree.Tree, pid int, all []trust.Process) []trust.Stat {
	list := trust.KernelThreads(m, all, func(name string) bool { return name == "vhost-"+strconv.Itoa(pid) })
	sortTasks(list)
	return list
}

// FactOf returns the facts of a thread of a QEMU process. Its role comes from its name (QEMU with debug-threads=on,
// which libvirt sets).
func FactOf(m *tree.Tree, t trust.Stat, pid int) facts.Thread {
	thread := facts.Thread{
		TID: t.TID, Comm: t.Comm, Role: "worker", Queue: -1, CPU: t.CPU, Priority: t.Priority,
		Affinity: Affinity(m, t.TID, pid),
	}
	if t.Policy >= 0 && t.Policy < len(policies) {
		thread.Policy = policies[t.Policy]
	}
	var n int
	switch {
	case strings.HasPrefix(t.Comm, "vhost-"):
		thread.Role = "vhost"
	case t.TID == pid:
		thread.Role = "emulator"
	case ScanNumber(t.Comm, "CPU ", &n):
		thread.Role, thread.Index = "vcpu", n
	case strings.HasPrefix(t.Comm, "IO ") && t.Comm != "IO mon_iothread":
		thread.Role = "iothread"
		if ScanNumber(t.Comm, "IO iothread", &n) {
			thread.Index = n
		}
	}
	return thread
}

// ScanNumber reads the number after a prefix into n and reports whether there is one.
func ScanNumber(text, prefix string, n *int) bool {
	rest, found := strings.CutPrefix(text, prefix)
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end >= 0 {
		rest = rest[:end]
	}
	value, err := strconv.Atoi(rest)
	if !found || err != nil {
		return false
	}
	*n = value
	return true
}

// Affinity returns the CPUs that a thread may run on; nil if unknown. In a recorded tree it reads the status file.
func Affinity(m *tree.Tree, tid, pid int) setting.CPUSet {
	if m.Live() {
		if set, err := getAffinity(tid); err == nil {
			return set
		}
	}
	return statusCPUs(m, tid, pid)
}

// statusCPUs returns the CPUs that a thread may run on from its status file, including offline ones.
func statusCPUs(m *tree.Tree, tid, pid int) setting.CPUSet {
	id := strconv.Itoa(tid)
	status, err := m.Read("proc/" + strconv.Itoa(pid) + "/task/" + id + "/status")
	if err != nil {
		status, _ = m.Read("proc/" + id + "/status")
	}
	_, rest, _ := strings.Cut(status, "Cpus_allowed_list:")
	list, _, _ := strings.Cut(rest, "\n")
	set, err := setting.ParseCPUs(list)
	if err != nil {
		return nil
	}
	return set
}

// affinityWords is a set of up to 16384 CPUs, more than any kernel supports (unix.CPUSet ends at 1024).
type affinityWords [16384 / 64]uint64

// getAffinity returns a thread's CPUs.
func getAffinity(tid int) (setting.CPUSet, error) {
	var words affinityWords
	if err := readAffinity(tid, &words); err != nil {
		return nil, err
	}
	return words.set(), nil
}

// readAffinity fills the words with a thread's CPUs.
func readAffinity(tid int, words *affinityWords) error {
	_, _, errno := unix.RawSyscall(unix.SYS_SCHED_GETAFFINITY, uintptr(tid), unsafe.Sizeof(*words),
		uintptr(unsafe.Pointer(words)))
	if errno != 0 {
		return fmt.Errorf("affinity of thread %d: %w", tid, errno)
	}
	return nil
}

// set returns the CPUs in words.
func (words *affinityWords) set() setting.CPUSet {
	var set setting.CPUSet
	for i, word := range words {
		for ; word != 0; word &= word - 1 {
			set = append(set, i*64+bits.TrailingZeros64(word))
		}
	}
	return set
}

// SetAffinity binds a thread to CPUs. The kernel ignores CPUs that are offline or not in the thread's cpuset, and
// returns EINVAL if none is left.
func SetAffinity(tid int, set setting.CPUSet) error {
	var words affinityWords
	for _, cpu := range set {
		if cpu < 0 || cpu/64 >= len(words) {
			return fmt.Errorf("CPU %d is out of range", cpu)
		}
		words[cpu/64] |= 1 << (cpu % 64)
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SCHED_SETAFFINITY, uintptr(tid), unsafe.Sizeof(words),
		uintptr(unsafe.Pointer(&words)))
	if errno != 0 {
		return fmt.Errorf("affinity of thread %d to CPUs %s: %w", tid, set, errno)
	}
	return nil
}

// Resident returns the resident memory of a process in bytes; 0 if unknown.
func Resident(m *tree.Tree, pid int) uint64 {
	status, _ := m.Read("proc/" + strconv.Itoa(pid) + "/status")
	_, rest, _ := strings.Cut(status, "VmRSS:")
	line, _, _ := strings.Cut(rest, "\n")
	kib, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(line), " kB"), 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}
