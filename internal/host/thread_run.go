package host

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/facts"
	"mpps/internal/setting"
)

// ranFor is how long a thread ran since it was made, and how often it came onto a CPU (/proc/PID/schedstat: nanoseconds on a CPU,
// nanoseconds waiting for one, number of turns).
type ranFor struct{ ns, turns uint64 }

// threadLook is one look at the threads that may run on some CPUs.
type threadLook struct {
	at      time.Time
	uptime  float64 // seconds since boot
	looked  int     // threads whose CPUs were asked for
	left    int     // processes that were not looked at because the time was up
	silent  int     // threads whose run time could not be read
	threads []threadSeen
}

// threadSeen is a thread that may run on the watched CPUs.
type threadSeen struct {
	tid, pid int
	affinity setting.CPUSet
	ran      ranFor
}

// threadsOn looks at all threads that may run on some CPUs. The answer to "which CPUs" is a system call of a third of a
// microsecond; only for those that may run there files are read. Processes that are asked for first (guests) come first. It
// stops when it has used so much CPU time; enough tells.
func (m *Machine) threadsOn(cpus setting.CPUSet, first []int, enough func() bool) threadLook {
	look := threadLook{at: time.Now(), uptime: m.uptime()}
	proc := m.folder("proc")
	defer proc.close()
	pids := slices.Clone(first)
	seen := map[int]bool{}
	for _, pid := range first {
		seen[pid] = true
	}
	seen[os.Getpid()] = m.live // who watches is gone when it is told of
	for _, name := range proc.names() {
		if pid, err := strconv.Atoi(name); err == nil && !seen[pid] {
			pids = append(pids, pid)
		}
	}
	for i, pid := range pids {
		if i%32 == 0 && enough() {
			look.left = len(pids) - i
			break
		}
		m.processOn(proc, pid, cpus, &look)
	}
	return look
}

// processOn looks at the threads of one process.
func (m *Machine) processOn(proc *folder, pid int, cpus setting.CPUSet, look *threadLook) {
	id := strconv.Itoa(pid)
	task := proc.folder(id + "/task")
	if task == nil {
		return // it ended meanwhile
	}
	defer task.close()
	tids := []int{pid}
	if !m.single(task) {
		tids = tids[:0]
		for _, name := range task.names() {
			if tid, err := strconv.Atoi(name); err == nil {
				tids = append(tids, tid)
			}
		}
	}
	for _, tid := range tids {
		look.looked++
		affinity := m.affinity(tid, pid)
		if !overlaps(affinity, cpus) {
			continue
		}
		t := threadSeen{tid: tid, pid: pid, affinity: affinity}
		text, there := task.text(strconv.Itoa(tid) + "/schedstat")
		if r, err := parseRuns(text); there && err == nil {
			t.ran = r
		} else {
			look.silent++
		}
		look.threads = append(look.threads, t)
	}
}

// single tells whether a process has one thread only: the folder of its threads counts them in its links (fs/proc/base.c,
// proc_task_getattr), which costs less than to list them.
func (m *Machine) single(task *folder) bool {
	if !m.live || task.root != nil {
		return false
	}
	var stat unix.Stat_t
	return unix.Fstat(task.fd, &stat) == nil && stat.Nlink == 3
}

// overlaps tells whether two sets share a CPU.
func overlaps(a, b setting.CPUSet) bool {
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] == b[j]:
			return true
		case a[i] < b[j]:
			i++
		default:
			j++
		}
	}
	return false
}

func parseRuns(text string) (ranFor, error) {
	fields := strings.Fields(text)
	if len(fields) < 3 {
		return ranFor{}, errors.New("expected three numbers")
	}
	ns, err := strconv.ParseUint(fields[0], 10, 64)
	turns, errTurns := strconv.ParseUint(fields[2], 10, 64)
	return ranFor{ns, turns}, errors.Join(err, errTurns)
}

// uptime is how long the machine has run, in seconds; 0 where it does not tell.
func (m *Machine) uptime() float64 {
	text, _, _ := strings.Cut(m.line("proc/uptime"), " ")
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return seconds
}

// mostThreads bounds how many threads that did not run an observation lists.
const mostThreads = 2000

// runsBetween are the threads that ran between two looks, longest first, and behind them those that may have.
func (m *Machine) runsBetween(before, after threadLook, o *facts.Observation) {
	was := make(map[int]threadSeen, len(before.threads))
	for _, t := range before.threads {
		was[t.tid] = t
	}
	var ran, idle []facts.ThreadRun
	for _, t := range after.threads {
		run := facts.ThreadRun{TID: t.tid, PID: t.pid, Affinity: t.affinity}
		old, known := was[t.tid]
		if known && old.ran.ns <= t.ran.ns && old.ran.turns <= t.ran.turns {
			run.RunNS, run.Switches = t.ran.ns-old.ran.ns, t.ran.turns-old.ran.turns
		} else { // it is new, or was not seen before: describe tells
			run.RunNS, run.Switches, run.New = t.ran.ns, t.ran.turns, true
		}
		if run.RunNS > 0 || run.Switches > 0 {
			ran = append(ran, run)
		} else {
			idle = append(idle, run)
		}
	}
	slices.SortStableFunc(ran, func(a, b facts.ThreadRun) int { return cmp.Compare(b.RunNS, a.RunNS) })
	slices.SortStableFunc(idle, func(a, b facts.ThreadRun) int { return cmp.Compare(a.TID, b.TID) })
	o.Threads = []facts.ThreadRun{}
	for i, run := range append(ran, idle...) {
		if i >= mostThreads && i >= len(ran) {
			o.Omitted = len(ran) + len(idle) - i
			break
		}
		if m.describe(&run, before.uptime) {
			o.Threads = append(o.Threads, run)
		}
	}
	o.Looked = after.looked
}

// describe reads what else there is to know of a thread and tells whether it is still there. One that the first look did not see
// and that is older than it is not new: it came from other CPUs, or there was no time for it. What it ran before does not count.
func (m *Machine) describe(run *facts.ThreadRun, since float64) bool {
	text, err := m.read("proc/" + strconv.Itoa(run.PID) + "/task/" + strconv.Itoa(run.TID) + "/stat")
	if err != nil {
		return false
	}
	t, err := parseStat(text)
	if err != nil {
		return false
	}
	flags := statFlags(text)
	run.Comm, run.CPU, run.Policy, run.Priority = t.comm, t.cpu, policyName(t.policy), t.priority
	run.Kernel, run.Fixed = flags&flagKernel != 0, flags&flagFixed != 0
	if run.New && since > 0 && float64(t.started)/100 < since { // ticks of a hundredth of a second
		run.RunNS, run.Switches, run.New = 0, 0, false
	}
	return true
}

// Flags of a thread (include/linux/sched.h): PF_KTHREAD, and PF_NO_SETAFFINITY of those whose CPUs user space may not change.
const (
	flagKernel = 0x00200000
	flagFixed  = 0x04000000
)

// statFlags is the ninth field of a stat file.
func statFlags(text string) uint64 {
	_, rest, _ := strings.Cut(text[strings.LastIndexByte(text, ')')+1:], " ")
	fields := strings.Fields(rest)
	if len(fields) < 7 {
		return 0
	}
	flags, err := strconv.ParseUint(fields[6], 10, 64)
	if err != nil {
		return 0
	}
	return flags
}
