package bottleneck

import (
	"cmp"
	"fmt"
	"slices"

	"mpps/internal/model/facts"
)

// ownUse is the share of a CPU above which a thread is short of CPU time because of its own work, not of others'.
const ownUse = 0.67

// anySchedstat is the source of figures of several threads.
const anySchedstat = "/proc/PID/task/TID/schedstat"

// waiting reports whether a thread needs more of its CPU than it gets: it is runnable all the time, or most of it on a
// full CPU. A thread that sleeps in between does not count, however long it waits for the CPU when it wakes up.
func (p *path) waiting(t *facts.ThreadLoad) bool {
	if t.Ran > ownUse || t.Throttle >= minThrottle && t.Throttle >= t.Waited/2 {
		return false // its own work, or its quota, takes the time: without others it would hardly get more
	}
	return t.Waited >= minWait && t.Ran+t.Waited >= threadFull-0.04 ||
		t.Waited >= 0.25 && t.Ran+t.Waited >= 0.7 && p.full(cpuOf(t))
}

// heldBack reports whether a thread that leaves packets unread waits for its CPU: all the time, or on a full CPU far
// longer than it runs. Packets come to it in bursts then, and it sleeps in between.
func (p *path) heldBack(t *facts.ThreadLoad) bool {
	return p.waiting(t) || t.Throttle < minThrottle && t.Waited >= 0.3 && t.Waited >= 3*t.Ran && p.full(cpuOf(t))
}

// waitsMoreThan reports whether a thread is waiting and no other thread, which may wait for it, is full and needs more.
func (p *path) waitsMoreThan(t *facts.ThreadLoad, others []*facts.ThreadLoad) bool {
	o := busiestThread(others, demand)
	return p.waiting(t) && (o == nil || demand(o) < threadFull || demand(o) < demand(t))
}

// saturated reports whether a thread is full: by what it used, or because it needed the rest of a full CPU.
func (p *path) saturated(t *facts.ThreadLoad) bool {
	return p.busy(t) >= threadFull || t.Ran >= 0.5 && t.Ran+t.Waited >= threadFull-0.04 && p.full(cpuOf(t))
}

// demand returns how much of a CPU a thread would use if it had one to itself.
func demand(t *facts.ThreadLoad) float64 { return effective(t) + t.Waited }

// contention returns what takes the CPU that a thread of the path waits for. It returns false if nothing else takes
// much and the thread itself has most of it: then it is not starved but full.
func (p *path) contention(t *facts.ThreadLoad) (suspect, bool) {
	at := cpuOf(t)
	f := suspect{object: label(t), keys: []string{cpuKey(at), fmt.Sprintf("thread:%d", t.TID)},
		strength: min(0.72+0.4*t.Waited, 0.95)}
	f.show("share of the time that "+label(t)+" waited for a CPU", t.Waited, "share", schedstat(t))
	f.show("share that it ran", t.Ran, "share", schedstat(t))
	runner := "" // what ran instead
	if d := facts.Find(p.l.Delays, func(d *facts.WakeDelay) bool { return d.TID == t.TID }); d != nil {
		runner = d.Over
		f.show("wait for a CPU after it was woken, 99th percentile", d.P99, "us", "sched_wakeup, sched_switch")
	}
	say := func(what string) {
		f.say = fmt.Sprintf("%s waits %s of the time for CPU %d, which %s", label(t), percent(t.Waited), at, what)
	}
	first := slices.MaxFunc(p.takers(t), func(a, b taker) int { return cmp.Compare(a.share, b.share) })
	if first.share < t.Waited/2 { // most of the wait is for something else
		f.strength -= 0.15
	}
	switch {
	case first.share < 0.15 && t.Waited < max(t.Ran, 0.35):
		return suspect{}, false
	case first.share < 0.15:
		f.kind, f.stage = CPUHog, pathStage(t)
		f.say = fmt.Sprintf("%s waits %s of the time for a CPU", label(t), percent(t.Waited))
		if runner != "" {
			f.object = runner
			say(runner + " has in its place")
		}
		return f, true
	case first.role == "irq":
		f.kind, f.stage = IRQBesideVhost, pathStage(t)
		f.show("softirq and interrupts on "+cpuName(at), first.share, "share", "/proc/stat")
		say(fmt.Sprintf("spends %s on interrupts", percent(first.share)))
		return f, true
	}
	o := first.busiest
	f.show(fmt.Sprintf("share of CPU %d that %s used", cpuOf(o), label(o)), o.Ran, "share", schedstat(o))
	f.object = cpuName(at)
	if t.Role == "vhost" && first.role == "vhost" {
		f.kind = VhostShared
		f.show("vhost threads on "+cpuName(at), float64(first.threads+1), "threads", "/proc/PID/task/TID/stat")
		say("it shares with " + count(first.threads, "other vhost thread"))
		return f, true
	}
	f.kind = VCPUShared
	if first.role == "other" {
		f.kind, f.stage, f.object = CPUHog, pathStage(t), label(o)
	}
	how := ""
	if slices.Contains([]string{"fifo", "rr", "deadline"}, o.Policy) {
		how = " (realtime)"
	}
	if o.Ran < first.share/2 {
		say(fmt.Sprintf("%s use for %s, %s%s most of all", count(first.threads, "other thread"),
			percent(min(first.share, 1)), label(o), how))
		return f, true
	}
	say(fmt.Sprintf("%s%s uses for %s", label(o), how, percent(o.Ran)))
	return f, true
}

// taker is a group of threads that take a thread's CPU, or the packets that are received there.
type taker struct {
	role    string // other, vhost, vcpu, or irq
	share   float64
	threads int
	busiest *facts.ThreadLoad
}

// takers returns what uses a thread's CPU besides the thread: threads off the path, vhost threads, vCPUs, and packets
// that are received there for others.
func (p *path) takers(t *facts.ThreadLoad) []taker {
	others := p.neighbours(t, 0.08)
	if len(t.Affinity) != 1 { // not bound to one CPU: any thread that fills a CPU which this one may use
		for o := range facts.Each(p.l.Threads) {
			if o.TID != t.TID && o.Ran >= 0.3 && p.full(cpuOf(o)) &&
				(len(t.Affinity) == 0 || t.Affinity.Has(cpuOf(o))) && !slices.Contains(others, o) {
				others = append(others, o)
			}
		}
	}
	all := []taker{{role: "other"}, {role: "vhost"}, {role: "vcpu"}, {role: "irq"}}
	for _, o := range others {
		g := &all[0]
		switch o.Role {
		case "vhost":
			g = &all[1]
		case "vcpu":
			g = &all[2]
		case "ksoftirqd", "napi":
			continue // their time is softirq time
		}
		g.share += o.Ran
		g.threads++
		if g.busiest == nil || o.Ran > g.busiest.Ran {
			g.busiest = o
		}
	}
	if !p.outwards || p.nicInterrupts(cpuOf(t)) { // otherwise the thread's own packets may cause the softirqs
		all[3].share = p.softirqUse(cpuOf(t))
	}
	return all
}

// schedstat returns the file with a thread's time on and waiting for a CPU.
func schedstat(t *facts.ThreadLoad) string {
	return fmt.Sprintf("/proc/%d/task/%d/schedstat", t.PID, t.TID)
}

func pathStage(t *facts.ThreadLoad) string {
	switch t.Role {
	case "vhost", "vcpu":
		return t.Role
	case "ksoftirqd", "napi":
		return "softirq"
	case "emulator":
		return "vhost"
	}
	return "socket"
}
