// Package threads reads processes and threads, where they ran and what disturbed them, and reads and writes their CPUs
// and scheduling policy.
package threads

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// task is one thread as /proc/PID/task/TID/stat has it.
type task struct {
	TID      int
	Comm     string
	CPU      int // ran there last
	started  uint64
	Priority int // of the realtime policies, 0 otherwise
	Policy   int
	flags    uint64 // PF_… of include/linux/sched.h
}

// policies are the names of scheduling policies by number (include/uapi/linux/sched.h).
var policies = [...]string{0: "SCHED_OTHER", 1: "SCHED_FIFO", 2: "SCHED_RR", 3: "SCHED_BATCH", 5: "SCHED_IDLE",
	6: "SCHED_DEADLINE"}

// ParseStat reads a stat file (proc_pid_stat(5)). The name stands in parentheses and may hold any character, so the
// fields are counted from the last parenthesis.
func ParseStat(text string) (task, error) {
	open, closed := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || closed < open {
		return task{}, fmt.Errorf("expected a name in parentheses, found %.40q", text)
	}
	t := task{Comm: text[open+1 : closed], CPU: -1}
	var err error
	if t.TID, err = strconv.Atoi(strings.TrimSpace(text[:open])); err != nil {
		return task{}, fmt.Errorf("expected a thread number, found %.40q", text)
	}
	const (
		flags    = 9 - 3
		started  = 22 - 3
		cpu      = 39 - 3
		priority = 40 - 3
		policy   = 41 - 3
	)
	fields := strings.Fields(text[closed+1:]) // from field 3 on
	if len(fields) <= policy {
		return task{}, fmt.Errorf("expected at least 41 fields, found %d", len(fields)+2)
	}
	var errs [5]error
	t.started, errs[0] = strconv.ParseUint(fields[started], 10, 64)
	t.CPU, errs[1] = strconv.Atoi(fields[cpu])
	t.Priority, errs[2] = strconv.Atoi(fields[priority])
	t.Policy, errs[3] = strconv.Atoi(fields[policy])
	t.flags, errs[4] = strconv.ParseUint(fields[flags], 10, 64)
	return t, errors.Join(errs[:]...)
}

// Tasks lists the threads of a process in the order of their creation.
func Tasks(m *tree.Tree, pid int) []task {
	folder := m.Folder("proc/" + strconv.Itoa(pid) + "/task")
	defer folder.Close()
	var list []task
	for _, name := range folder.Names() {
		text, there := folder.Text(name + "/stat")
		if !there {
			continue // it ended meanwhile
		}
		if t, err := ParseStat(text); err == nil {
			list = append(list, t)
		}
	}
	sortTasks(list)
	return list
}

// sortTasks puts threads in the order of creation: by start time, within one tick (10 ms) by number.
func sortTasks(list []task) {
	slices.SortFunc(list, func(a, b task) int {
		return cmp.Or(cmp.Compare(a.started, b.started), cmp.Compare(a.TID, b.TID))
	})
}

// KernelVhosts lists the vhost workers of a process that are threads of the kernel: before Linux 6.4 (commit
// 6e890c5d5021, "vhost: use vhost_tasks for worker threads") they were not threads of QEMU, only named after it.
func KernelVhosts(m *tree.Tree, pid int, all []Process) []task {
	name := "vhost-" + strconv.Itoa(pid)
	var list []task
	for _, p := range all {
		if p.Comm != name {
			continue
		}
		text, err := m.Read("proc/" + strconv.Itoa(p.PID) + "/stat")
		if err != nil {
			continue
		}
		if t, err := ParseStat(text); err == nil {
			list = append(list, t)
		}
	}
	sortTasks(list)
	return list
}

// Of makes the fact of a task of a QEMU process by its name (QEMU with debug-threads=on, which libvirt sets).
func Of(m *tree.Tree, t task, pid int) facts.Thread {
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
	case Scan(t.Comm, "CPU ", &n):
		thread.Role, thread.Index = "vcpu", n
	case strings.HasPrefix(t.Comm, "IO ") && t.Comm != "IO mon_iothread":
		thread.Role = "iothread"
		if Scan(t.Comm, "IO iothread", &n) {
			thread.Index = n
		}
	}
	return thread
}

// Scan reads the number that follows a prefix.
func Scan(text, prefix string, n *int) bool {
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

// Affinity is the CPUs that a thread may run on; of a recorded tree what its status file says.
func Affinity(m *tree.Tree, tid, pid int) setting.CPUSet {
	if m.Live() {
		if set, err := getAffinity(tid); err == nil {
			return set
		}
	}
	return statusCPUs(m, tid, pid)
}

// statusCPUs is the CPUs that a thread may run on by its status file: also those that are offline.
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

// affinityWords holds a set of 16384 CPUs, more than any kernel is built for (unix.CPUSet ends at 1024).
type affinityWords [16384 / 64]uint64

// getAffinity asks the kernel for a thread's CPUs.
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

// set is the CPUs that the words have.
func (words *affinityWords) set() setting.CPUSet {
	var set setting.CPUSet
	for i, word := range words {
		for ; word != 0; word &= word - 1 {
			set = append(set, i*64+bits.TrailingZeros64(word))
		}
	}
	return set
}

// SetAffinity binds a thread to CPUs. The kernel refuses a set without a CPU that is online and in the thread's cpuset
// (EINVAL), and leaves out those that are not of a set that has some.
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
