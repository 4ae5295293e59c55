// Package load measures what each stage of the packet path does over an interval: CPUs, devices, sockets, threads and
// guests.
package load

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"mpps/internal/machine/cpu"
	"mpps/internal/machine/irq"
	"mpps/internal/machine/link"
	"mpps/internal/machine/ovs"
	"mpps/internal/machine/probe"
	"mpps/internal/machine/threads"
	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// Options say what is watched.
type Options struct {
	Interval time.Duration // 0: a second
	// Netns are the network namespaces whose devices and sockets are watched, by name below /run/netns, or
	// as Spaces returns them; the empty name is this process's. None: only that one.
	Netns []string
	// Counters loads nothing into the kernel: two readings of counters, no profile and no tracepoints.
	Counters bool
	// Inside also reads counters inside the guests that it selects and that run, at most four: each takes some runs of
	// virsh. nil: none.
	Inside Inside
}

// Observe watches every stage of the packet path for an interval: two readings of the kernel's counters, with a profile
// and tracepoints in between if the kernel supports them. h has the owners of devices and threads. It ends early with
// what it has when the context ends. In a recorded tree nothing changes: then everything is in Unseen.
func Observe(ctx context.Context, t *tree.Tree, h *facts.Host, o Options) *facts.Load {
	w := Start(ctx, t, h, o)
	l := w.Next(ctx, o.Interval)
	if err := w.Close(); err != nil {
		l.Unseen = append(l.Unseen, facts.Unseen{What: "the end of the probe", Why: err.Error()})
	}
	return l
}

// Watch watches the stages of the packet path from one reading to the next.
type Watch struct {
	tree *tree.Tree
	h    *facts.Host
	o    Options
	last fullLook
	cost time.Duration // of watching since the last Next

	cgroups cpuGroups
	nodes   map[int]map[int]uint64 // memory of guests' processes by NUMA node
	unseen  []facts.Unseen         // from the start
	probe   *probe.Probe           // nil: counters only
	spaces  map[uint32]string      // watched namespaces by inode
}

// Start takes the first reading.
func Start(ctx context.Context, t *tree.Tree, h *facts.Host, o Options) *Watch {
	if len(o.Netns) == 0 {
		o.Netns = []string{""}
	}
	w := &Watch{tree: t, h: h, o: o}
	if t.Live() {
		if !o.Counters {
			w.startProbe() // before the interval: loading takes time
		}
		w.readMemory()
		inside := w.readGuests(ctx)
		w.addCost(func() {
			w.cgroups = findCPUGroups(t)
			w.last = w.look(nil, w.allowed(o.Interval)*3/5)
			if w.probe != nil {
				w.probe.Take() // discard what it counted until now
				w.probe.Follow(w.threadsToFollow(nil))
			}
		})
		w.last.guests = inside
	}
	return w
}

// Close stops the probe.
func (w *Watch) Close() error {
	if w.probe == nil {
		return nil
	}
	return w.probe.Close()
}

// allowed returns the CPU time that watching may take within an interval.
func (w *Watch) allowed(interval time.Duration) time.Duration {
	if interval <= 0 {
		interval = time.Second
	}
	return time.Duration(threads.Budget * float64(interval))
}

// Next returns the load between the last reading and one after an interval, or when the context ends.
func (w *Watch) Next(ctx context.Context, interval time.Duration) *facts.Load {
	if interval <= 0 {
		interval = time.Second
	}
	if !w.tree.Live() {
		l := w.between(fullLook{}, fullLook{})
		l.Unseen = []facts.Unseen{{What: "what the stages of the path do", Why: "a recorded tree stands still"}}
		return l
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Until(w.last.at.Add(interval))):
	}
	var l *facts.Load
	w.addCost(func() {
		now := w.look(&w.last, w.allowed(interval))
		l = w.between(w.last, now)
		w.addOwners(l, w.last, now, w.allowed(interval))
		w.addReceivers(l, now)
		if w.probe != nil {
			w.cost += w.takeProbe(l, now)
		}
		now.guests = w.readGuests(context.WithoutCancel(ctx)) // even if the interval was ended early
		w.guestsBetween(w.last.guests, now.guests, l)
		w.last = now
		if w.probe != nil {
			w.probe.Follow(w.threadsToFollow(l.Threads))
		}
	})
	l.CostMS = float64(w.cost) / float64(time.Millisecond)
	w.cost = 0
	return l
}

// addCost adds the CPU time of f's thread to the cost. Other threads of the process may be busy meanwhile, for instance
// generating packets.
func (w *Watch) addCost(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begun := probe.ThreadTime()
	f()
	w.cost += probe.ThreadTime() - begun
}

// fullLook is one reading of the counters of every stage.
type fullLook struct {
	at      time.Time // when the devices' counters were read
	times   map[int]cpu.Times
	softnet []facts.Softnet
	irqs    map[string]irq.Counts
	spaces  map[string]spaceLook // by the namespace's name
	threads threads.Look
	ran     time.Time // when threads were read
	groups  map[string]groupLook
	kvm     map[int]kvmLook // by QEMU's process
	guests  map[string]guestLook
	polled  *facts.PolledSwitch
	unseen  []facts.Unseen
}

// look takes one reading. It stops reading threads once they took more CPU time than allowed.
func (w *Watch) look(before *fullLook, allowed time.Duration) fullLook {
	now := fullLook{spaces: map[string]spaceLook{}}
	begun := probe.ThreadTime()
	var earlier *threads.Look
	if before != nil {
		earlier = &before.threads
	}
	now.ran = time.Now()
	now.threads = threads.TakeLook(w.tree, w.h.Topology.Online, w.firstProcesses(), earlier,
		func() bool { return probe.ThreadTime()-begun > allowed })
	now.groups = w.readGroups()
	now.kvm = w.readKVM()
	now.at = time.Now()
	for _, name := range w.o.Netns {
		space, unseen := w.readSpace(name, before)
		now.spaces[name] = space
		now.unseen = append(now.unseen, unseen...)
	}
	missing := func(what string, err error) {
		if err != nil {
			now.unseen = append(now.unseen, facts.Unseen{What: what, Why: err.Error()})
		}
	}
	if o := w.h.OpenVSwitch; o != nil && o.Polled != nil {
		var err error
		now.polled, err = ovs.Polled(w.tree, o.PID)
		missing("polling threads of Open vSwitch", err)
	}
	text, err := w.tree.Read("proc/interrupts")
	missing("interrupts", err)
	now.irqs = irq.ParseCPUCounts(text, w.h.Topology.Online)
	now.times, err = cpu.ReadTimes(w.tree)
	missing("times of the CPUs", err)
	text, err = w.tree.Read("proc/net/softnet_stat")
	if err == nil {
		now.softnet, err = link.ParseSoftnet(text)
	}
	missing("softnet counters", err)
	if text, err := w.tree.Read("proc/softirqs"); err == nil {
		link.AddRounds(now.softnet, text)
	}
	return now
}

// between returns the load between two readings.
func (w *Watch) between(before, after fullLook) *facts.Load {
	seconds := after.at.Sub(before.at).Seconds()
	l := &facts.Load{
		Seconds: seconds, Method: facts.ByCounters,
		CPUs: cpusBetween(before.times, after.times, w.h.Topology.Online), Softnet: facts.SoftnetBetween(before.softnet,
			after.softnet),
		Devices: []facts.DeviceLoad{}, Tracked: []facts.TrackLoad{}, Threads: []facts.ThreadLoad{},
		Profile: []facts.ProfileEntry{}, Drops: []facts.DropSite{},
		Delays: []facts.WakeDelay{}, Locks: []facts.LockWait{}, Guests: []facts.GuestLoad{},
		Polled: facts.PolledBetween(before.polled, after.polled),
		Unseen: tree.OrEmpty(slices.Concat(w.unseen, after.unseen)),
	}
	for _, name := range w.o.Netns {
		a, b := before.spaces[name], after.spaces[name]
		l.Devices = append(l.Devices, w.devicesBetween(name, a, b, irq.CountsBetween(before.irqs, after.irqs,
			w.h.Topology.Online))...)
		addSockets(&l.Sockets, a.sockets, b.sockets)
		l.Local = append(l.Local, facts.LocalLoad{Netns: name,
			Received: facts.Increase(a.sockets.delivered, b.sockets.delivered),
			Sent:     facts.Increase(a.sockets.sent, b.sockets.sent),
			Apart:    (a.took + b.took).Seconds()})
		l.Tracked = append(l.Tracked, trackedBetween(name, a.tracked, b.tracked)...)
		l.Stack = append(l.Stack, stackBetween(name, a.stack, b.stack)...)
	}
	w.threadsBetween(before, after, l)
	if left := max(before.threads.Left, after.threads.Left); left > 0 {
		l.Unseen = append(l.Unseen, facts.Unseen{What: fmt.Sprintf("threads of %d processes", left),
			Why: "there was no time to look at them: watching may take 2 % of a CPU; watch longer"})
	}
	if silent := before.threads.Silent; silent > 0 && silent == len(before.threads.Threads) {
		l.Unseen = append(l.Unseen, facts.Unseen{What: "how long threads ran", Why: "the kernel does not count it " +
			"(no schedstat files: CONFIG_SCHED_INFO)"})
	}
	return l
}
