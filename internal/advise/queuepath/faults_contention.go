package queuepath

import (
	"cmp"
	"fmt"
	"slices"

	"mpps/internal/model/facts"
	"mpps/internal/words"
)

// Lower bounds of contention.
const (
	leastWaits   = 100
	leastWaiting = 0.01 // waits per packet of the device
	leastWaited  = 0.01 // of one CPU's time
	leastRequeue = 0.05 // of the device's packets, if locks cannot be seen
)

// contention returns the devices where CPUs wait for each other. Mostly it follows from a fault already found: many
// senders on few queues.
func (j *judge) contention(found []Fault) []Fault {
	devices := slices.Concat(facts.Map(j.Contention, func(c Contention) string { return c.Device }),
		facts.Map(j.Requeues, func(r Requeues) string { return r.Device }))
	slices.Sort(devices)
	var all []Fault
	for _, name := range slices.Compact(devices) {
		f := cmp.Or(j.lockWaits(name), j.requeueFault(name))
		if f == nil {
			continue
		}
		if root := facts.Find(found, func(c *Fault) bool {
			return c.Device == name && (c.Kind == Funnel || c.Kind == Collision)
		}); root != nil {
			f.Follows = root.Name()
			if slices.ContainsFunc(found, func(f Fault) bool { return f.Kind == Funnel && f.Name() == root.Follows }) {
				f.Follows = root.Follows
			}
			f.Cause = "several CPUs send where they need not meet: see " + root.Name()
			f.Mend = root.Mend
		}
		all = append(all, *f)
	}
	return all
}

// lockWaits finds contention by the kernel's tracepoints (lock:contention_begin and contention_end, Linux 5.19).
func (j *judge) lockWaits(device string) *Fault {
	f := &Fault{Kind: Contended, Object: device, Device: device}
	var waits, ns uint64
	var worst Contention
	root := uint64(0)
	for _, c := range j.Contention {
		if c.Device != device {
			continue
		}
		waits, ns = waits+c.Waits, ns+c.WaitNS
		if c.WaitNS > worst.WaitNS {
			worst = c
		}
		if c.Queue < 0 {
			root += c.WaitNS
		} else if q := (Queue{device, Tx, c.Queue}); !slices.Contains(f.Queues, q) {
			f.Queues = append(f.Queues, q)
		}
	}
	l := j.sides[Side{device, Tx}]
	if l == nil || waits < leastWaits || j.Watched <= 0 || !j.matters(l.packets) ||
		float64(waits) < leastWaiting*float64(l.packets) || float64(ns) < leastWaited*j.Watched*1e9 {
		return nil
	}
	if len(f.Queues) == 0 {
		f.Queues = j.queuesOf(Side{device, Tx})
	}
	slices.SortFunc(f.Queues, compareQueues)
	f.Packets, f.Share = min(waits, l.packets), j.share(min(waits, l.packets))
	f.Evidence = fmt.Sprintf("%s%d waits for %d packets, %d ns each, together %s of a CPU; most for the %s%s",
		words.If(j.blind(BlindFirst), "at least "), waits, l.packets, ns/waits,
		words.Share(float64(ns)/(j.Watched*1e9)), lockNames[worst.Lock],
		words.If(worst.Queue >= 0, " of queue %d", worst.Queue))
	f.Cause, f.Mend = j.waitCause(device, root*2 > ns)
	return f
}

// lockNames are the locks' names for people.
var lockNames = map[string]string{"xmit": "transmit lock", "qdisc": "lock of the queue discipline",
	"busy": "busy lock of the queue discipline", "seq": "turn in the queue discipline"}

func (j *judge) waitCause(device string, root bool) (string, Mend) {
	d := cmp.Or(j.Device(device), &Device{Name: device})
	cpus := cpuWords(j.sides[Side{device, Tx}].cpus())
	if root && d.TxQueues > 1 {
		return fmt.Sprintf("%s has one queue discipline (%s) for all of its %s, and %s take its lock in turn", device,
			cmp.Or(d.Qdisc, "unknown"), words.Count(d.TxQueues, "queue"), cpus), rootMend(d)
	}
	return fmt.Sprintf("%s send by the same queues of %s", cpus, device),
		Mend{Text: "divide the CPUs that send among the queues", Command: steerCommand, Knob: "nic.xps"}
}

// blind reports whether something could not be seen.
func (j *judge) blind(to Blind) bool {
	return slices.ContainsFunc(j.Unseen, func(u Unseen) bool { return u.Blind == to })
}

// requeueFault finds contention by requeues, for kernels that do not report waits for locks. A packet is requeued
// because the ring was full or stopped; for the lock the kernel waits (net/sched/sch_generic.c, sch_direct_xmit). So
// requeues show that several CPUs send more by one queue than its ring takes, but not how long they wait for each
// other.
func (j *judge) requeueFault(device string) *Fault {
	l := j.sides[Side{device, Tx}]
	if !j.blind(BlindLocks) || l == nil || j.Seconds <= 0 || j.Watched <= 0 || !j.matters(l.packets) {
		return nil
	}
	var count uint64
	for _, r := range j.Requeues {
		if r.Device == device {
			count += r.Count
		}
	}
	f := &Fault{Kind: Contended, Object: device, Device: device, full: true}
	f.Queues = facts.Where(j.queuesOf(Side{device, Tx}), func(q Queue) bool { return len(j.loads[q].cpus()) > 1 })
	sent := float64(l.packets) * j.Seconds / j.Watched
	if len(f.Queues) == 0 || float64(count) < leastWaits || float64(count) < leastRequeue*sent {
		return nil
	}
	f.Share = j.share(uint64(float64(count) / j.Seconds * j.Watched))
	f.Packets = uint64(f.Share * float64(j.total))
	f.Evidence = fmt.Sprintf("the queue discipline of %s got %d of about %.0f packets back: a ring was full; this "+
		"kernel does not tell of waits for locks", device, count, sent)
	f.Cause = fmt.Sprintf("%s send by the same queues of %s, and more than their rings take",
		cpuWords(l.cpus()), device)
	f.Mend = Mend{Text: "divide the CPUs that send among the queues; where the NIC is at its rate a full ring is no " +
		"fault", Command: steerCommand, Knob: "nic.xps"}
	return f
}
