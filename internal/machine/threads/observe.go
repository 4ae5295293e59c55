package threads

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/cpu"
	"mpps/internal/machine/irq"
	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Budget is the usual share of one CPU that watching may take.
const Budget = 0.02

// Observe watches what runs on some CPUs for an interval: two readings of threads, interrupts and CPU times, with
// nothing in between. It reads the guests in h first. It ends early with what it has when the context ends. It takes at
// most a share of one CPU, 0 to 1; what it could not read within that is in Unseen. In a recorded tree nothing changes:
// then everything is in Unseen.
func Observe(ctx context.Context, m *tree.Tree, h *facts.Host, cpus setting.CPUSet, interval time.Duration,
	share float64) *facts.Observation {
	if !m.Live() {
		return &facts.Observation{CPUs: cpus,
			Unseen: []facts.Unseen{{What: "what runs on the CPUs", Why: "a recorded tree stands still"}}}
	}
	var guests []int
	for i := range h.Guests {
		if h.Guests[i].PID != 0 {
			guests = append(guests, h.Guests[i].PID)
		}
	}
	begun := ProcessTime()
	allowed := time.Duration(share * float64(interval))
	// Threads are read before the counters the first time and after them the second time, so that the interval does not
	// include the reading. The remaining time is for the names of threads that ran.
	before := takeMoment(m, cpus, guests, nil, func() bool { return ProcessTime()-begun > allowed/2 })
	select {
	case <-ctx.Done():
	case <-time.After(interval):
	}
	again := ProcessTime()
	first := again - begun
	used := func() time.Duration { return first + ProcessTime() - again }
	after := takeMoment(m, cpus, guests, &before.threads, func() bool { return used() > allowed*17/20 })
	o := compare(m, before, after, h, cpus, limit{share, func() bool { return used() > allowed*19/20 }})
	o.CostMS = float64(used()) / float64(time.Millisecond)
	return o
}

// moment is one reading.
type moment struct {
	at      time.Time // when the counters were read
	threads Look
	counts  map[string]irq.Counts
	times   map[int]cpu.Times
	unseen  []facts.Unseen
}

// takeMoment takes one reading.
func takeMoment(m *tree.Tree, cpus setting.CPUSet, guests []int, earlier *Look, enough func() bool) moment {
	var now moment
	if earlier == nil {
		now.threads = TakeLook(m, cpus, guests, nil, enough)
	}
	now.at = time.Now()
	text, err := m.Read("proc/interrupts")
	if err != nil {
		now.unseen = append(now.unseen, facts.Unseen{What: "interrupts on the CPUs", Why: err.Error()})
	}
	now.counts = irq.ParseCPUCounts(text, cpus)
	if now.times, err = cpu.ReadTimes(m); err != nil {
		now.unseen = append(now.unseen, facts.Unseen{What: "times of the CPUs", Why: err.Error()})
	}
	if earlier != nil {
		now.threads = TakeLook(m, cpus, guests, earlier, enough)
	}
	return now
}

// limit is the share of one CPU that watching may take, and whether it is used up.
type limit struct {
	share  float64
	enough func() bool
}

// unseen returns what could not be read within the limit.
func (l limit) unseen(what, todo string) facts.Unseen {
	return facts.Unseen{What: what, Why: fmt.Sprintf("there was no time to %s: watching may take %g %% of a CPU; "+
		"watch longer", todo, 100*l.share)}
}

// compare returns what happened between two readings. It stops naming threads at the limit.
func compare(m *tree.Tree, before, after moment, h *facts.Host, cpus setting.CPUSet, l limit) *facts.Observation {
	o := &facts.Observation{
		Seconds: after.at.Sub(before.at).Seconds(), CPUs: cpus,
		Times:  cpu.TimesBetween(before.times, after.times, h.Topology.Online),
		IRQs:   irq.CountsBetween(before.counts, after.counts, cpus),
		Unseen: append([]facts.Unseen{}, after.unseen...),
	}
	runsBetween(m, before.threads, after.threads, o, l)
	if left := max(before.threads.Left, after.threads.Left); left > 0 {
		o.Unseen = append(o.Unseen, l.unseen(fmt.Sprintf("threads of %d processes", left), "look at them"))
	}
	if silent := before.threads.Silent; silent > 0 && silent == len(before.threads.Threads) {
		o.Unseen = append(o.Unseen, facts.Unseen{What: "how long threads ran", Why: "the kernel does not count it " +
			"(no schedstat files: CONFIG_SCHED_INFO)"})
	}
	return o
}

// ProcessTime returns the CPU time that this process has used.
func ProcessTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// UsedTime returns the CPU time that this process and its ended children have used.
func UsedTime() time.Duration {
	var total time.Duration
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if unix.Getrusage(who, &u) == nil {
			total += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return total
}
