package threads

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree"
	"mpps/internal/machine/trust"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// runTime is a thread's time since it started (/proc/PID/schedstat): nanoseconds on a CPU, nanoseconds waiting for one,
// and how often it got one.
type runTime struct{ NS, Waited, Turns uint64 }

// Look is one reading of the threads that may run on some CPUs.
type Look struct {
	uptime    float64 // seconds since boot
	looked    int     // threads whose affinity was read
	Left      int     // processes that were not read, or only in part, for lack of time
	Silent    int     // threads whose run time could not be read
	Threads   []Seen
	processes map[int]processSeen
}

// Seen is a thread that may run on the watched CPUs.
type Seen struct {
	TID, PID int
	Affinity setting.CPUSet
	Ran      runTime
}

// processSeen is a process at one reading. If neither its CPU time nor its number of threads has changed at the next
// reading, none of its threads ran.
type processSeen struct {
	clock   int64  // nanoseconds; 0: unknown
	links   uint64 // link count of its task folder
	looked  int
	threads []Seen
}

// threadWatcher takes a Look.
type threadWatcher struct {
	m        *tree.Tree
	before   *Look // nil for the first one
	enough   func() bool
	asked    int // threads since the last call of enough
	over     bool
	affinity affinityCache
	look     Look
}

// TakeLook reads all threads that may run on some CPUs. Reading an affinity is a system call of a third of a
// microsecond. It reads a file only for threads that may run there, the second time only in processes that ran. It
// starts with the processes in first (guests), and stops when enough returns true, which checks the CPU time used.
func TakeLook(m *tree.Tree, cpus setting.CPUSet, first []int, before *Look, enough func() bool) Look {
	w := threadWatcher{m: m, before: before, enough: enough, affinity: affinityCache{m: m, cpus: cpus}}
	w.look = Look{uptime: uptime(m), processes: map[int]processSeen{}}
	proc := m.Folder("proc")
	defer proc.Close()
	pids := slices.Clone(first)
	seen := map[int]bool{os.Getpid(): m.Live()} // the watcher itself is left out
	for _, pid := range first {
		seen[pid] = true
	}
	for _, name := range proc.Names() {
		if pid, err := strconv.Atoi(name); err == nil && !seen[pid] {
			pids = append(pids, pid)
		}
	}
	for i, pid := range pids {
		if w.process(proc, pid); w.over {
			w.look.Left = len(pids) - i
			break
		}
	}
	return w.look
}

// countThreads counts threads and calls enough after every 64.
func (w *threadWatcher) countThreads(threads int) {
	if w.asked += threads; w.asked >= 64 {
		w.asked, w.over = 0, w.enough()
	}
}

// process reads the threads of one process.
func (w *threadWatcher) process(proc *tree.Folder, pid int) {
	id := strconv.Itoa(pid)
	task := proc.Folder(id + "/task")
	if task == nil {
		return // it ended meanwhile
	}
	defer task.Close()
	p := processSeen{clock: processClock(w.m, pid), links: task.Links()}
	if w.before != nil && p.clock != 0 {
		if was, known := w.before.processes[pid]; known && was.clock == p.clock && was.links == p.links {
			w.look.looked += was.looked
			w.look.Threads = append(w.look.Threads, was.threads...)
			w.countThreads(1)
			return
		}
	}
	tids := []int{pid}
	// The link count is 2 plus one per thread (fs/proc/base.c, proc_task_getattr): cheaper than listing them.
	if p.links != 3 {
		tids = tids[:0]
		for _, name := range task.Names() {
			if tid, err := strconv.Atoi(name); err == nil {
				tids = append(tids, tid)
			}
		}
	}
	for _, tid := range tids {
		if w.countThreads(1); w.over {
			break
		}
		p.looked++
		affinity, overlaps := w.affinity.affinity(tid, pid)
		if !overlaps {
			continue
		}
		t := Seen{TID: tid, PID: pid, Affinity: affinity}
		text, there := task.Brief(strconv.Itoa(tid) + "/schedstat")
		if r, err := parseRuns(text); there && err == nil {
			t.Ran = r
		} else {
			w.look.Silent++
		}
		p.threads = append(p.threads, t)
	}
	w.look.looked += p.looked
	w.look.Threads = append(w.look.Threads, p.threads...)
	if !w.over {
		w.look.processes[pid] = p
	}
}

// processClock returns the CPU time of a process in nanoseconds, from the clock of clock_getcpuclockid(3); 0 if it has
// ended or the tree is recorded.
func processClock(m *tree.Tree, pid int) int64 {
	const sched = 2 // CPUCLOCK_SCHED of include/linux/posix-timers.h
	var t unix.Timespec
	if !m.Live() || unix.ClockGettime(int32(^pid<<3|sched), &t) != nil {
		return 0
	}
	return t.Nano()
}

// affinityCache has the last CPU sets seen: nearly all threads have one of a few.
type affinityCache struct {
	m     *tree.Tree
	cpus  setting.CPUSet
	known []knownAffinity
}

type knownAffinity struct {
	words    affinityWords
	set      setting.CPUSet
	overlaps bool // with the watched CPUs
}

// affinity returns the CPUs of a thread, and whether they include a watched one.
func (c *affinityCache) affinity(tid, pid int) (setting.CPUSet, bool) {
	if c.m.Live() {
		var words affinityWords
		if readAffinity(tid, &words) == nil {
			for i := range c.known {
				if c.known[i].words == words {
					return c.known[i].set, c.known[i].overlaps
				}
			}
			k := knownAffinity{words: words, set: words.set()}
			k.overlaps = len(k.set.And(c.cpus)) > 0
			if c.known = append(c.known, k); len(c.known) > 16 {
				c.known = slices.Delete(c.known, 4, 5) // the first ones are the most common
			}
			return k.set, k.overlaps
		}
	}
	set := Affinity(c.m, tid, pid)
	return set, len(set.And(c.cpus)) > 0
}

func parseRuns(text string) (runTime, error) {
	fields := strings.Fields(text)
	if len(fields) < 3 {
		return runTime{}, errors.New("expected three numbers")
	}
	ns, err := strconv.ParseUint(fields[0], 10, 64)
	waited, errWaited := strconv.ParseUint(fields[1], 10, 64)
	turns, errTurns := strconv.ParseUint(fields[2], 10, 64)
	return runTime{ns, waited, turns}, errors.Join(err, errWaited, errTurns)
}

// uptime returns the seconds since boot; 0 if unknown.
func uptime(m *tree.Tree) float64 {
	text, _, _ := strings.Cut(m.Line("proc/uptime"), " ")
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return seconds
}

// mostThreads is the number of listed threads after which idle ones are left out.
const mostThreads = 400

// runsBetween adds the threads that ran between two readings to o, longest first, then the idle ones. It reads each
// once more for its name and so on, up to the limit.
func runsBetween(m *tree.Tree, before, after Look, o *facts.Observation, l limit) {
	was := make(map[int]Seen, len(before.Threads))
	for _, t := range before.Threads {
		was[t.TID] = t
	}
	var ran, idle []facts.ThreadRun
	for _, t := range after.Threads {
		run := facts.ThreadRun{TID: t.TID, PID: t.PID, Affinity: t.Affinity}
		old, known := was[t.TID]
		if known && old.Ran.NS <= t.Ran.NS && old.Ran.Turns <= t.Ran.Turns {
			run.RunNS, run.Switches = t.Ran.NS-old.Ran.NS, t.Ran.Turns-old.Ran.Turns
		} else { // it is new, or was not seen before: describe decides
			run.RunNS, run.Switches, run.New = t.Ran.NS, t.Ran.Turns, true
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
		over := i%16 == 15 && l.enough()
		if nameless := len(ran) - i; over && nameless > 0 {
			o.Unseen = append(o.Unseen, l.unseen(fmt.Sprintf("%d threads that ran, the ones that ran least", nameless),
				"name them"))
		}
		if over || i >= mostThreads && i >= len(ran) {
			o.Omitted = len(ran) + len(idle) - max(i, len(ran))
			break
		}
		if describe(m, &run, before.uptime) {
			o.Threads = append(o.Threads, run)
		}
	}
	o.Looked = after.looked
}

// describe reads the other facts of a thread and reports whether it still exists. A thread that is older than the first
// reading but was not in it is not new: it came from other CPUs, or there was no time for it. Its earlier run time does
// not count.
func describe(m *tree.Tree, run *facts.ThreadRun, since float64) bool {
	text, err := m.Read("proc/" + strconv.Itoa(run.PID) + "/task/" + strconv.Itoa(run.TID) + "/stat")
	if err != nil {
		return false
	}
	t, err := trust.ParseStat(text)
	if err != nil {
		return false
	}
	run.Comm, run.CPU, run.Policy, run.Priority = t.Comm, t.CPU, PolicyName(t.Policy), t.Priority
	run.Kernel, run.Fixed = t.Kernel(), t.Flags&fixedAffinity != 0
	if run.New && since > 0 && float64(t.Started)/100 < since { // ticks of 10 ms
		run.RunNS, run.Switches, run.New = 0, 0, false
	}
	return true
}
