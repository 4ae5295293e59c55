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

// Budget is the share of one CPU that watching may take as a rule.
const Budget = 0.02

// Observe watches for a while what runs on some CPUs: two looks at threads, interrupts and times, with nothing in
// between. Inventory says which processes are guests: these are looked at first. It ends early with what it has when
// the context ends, and takes at most a share of one CPU, 0 to 1: where there is more to look at than that allows,
// Unseen says so. A recorded tree stands still: what it cannot show is said in Unseen.
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
	// Threads are read before the counters at first and behind them at last: what watching itself does is not between.
	// What is left of the time goes to the names of those that ran.
	before := look(m, cpus, guests, nil, func() bool { return ProcessTime()-begun > allowed/2 })
	select {
	case <-ctx.Done():
	case <-time.After(interval):
	}
	again := ProcessTime()
	first := again - begun
	used := func() time.Duration { return first + ProcessTime() - again }
	after := look(m, cpus, guests, &before.threads, func() bool { return used() > allowed*17/20 })
	o := between(m, before, after, h, cpus, limit{share, func() bool { return used() > allowed*19/20 }})
	o.CostMS = float64(used()) / float64(time.Millisecond)
	return o
}

// moment is one look.
type moment struct {
	at      time.Time // when the counters were read
	threads Look
	counts  map[string]irq.Counts
	times   map[int]cpu.Times
	unseen  []facts.Unseen
}

// look looks once.
func look(m *tree.Tree, cpus setting.CPUSet, guests []int, earlier *Look, enough func() bool) moment {
	var now moment
	if earlier == nil {
		now.threads = On(m, cpus, guests, nil, enough)
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
		now.threads = On(m, cpus, guests, earlier, enough)
	}
	return now
}

// limit is what watching may take of one CPU, and whether it was enough.
type limit struct {
	share  float64
	enough func() bool
}

// reached is what could not be looked at within the limit.
func (l limit) reached(what, todo string) facts.Unseen {
	return facts.Unseen{What: what, Why: fmt.Sprintf("there was no time to %s: watching may take %g %% of a CPU; "+
		"watch longer",
		todo, 100*l.share)}
}

// between is what happened between two looks. It stops naming threads at the limit.
func between(m *tree.Tree, before, after moment, h *facts.Host, cpus setting.CPUSet, l limit) *facts.Observation {
	o := &facts.Observation{
		Seconds: after.at.Sub(before.at).Seconds(), CPUs: cpus,
		Times:  cpu.TimesBetween(before.times, after.times, h.Topology.Online),
		IRQs:   irq.CountsBetween(before.counts, after.counts, cpus),
		Unseen: append([]facts.Unseen{}, after.unseen...),
	}
	runsBetween(m, before.threads, after.threads, o, l)
	if left := max(before.threads.Left, after.threads.Left); left > 0 {
		o.Unseen = append(o.Unseen, l.reached(fmt.Sprintf("threads of %d processes", left), "look at them"))
	}
	if silent := before.threads.Silent; silent > 0 && silent == len(before.threads.Threads) {
		o.Unseen = append(o.Unseen, facts.Unseen{What: "how long threads ran", Why: "the kernel does not count it " +
			"(no schedstat files: CONFIG_SCHED_INFO)"})
	}
	return o
}

// ProcessTime is how much CPU time this process has used.
func ProcessTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// UsedTime is how much CPU time this process has used, and the programs that it has started and that have ended.
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
