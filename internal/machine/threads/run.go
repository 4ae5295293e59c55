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
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// ranFor is how long a thread ran since it was made, and how often it came onto a CPU (/proc/PID/schedstat: nanoseconds
// on a CPU, nanoseconds waiting for one, number of turns).
type ranFor struct{ NS, Waited, Turns uint64 }

// Look is one look at the threads that may run on some CPUs.
type Look struct {
	uptime    float64 // seconds since boot
	looked    int     // threads whose CPUs were asked for
	Left      int     // processes that were not looked at, or not wholly, because the time was up
	Silent    int     // threads whose run time could not be read
	Threads   []Seen
	processes map[int]processSeen
}

// Seen is a thread that may run on the watched CPUs.
type Seen struct {
	TID, PID int
	Affinity setting.CPUSet
	Ran      ranFor
}

// processSeen is what is kept of a process: when neither its CPU time nor the number of its threads is another at the
// next look, none of its threads ran.
type processSeen struct {
	clock   int64  // nanoseconds; 0: not known
	links   uint64 // of the folder of its threads
	looked  int
	threads []Seen
}

// threadWatcher looks at threads.
type threadWatcher struct {
	m        *tree.Tree
	cpus     setting.CPUSet
	before   *Look // nil in the first look
	enough   func() bool
	asked    int // threads since enough was asked last
	over     bool
	affinity affinityCache
	look     Look
}

// On looks at all threads that may run on some CPUs. The answer to "which CPUs" is a system call of a third of a
// microsecond; only for those that may run there a file is read, and at the second look only of processes that ran.
// Processes that are asked for first (guests) come first. It stops when enough says so, which counts the CPU time that
// was used.
func On(m *tree.Tree, cpus setting.CPUSet, first []int, before *Look, enough func() bool) Look {
	w := threadWatcher{m: m, cpus: cpus, before: before, enough: enough, affinity: affinityCache{m: m, cpus: cpus}}
	w.look = Look{uptime: uptime(m), processes: map[int]processSeen{}}
	proc := m.Folder("proc")
	defer proc.Close()
	pids := slices.Clone(first)
	seen := map[int]bool{os.Getpid(): m.Live()} // who watches is gone when it is told of
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

// busy asks now and then whether it was enough.
func (w *threadWatcher) busy(threads int) {
	if w.asked += threads; w.asked >= 64 {
		w.asked, w.over = 0, w.enough()
	}
}

// process looks at the threads of one process.
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
			w.busy(1)
			return
		}
	}
	tids := []int{pid}
	// two, and one for each thread (fs/proc/base.c, proc_task_getattr): to count is cheaper than to list
	if p.links != 3 {
		tids = tids[:0]
		for _, name := range task.Names() {
			if tid, err := strconv.Atoi(name); err == nil {
				tids = append(tids, tid)
			}
		}
	}
	for _, tid := range tids {
		if w.busy(1); w.over {
			break
		}
		p.looked++
		affinity, overlaps := w.affinity.of(tid, pid)
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

// processClock is how much CPU time a process has used, in nanoseconds, by the clock that clock_getcpuclockid(3) names;
// 0 where it is gone or the tree is recorded.
func processClock(m *tree.Tree, pid int) int64 {
	const sched = 2 // CPUCLOCK_SCHED of include/linux/posix-timers.h
	var t unix.Timespec
	if !m.Live() || unix.ClockGettime(int32(^pid<<3|sched), &t) != nil {
		return 0
	}
	return t.Nano()
}

// affinityCache knows the CPU sets of threads that were seen last: nearly all threads have one of a few.
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

// of is the CPUs of a thread and whether a watched one is among them.
func (c *affinityCache) of(tid, pid int) (setting.CPUSet, bool) {
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
				c.known = slices.Delete(c.known, 4, 5) // the first ones are the commonest
			}
			return k.set, k.overlaps
		}
	}
	set := Affinity(c.m, tid, pid)
	return set, len(set.And(c.cpus)) > 0
}

func parseRuns(text string) (ranFor, error) {
	fields := strings.Fields(text)
	if len(fields) < 3 {
		return ranFor{}, errors.New("expected three numbers")
	}
	ns, err := strconv.ParseUint(fields[0], 10, 64)
	waited, errWaited := strconv.ParseUint(fields[1], 10, 64)
	turns, errTurns := strconv.ParseUint(fields[2], 10, 64)
	return ranFor{ns, waited, turns}, errors.Join(err, errWaited, errTurns)
}

// uptime is how long the machine has run, in seconds; 0 where it does not tell.
func uptime(m *tree.Tree) float64 {
	text, _, _ := strings.Cut(m.Line("proc/uptime"), " ")
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return seconds
}

// mostThreads bounds how many threads that did not run an observation lists.
const mostThreads = 400

// runsBetween are the threads that ran between two looks, longest first, and behind them those that may have. Each is
// read once more for its name and the like, up to the limit.
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
		} else { // it is new, or was not seen before: describe tells
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
			o.Unseen = append(o.Unseen, l.reached(fmt.Sprintf("%d threads that ran, the ones that ran least", nameless),
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

// describe reads what else there is to know of a thread and reports whether it is still there. One that the first look
// did not see and that is older than it is not new: it came from other CPUs, or there was no time for it. What it ran
// before does not count.
func describe(m *tree.Tree, run *facts.ThreadRun, since float64) bool {
	text, err := m.Read("proc/" + strconv.Itoa(run.PID) + "/task/" + strconv.Itoa(run.TID) + "/stat")
	if err != nil {
		return false
	}
	t, err := ParseStat(text)
	if err != nil {
		return false
	}
	flags := statFlags(text)
	run.Comm, run.CPU, run.Policy, run.Priority = t.Comm, t.CPU, PolicyName(t.Policy), t.Priority
	run.Kernel, run.Fixed = flags&flagKernel != 0, flags&flagFixed != 0
	if run.New && since > 0 && float64(t.started)/100 < since { // ticks of a hundredth of a second
		run.RunNS, run.Switches, run.New = 0, 0, false
	}
	return true
}

// Flags of a thread (include/linux/sched.h): PF_KTHREAD, and PF_NO_SETAFFINITY of those whose CPUs user space may not
// change.
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
