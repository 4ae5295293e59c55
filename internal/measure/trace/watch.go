package trace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"mpps/internal/advise/queuepath"
	"mpps/internal/model/facts"
	"mpps/internal/thread"
)

// Config describes what to watch, and how long.
type Config struct {
	Netns       string        // name below /run/netns; empty: that of this process
	For         time.Duration // how long, at most an hour
	EveryPacket bool          // watch all the time instead of in windows
	Host        *facts.Host   // what is known of the machine; may be nil
	Progress    func(done time.Duration)

	rows      uint32  // size of the table of rows; 0: the program's default
	waitShare float64 // share of a CPU for programs that watch waits, up to which they stay attached; 0: half of share
	// For tests: a failure to read the kernel's BTF, and a callback when everything is loaded and watching starts.
	btf   error
	begun func()
}

// Normally packets are watched in windows: a program on a tracepoint costs each packet some 50 ns, and counting costs
// as much again. share is how much of the busiest CPU's time watching may take in total. If watching all the time costs
// less, the windows follow each other without pauses; the busier the path, the shorter the windows and the longer the
// pauses. Each window starts with a lead in which packets are remembered but not counted, so that packets already in
// flight do not look as if they came from nowhere. A few long windows are better than many short ones: attaching and
// detaching interrupt all CPUs, even those reserved for guests (arch/x86/kernel/alternative.c, text_poke_sync).
const (
	share    = 0.01
	cycle    = 250 * time.Millisecond // from window to window, unless shortest requires more
	shortest = 10 * time.Millisecond  // thousands of packets at relevant rates
	lead     = time.Millisecond
	longest  = 10 * time.Second // longest pause
)

// eventCost is the most that one run of the program costs, if the kernel does not measure it.
const eventCost = 300 * time.Nanosecond

// Watch watches the queues for a time, or until ctx ends, and returns what it saw. If the kernel lacks something it
// needs, it falls back to the devices' counters and lists in Unseen what could not be seen.
func Watch(ctx context.Context, c Config) (*queuepath.Observation, error) {
	if c.For <= 0 || c.For > time.Hour {
		return nil, fmt.Errorf("watch for %v: expected more than nothing and at most an hour", c.For)
	}
	ns, err := openNamespace(c.Netns)
	if err != nil {
		return nil, err
	}
	v := newInventory(ns, c.Host)
	if err := v.refresh(); err != nil {
		return nil, privileged(err)
	}
	p, err := load(ns, c)
	if refused := privileged(err); refused != err {
		return nil, refused
	}
	if err != nil {
		return observeCounters(ctx, c, v, err)
	}
	w := &watcher{Config: c, program: p, inventory: v}
	err = w.run(ctx)
	var o *queuepath.Observation
	if err == nil {
		o, err = w.observation()
	}
	return o, errors.Join(err, p.close())
}

// privileged turns a refusal for want of privilege into a PrivilegeError. Root is refused for other reasons, such as
// lockdown.
func privileged(err error) error {
	if os.Geteuid() != 0 && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)) {
		return &PrivilegeError{err}
	}
	return err
}

// PrivilegeError means that watching needs root.
type PrivilegeError struct{ Err error }

func (e *PrivilegeError) Error() string { return "cannot watch packets' queues: " + e.Err.Error() }
func (e *PrivilegeError) Unwrap() error { return e.Err }

// Hint returns what to do about it.
func (e *PrivilegeError) Hint() string {
	return "run as root: eBPF programs on tracepoints need CAP_BPF and CAP_PERFMON, other namespaces CAP_SYS_ADMIN"
}

// watcher is one watch.
type watcher struct {
	Config
	*program
	*inventory
	began   time.Time
	passed  time.Duration // length of the whole interval
	watched time.Duration // part of it in which packets were counted
	tallies []watchTally
	unknown uint64
}

func (w *watcher) run(ctx context.Context) error {
	if err := w.setDevices(w.inventory); err != nil {
		return err
	}
	if w.begun != nil {
		w.begun()
	}
	w.began = time.Now()
	var err error
	if w.EveryPacket {
		err = w.always(ctx)
	} else {
		err = withPriority(func() error { return w.windows(ctx) })
	}
	w.passed = time.Since(w.began)
	return err
}

// withPriority calls f on a thread of the highest nice priority, so that windows end on time on a machine with more
// work than CPUs. The thread sleeps nearly all of the time. It ends with f.
func withPriority(f func() error) error {
	return thread.Do(func() error {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, -20) // of the calling thread; without it windows may take longer
		return f()
	})
}

// doze sleeps on the calling thread: it wakes by itself, without depending on the runtime's other threads.
func doze(d time.Duration) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		time.Sleep(d)
		return
	}
	until := unix.NsecToTimespec(now.Nano() + d.Nanoseconds())
	for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &until, nil) == unix.EINTR {
	}
}

// always counts every packet until the end.
func (w *watcher) always(ctx context.Context) error {
	if err := w.attach(); err != nil {
		return err
	}
	if err := w.stage(stageCounts); err != nil {
		return err
	}
	counts := time.Now()
	for w.left() > 0 && ctx.Err() == nil {
		sleep(ctx, min(w.left(), 200*time.Millisecond))
		w.progress()
		if err := w.newDevices(); err != nil {
			return err
		}
	}
	err := w.stage(stageOff)
	w.watched = time.Since(counts)
	_, errDetach := w.detach()
	return errors.Join(err, errDetach)
}

// windows counts every packet in short windows. The pause after a window depends on its cost and is randomised, so that
// windows do not fall into step with the traffic.
func (w *watcher) windows(ctx context.Context) error {
	r := rhythm{length: shortest}
	cost := eventCost
	measured := false
	read := time.Now()
	for first := true; (first || w.left() > 0) && ctx.Err() == nil; first = false {
		var stats io.Closer
		if !measured { // Linux 5.8; otherwise eventCost applies
			stats, _ = ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME)) // Linux 5.8; without, eventCost stands
		}
		held, err := w.window(r.length)
		if stats != nil {
			if c, enough := w.measure(); enough {
				cost, measured = c, true
			}
			err = errors.Join(err, stats.Close())
		}
		if err != nil {
			return err
		}
		_, busiest, now, err := w.tally(w.tallies)
		if err != nil {
			return err
		}
		w.tallies = now
		if err := w.limitWaits(time.Duration(busiest.waits)*cost, time.Since(read)); err != nil {
			return err
		}
		read = time.Now()
		if err := w.newDevices(); err != nil {
			return err
		}
		w.progress()
		pause := r.next(held, time.Duration(busiest.all)*cost+w.patching, rand.Float64())
		sleep(ctx, min(w.left(), pause))
	}
	return nil
}

// window attaches, counts for a while and detaches. held is how long packets paid for it.
func (w *watcher) window(length time.Duration) (held time.Duration, err error) {
	if err := w.attach(); err != nil {
		return 0, err
	}
	doze(lead)
	if err := w.stage(stageCounts); err != nil {
		return 0, err
	}
	counts := time.Now()
	doze(min(length, max(w.left(), shortest/2)))
	err = w.stage(stageOff)
	w.watched += time.Since(counts)
	held, errDetach := w.detach()
	return held, errors.Join(err, errDetach)
}

// limitWaits restricts the watching of waits to windows if it costs more than its share while always attached: its
// programs run for every contended lock in the kernel. Otherwise they stay attached, because attaching costs more than
// they do.
func (w *watcher) limitWaits(spent, passed time.Duration) error {
	if w.noWaits != nil || w.sparing || float64(spent) <= cmp.Or(w.waitShare, share/2)*float64(passed) {
		return nil
	}
	return w.detachBetweenWindows()
}

// rhythm decides about windows and pauses.
type rhythm struct {
	length time.Duration // of the next window
	part   float64       // share of the busiest CPU that watching all the time would take
}

// next sets the length of the next window and returns the pause before it, such that watching takes its share of the
// busiest CPU. In the last window, packets paid for the time held, and watching spent a time on that CPU. A window that
// ended late is made up for. A window without packets may be an accident: the next one is at most twice as long, and
// the last busy one still counts for half. chance in [0, 1) varies the pause by up to a quarter.
func (r *rhythm) next(held, spent time.Duration, chance float64) (pause time.Duration) {
	now := float64(spent) / float64(held)
	r.part = max(now, r.part/2)
	twice := 2 * r.length
	r.length = cycle
	if r.part > share {
		r.length = max(time.Duration(share/r.part*float64(cycle)), shortest)
	}
	r.length = min(r.length, twice)
	pause = time.Duration((float64(spent)/share - float64(held)) * (0.75 + chance/2))
	return min(max(pause, 0), longest)
}

// measure returns the cost of one run by the kernel's own statistics, which overestimate it, and whether there were
// enough runs. The programs for waits cost less but are assumed to cost as much.
func (w *watcher) measure() (cost time.Duration, enough bool) {
	var ns time.Duration
	var runs uint64
	for _, name := range []string{watchProgReceived, watchProgTransmitted} {
		s, err := w.coll.Programs[name].Stats()
		if err != nil {
			return 0, false
		}
		ns += s.Runtime
		runs += s.RunCount
	}
	return ns / time.Duration(max(runs, 1)), runs >= 100
}

func (w *watcher) left() time.Duration { return w.For - time.Since(w.began) }

func (w *watcher) progress() {
	if w.Progress != nil {
		w.Progress(min(time.Since(w.began), w.For))
	}
}

// newDevices refreshes the devices if packets were seen on an unknown one.
func (w *watcher) newDevices() error {
	sum, _, _, err := w.tally(nil)
	if err != nil {
		return err
	}
	if sum.Unknown == w.unknown {
		return nil
	}
	w.unknown = sum.Unknown
	if err := w.refresh(); err != nil {
		return err
	}
	return w.setDevices(w.inventory)
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
