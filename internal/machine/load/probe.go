package load

import (
	"math"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/probe"
	"mpps/internal/machine/threads"
	"mpps/internal/machine/tree"
	"mpps/internal/machine/trust"
	"mpps/internal/model/facts"
)

// mostFollowed is how many threads have their waits for a CPU timed. If there are more, these are the threads on the
// path and those that were busy in the last interval.
const mostFollowed = 1024

// startProbe starts the probe. It does not sample nohz_full CPUs: sampling would start their tick.
func (w *Watch) startProbe() {
	t := &w.h.Topology
	c := probe.Config{CPUs: t.Online.Minus(t.NohzFull)}
	w.spaces = map[uint32]string{}
	for _, name := range w.o.Netns {
		file := "/proc/self/ns/net"
		if name != "" {
			file = w.spaceFile(name)
		}
		var st unix.Stat_t
		if unix.Stat(file, &st) != nil {
			continue // reading its counters reports the error
		}
		inode := uint32(st.Ino) // nsfs shows ns_common.inum as the inode (fs/nsfs.c)
		w.spaces[inode] = name
		c.Spaces = append(c.Spaces, inode)
	}
	w.probe = probe.Start(c)
}

// threadsToFollow returns the threads whose waits are timed: all, if there are not too many.
func (w *Watch) threadsToFollow(busy []facts.ThreadLoad) []int {
	var all []int
	seen := w.last.threads.Threads
	if len(seen) <= mostFollowed {
		for _, t := range seen {
			all = append(all, t.TID)
		}
		return all
	}
	for i := range w.h.Guests {
		for _, t := range w.h.Guests[i].Threads {
			all = append(all, t.TID)
		}
	}
	for _, t := range threads.Tasks(w.tree, os.Getpid()) {
		all = append(all, t.TID)
	}
	onPath := func(name string) bool { return roleOf(name) != "other" }
	for _, t := range trust.KernelThreads(w.tree, trust.Processes(w.tree), onPath) {
		all = append(all, t.TID)
	}
	for _, t := range busy {
		all = append(all, t.TID)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(len(all), mostFollowed)]
}

// takeProbe adds the probe's results to the load, and returns its CPU time.
func (w *Watch) takeProbe(l *facts.Load, now fullLook) time.Duration {
	s := w.probe.Take()
	l.Profile, l.Locks = tree.OrEmpty(s.Profile), tree.OrEmpty(s.Locks)
	if s.Traced {
		l.Method = facts.ByTracepoints
	}
	counters := 1.0 // how much longer the counters were watched than the tracepoint
	if s.Seconds > 0 && l.Seconds > 0 {
		counters = l.Seconds / s.Seconds
	}
	for _, d := range s.Drops {
		name, watched := w.spaces[d.Inode]
		if !watched {
			continue
		}
		d.DropSite.Netns, d.DropSite.Packets = name, uint64(math.Round(float64(d.DropSite.Packets)*counters))
		if device, known := now.spaces[name].devices[d.Ifindex]; known {
			d.Device = device.name
		}
		l.Drops = append(l.Drops, d.DropSite)
	}
	listed := map[int]bool{}
	for _, t := range l.Threads {
		listed[t.TID] = true
	}
	for _, d := range s.Delays {
		if listed[d.TID] {
			l.Delays = append(l.Delays, d)
		}
	}
	l.Unseen = append(l.Unseen, s.Unseen...)
	if left := w.h.Topology.Online.And(w.h.Topology.NohzFull); len(left) > 0 && len(l.Profile) > 0 {
		l.Unseen = append(l.Unseen, facts.Unseen{What: "where CPUs " + left.String() +
			" spend their time in the kernel", Why: "they run without a tick, and sampling would give them one"})
	}
	return s.Cost
}
