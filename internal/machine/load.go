package machine

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"mpps/internal/machine/cpu"
	"mpps/internal/machine/irq"
	"mpps/internal/machine/libvirt"
	"mpps/internal/machine/link"
	"mpps/internal/machine/probe"
	"mpps/internal/machine/threads"
	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// LoadOptions say what Load watches.
type LoadOptions struct {
	Interval time.Duration // how long; nothing: a second
	// Netns are the network namespaces whose devices and sockets are watched, by their names below /run/netns; the
	// empty name is that of this process. None: only that.
	Netns []string
	// Counters has nothing loaded into the kernel: two looks at counters, no profile and no tracepoints.
	Counters bool
	// Inside has the agents of guests asked at both looks: of the one that LookInside names, or of all that run, at
	// most four. It takes some starts of virsh each.
	Inside bool
}

// Load watches every stage of the packet path for a while: two looks at the kernel's counters, with a profile and
// tracepoints between where the kernel gives them. The host says which devices and threads are whose. It ends early
// with what it has when the context ends. A recorded tree stands still: what it cannot show is said in Unseen.
func (m *Machine) Load(ctx context.Context, h *facts.Host, o LoadOptions) *facts.Load {
	w := m.WatchLoad(ctx, h, o)
	l := w.Next(ctx, o.Interval)
	if err := w.Close(); err != nil {
		l.Unseen = append(l.Unseen, facts.Unseen{What: "the end of the probe", Why: err.Error()})
	}
	return l
}

// LoadWatch watches the stages of the packet path from one look to the next.
type LoadWatch struct {
	m    *Machine
	h    *facts.Host
	o    LoadOptions
	last loadLook
	cost time.Duration // of watching since the last answer

	cgroups cpuGroups
	nodes   map[int]map[int]uint64 // memory of guests' processes by NUMA node
	unseen  []facts.Unseen         // from the beginning
	agents  libvirt.Agents         // nil: libvirt's
	probe   *probe.Probe           // nil: counters only
	spaces  map[uint32]string      // watched namespaces by inode
}

// WatchLoad takes the first look.
func (m *Machine) WatchLoad(ctx context.Context, h *facts.Host, o LoadOptions) *LoadWatch {
	return m.watchLoad(ctx, h, o, nil)
}

// watchLoad asks other agents than libvirt's where there are any.
func (m *Machine) watchLoad(ctx context.Context, h *facts.Host, o LoadOptions, a libvirt.Agents) *LoadWatch {
	if len(o.Netns) == 0 {
		o.Netns = []string{""}
	}
	w := &LoadWatch{m: m, h: h, o: o, agents: a}
	if m.Live() {
		if !o.Counters {
			w.startProbe() // what it takes to load it is not within the interval
		}
		w.memory()
		inside := w.guests(ctx)
		w.timed(func() {
			w.cgroups = m.findCPUGroups()
			w.last = w.look(nil, w.allowed(o.Interval)*3/5)
			if w.probe != nil {
				w.probe.Take() // from here on it counts
				w.probe.Follow(w.followed(nil))
			}
		})
		w.last.guests = inside
	}
	return w
}

// Close lets go of what the watch holds.
func (w *LoadWatch) Close() error {
	if w.probe == nil {
		return nil
	}
	return w.probe.Close()
}

// allowed is how much CPU time watching may take within an interval.
func (w *LoadWatch) allowed(interval time.Duration) time.Duration {
	if interval <= 0 {
		interval = time.Second
	}
	return time.Duration(threads.Budget * float64(interval))
}

// Next is what was between the last look and one after an interval, or when the context ends.
func (w *LoadWatch) Next(ctx context.Context, interval time.Duration) *facts.Load {
	if interval <= 0 {
		interval = time.Second
	}
	if !w.m.Live() {
		l := w.between(loadLook{}, loadLook{})
		l.Unseen = []facts.Unseen{{What: "what the stages of the path do", Why: "a recorded tree stands still"}}
		return l
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Until(w.last.at.Add(interval))):
	}
	var l *facts.Load
	w.timed(func() {
		now := w.look(&w.last, w.allowed(interval))
		l = w.between(w.last, now)
		if w.probe != nil {
			w.cost += w.takeProbe(l, now)
		}
		now.guests = w.guests(context.WithoutCancel(ctx)) // also of an interval that was ended early
		w.guestsBetween(w.last.guests, now.guests, l)
		w.last = now
		if w.probe != nil {
			w.probe.Follow(w.followed(l.Threads))
		}
	})
	l.CostMS = float64(w.cost) / float64(time.Millisecond)
	w.cost = 0
	return l
}

// timed adds the CPU time that f takes on its thread to the cost: the process may have more to do meanwhile, such as to
// make packets.
func (w *LoadWatch) timed(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begun := probe.ThreadTime()
	f()
	w.cost += probe.ThreadTime() - begun
}

// loadLook is one look at the counters of every stage.
type loadLook struct {
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
	unseen  []facts.Unseen
}

// look looks once; threads are given up when they took more CPU time than allowed.
func (w *LoadWatch) look(before *loadLook, allowed time.Duration) loadLook {
	now := loadLook{spaces: map[string]spaceLook{}}
	begun := probe.ThreadTime()
	var earlier *threads.Look
	if before != nil {
		earlier = &before.threads
	}
	now.ran = time.Now()
	now.threads = threads.TakeLook(w.m.Tree, w.h.Topology.Online, w.ours(), earlier,
		func() bool { return probe.ThreadTime()-begun > allowed })
	now.groups = w.groups()
	now.kvm = w.kvms()
	now.at = time.Now()
	for _, name := range w.o.Netns {
		space, unseen := w.space(name)
		now.spaces[name] = space
		now.unseen = append(now.unseen, unseen...)
	}
	missing := func(what string, err error) {
		if err != nil {
			now.unseen = append(now.unseen, facts.Unseen{What: what, Why: err.Error()})
		}
	}
	text, err := w.m.Read("proc/interrupts")
	missing("interrupts", err)
	now.irqs = irq.ParseCPUCounts(text, w.h.Topology.Online)
	now.times, err = cpu.ReadTimes(w.m.Tree)
	missing("times of the CPUs", err)
	text, err = w.m.Read("proc/net/softnet_stat")
	if err == nil {
		now.softnet, err = link.ParseSoftnet(text)
	}
	missing("softnet counters", err)
	return now
}

// between is what happened between two looks.
func (w *LoadWatch) between(before, after loadLook) *facts.Load {
	seconds := after.at.Sub(before.at).Seconds()
	l := &facts.Load{
		Seconds: seconds, Method: facts.ByCounters,
		CPUs: loadOfCPUs(before.times, after.times, w.h.Topology.Online), Softnet: facts.SoftnetBetween(before.softnet,
			after.softnet),
		Devices: []facts.DeviceLoad{}, Tracked: []facts.TrackLoad{}, Threads: []facts.ThreadLoad{},
		Profile: []facts.ProfileEntry{}, Drops: []facts.DropSite{},
		Delays: []facts.WakeDelay{}, Locks: []facts.LockWait{}, Guests: []facts.GuestLoad{},
		Unseen: tree.OrEmpty(slices.Concat(w.unseen, after.unseen)),
	}
	for _, name := range w.o.Netns {
		a, b := before.spaces[name], after.spaces[name]
		l.Devices = append(l.Devices, w.devicesBetween(name, a, b, irq.CountsBetween(before.irqs, after.irqs,
			w.h.Topology.Online))...)
		addSockets(&l.Sockets, a.sockets, b.sockets)
		l.Tracked = append(l.Tracked, trackedBetween(name, a.tracked, b.tracked)...)
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
