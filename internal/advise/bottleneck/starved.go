package bottleneck

import (
	"fmt"
	"slices"

	"mpps/internal/model/facts"
)

// mostly is the share of its CPU from which on a thread has too little of it by its own work rather than by that of
// others.
const mostly = 0.67

// waits reports whether a thread wants more of its CPU than it gets: it is ready all the time, or much of it on a CPU
// that has nothing left. One that sleeps between is not what others wait for, however long it takes to get its CPU.
func (k *look) waits(t *facts.ThreadLoad) bool {
	if t.Ran > mostly {
		return false // without the others it would have little more
	}
	return t.Waited >= waitsLong && t.Ran+t.Waited >= threadFull-0.04 ||
		t.Waited >= 0.25 && t.Ran+t.Waited >= 0.7 && k.full(where(t))
}

// noneLeft reports whether a thread is full: by what it used, or because it wanted the rest of a CPU that has nothing
// left.
func (k *look) noneLeft(t *facts.ThreadLoad) bool {
	return k.busy(t) >= threadFull || t.Ran >= 0.5 && t.Ran+t.Waited >= threadFull-0.04 && k.full(where(t))
}

// wants is how much of a CPU a thread would use if it had one for itself.
func wants(t *facts.ThreadLoad) float64 { return effective(t) + t.Waited }

// starved says who has the CPU that a thread of the path waits for. Where nobody in particular has it and the thread
// itself has the most of it, it is not starved but full.
func (k *look) starved(t *facts.ThreadLoad) (suspect, bool) {
	at := where(t)
	f := suspect{
		object: label(t), keys: []string{fmt.Sprintf("cpu:%d", at), fmt.Sprintf("thread:%d", t.TID)},
		strength: min(0.72+0.4*t.Waited, 0.95),
		evidence: []Evidence{
			{"share of the time that " + label(t) + " waited for a CPU", t.Waited, "share", schedstat(t)},
			{"share that it ran", t.Ran, "share", schedstat(t)},
		},
	}
	behind := ""
	if d, told := k.delay(t.TID); told {
		behind = d.Over
		f.evidence = append(f.evidence, Evidence{"wait for a CPU after it was woken, 99th percentile", d.P99, "us",
			"sched_wakeup, sched_switch"})
	}
	takers := k.takers(t)
	say := func(what string) {
		f.say = fmt.Sprintf("%s waits %s of the time for CPU %d, which %s", label(t), percent(t.Waited), at, what)
	}
	first := takers[0]
	for _, taker := range takers[1:] {
		if taker.share > first.share {
			first = taker
		}
	}
	switch {
	case first.share < 0.15 && t.Waited < max(t.Ran, 0.35):
		return suspect{}, false
	case first.share < 0.15:
		f.kind, f.stage, f.strength = CPUHog, pathStage(t), f.strength-0.15
		f.object = label(t)
		f.say = fmt.Sprintf("%s waits %s of the time for a CPU", label(t), percent(t.Waited))
		if behind != "" {
			f.object = behind
			say(behind + " has in its place")
		}
		return f, true
	case first.role == "irq":
		f.kind, f.stage = IRQBesideVhost, pathStage(t)
		f.evidence = append(f.evidence, Evidence{fmt.Sprintf("softirq and interrupts on CPU %d", at), first.share,
			"share", "/proc/stat"})
		say(fmt.Sprintf("spends %s on interrupts", percent(first.share)))
		return f, true
	}
	o := first.busiest
	f.evidence = append(f.evidence, Evidence{fmt.Sprintf("share of CPU %d that %s used", where(o), label(o)), o.Ran,
		"share", schedstat(o)})
	f.object = fmt.Sprintf("CPU %d", at)
	switch {
	case first.role == "other":
		f.kind, f.stage, f.object = CPUHog, pathStage(t), label(o)
		say(fmt.Sprintf("%s uses for %s", label(o), percent(o.Ran)))
	case t.Role == "vhost" && first.role == "vhost":
		f.kind = VhostShared
		f.evidence = append(f.evidence, Evidence{fmt.Sprintf("vhost threads on CPU %d", at), float64(first.n + 1),
			"threads", "/proc/PID/task/TID/stat"})
		say(fmt.Sprintf("it shares with %s", some(first.n, "other vhost thread")))
	default:
		f.kind = VCPUShared
		say(fmt.Sprintf("%s uses for %s", label(o), percent(o.Ran)))
	}
	return f, true
}

// taker is who else has a thread's CPU.
type taker struct {
	role    string // other, vhost, vcpu, or irq
	share   float64
	n       int
	busiest *facts.ThreadLoad
}

// takers are by what a thread's CPU is used besides: by strangers, vhost threads, vCPUs, and for packets that others
// receive there.
func (k *look) takers(t *facts.ThreadLoad) []taker {
	others := k.beside(t, 0.08)
	if len(t.Affinity) != 1 { // it wanders: whoever else fills CPUs that it may use
		for i := range k.l.Threads {
			o := &k.l.Threads[i]
			if o.TID != t.TID && o.Ran >= 0.3 && k.full(where(o)) &&
				(len(t.Affinity) == 0 || t.Affinity.Has(where(o))) && !slices.Contains(others, o) {
				others = append(others, o)
			}
		}
	}
	all := []taker{{role: "other"}, {role: "vhost"}, {role: "vcpu"}, {role: "irq"}}
	for _, o := range others {
		at := 0
		switch o.Role {
		case "vhost":
			at = 1
		case "vcpu":
			at = 2
		case "ksoftirqd", "napi":
			continue // their time is that of softirqs
		}
		all[at].share += o.Ran
		all[at].n++
		if all[at].busiest == nil || o.Ran > all[at].busiest.Ran {
			all[at].busiest = o
		}
	}
	if !k.outwards || k.interrupted(where(t)) { // else they may be those of what the thread itself sends
		all[3].share = k.handling(where(t))
	}
	return all
}

// schedstat is where the kernel tells how long a thread ran and waited.
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
