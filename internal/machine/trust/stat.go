package trust

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Stat is one thread, from /proc/PID/task/TID/stat.
type Stat struct {
	TID      int
	Comm     string // a process chooses its own
	Parent   int    // PID
	CPU      int    // where it ran last
	Started  uint64 // ticks since boot
	Priority int    // rt_priority: 0 except with a realtime policy
	Policy   int
	Flags    uint64 // PF_… of include/linux/sched.h
}

// ParseStat reads a stat file (proc_pid_stat(5)). The name is in parentheses and may contain any character, so fields
// are counted from the last parenthesis.
func ParseStat(text string) (Stat, error) {
	open, closed := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || closed < open {
		return Stat{}, fmt.Errorf("expected a name in parentheses, found %.40q", text)
	}
	t := Stat{Comm: text[open+1 : closed], CPU: -1}
	var err error
	if t.TID, err = strconv.Atoi(strings.TrimSpace(text[:open])); err != nil {
		return Stat{}, fmt.Errorf("expected a thread number, found %.40q", text)
	}
	const (
		parent   = 4 - 3
		flags    = 9 - 3
		started  = 22 - 3
		cpu      = 39 - 3
		priority = 40 - 3
		policy   = 41 - 3
	)
	fields := strings.Fields(text[closed+1:]) // from field 3 on
	if len(fields) <= policy {
		return Stat{}, fmt.Errorf("expected at least 41 fields, found %d", len(fields)+2)
	}
	var errs [6]error
	t.Started, errs[0] = strconv.ParseUint(fields[started], 10, 64)
	t.CPU, errs[1] = strconv.Atoi(fields[cpu])
	t.Priority, errs[2] = strconv.Atoi(fields[priority])
	t.Policy, errs[3] = strconv.Atoi(fields[policy])
	t.Flags, errs[4] = strconv.ParseUint(fields[flags], 10, 64)
	t.Parent, errs[5] = strconv.Atoi(fields[parent])
	return t, errors.Join(errs[:]...)
}

const (
	userWorker   = 0x00004000 // PF_USER_WORKER (include/linux/sched.h)
	kernelThread = 0x00200000 // PF_KTHREAD
	kthreadd     = 2          // rest_init in init/main.c starts it second
)

// Kernel reports whether a thread is one of the kernel's. No process can set the flag or choose this parent, whatever
// it calls itself.
func (t Stat) Kernel() bool {
	return t.Flags&kernelThread != 0 && (t.Parent == kthreadd || t.TID == kthreadd)
}

// UserWorker reports whether the kernel created the thread to work for its process: a vhost worker since Linux 6.4,
// or an io_uring worker.
func (t Stat) UserWorker() bool { return t.Flags&userWorker != 0 }
