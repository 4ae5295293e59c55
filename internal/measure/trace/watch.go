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

// Config says what is watched, and how long.
type Config struct {
	Netns       string        // name below /run/netns; empty: that of this process
	For         time.Duration // how long, at most an hour
	EveryPacket bool          // watch all the time instead of in windows
	Host        *facts.Host   // what is known of the machine; may be nil
	Progress    func(done time.Duration)

	rows      uint32  // room for so many; 0: as many as the program asks for
	waitShare float64 // what programs that see waits may take of a CPU to stay attached; 0: half of share
	// For tests: why the kernel's BTF is not to be had, and what is done when all is loaded and watching begins.
	btf   error
	begun func()
}

// The usual way is to look in windows: a tracepoint with a program costs every packet some 50 ns, and counting it as
// much again. share is how much of the busiest CPU's time watching may take, windows and all. Where all of the time
// costs less than that, the windows follow on each other; the busier the path, the shorter they are, and the longer the
// pauses. Each begins with a lead in which packets' ways are remembered but not counted, so that what was already on
// its way is not taken for packets without one. Few long ones are better than many short ones: to attach and to detach
// interrupts all CPUs, also those that are kept for guests (arch/x86/kernel/alternative.c, text_poke_sync).
const (
	share    = 0.01
	cycle    = 250 * time.Millisecond // from window to window, unless shortest needs more
	shortest = 10 * time.Millisecond  // thousands of packets at the rates where it matters
	lead     = time.Millisecond
	longest  = 10 * time.Second // of pauses
)

// eventCost is what one run of the program costs at most where the kernel does not measure it.
const eventCost = 300 * time.Nanosecond

// Watch watches the queues for a time, or until ctx ends, and tells what it saw. Without what it needs of the kernel it
// tells devices' queues from their counters, and in Unseen what could not be seen.
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
		return counted(ctx, c, v, err)
	}
	w := &watcher{Config: c, program: p, inventory: v}
	err = w.run(ctx)
	var o *queuepath.Observation
	if err == nil {
		o, err = w.observation()
	}
	return o, errors.Join(err, p.close())
}

// privileged makes a refusal for want of privilege a PrivilegeError. Root is refused for other reasons, such as
// lockdown.
func privileged(err error) error {
	if os.Geteuid() != 0 && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)) {
		return &PrivilegeError{err}
	}
	return err
}

// PrivilegeError says that watching needs root.
type PrivilegeError struct{ Err error }

func (e *PrivilegeError) Error() string { return "cannot watch packets' queues: " + e.Err.Error() }
func (e *PrivilegeError) Unwrap() error { return e.Err }

// Hint is what to do about it.
func (e *PrivilegeError) Hint() string {
	return "run as root: eBPF programs on tracepoints need CAP_BPF and CAP_PERFMON, other namespaces CAP_SYS_ADMIN"
}

// watcher watches once.
type watcher struct {
	Config
	*program
	*inventory
	began   time.Time
	passed  time.Duration // of the whole interval
	watched time.Duration // of which packets were counted
	tallies []watchTally
	unknown uint64
}

func (w *watcher) run(ctx context.Context) error {
	if err := w.know(w.inventory); err != nil {
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
		err = inTime(func() error { return w.windows(ctx) })
	}
	w.passed = time.Since(w.began)
	return err
}

// inTime calls f on a thread that goes before others, so that windows end when they should on a machine that has more
// to do than CPUs. It sleeps nearly all of the time. The thread ends with f.
func inTime(f func() error) error {
	return thread.Do(func() error {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, -20) // of the calling thread; without it windows may last longer
		return f()
	})
}

// doze sleeps on the calling thread, which wakes up by itself and not when the runtime's other threads get to it.
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

// windows counts every packet in short windows. How far they are apart follows from what the last one cost, with a
// distance that varies, so that no rhythm of the traffic falls in step with them.
func (w *watcher) windows(ctx context.Context) error {
	r := rhythm{length: shortest}
	cost := eventCost
	measured := false
	read := time.Now()
	for first := true; (first || w.left() > 0) && ctx.Err() == nil; first = false {
		var stats io.Closer
		if !measured {
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
		if err := w.spareWaits(time.Duration(busiest.waits)*cost, time.Since(read)); err != nil {
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

// window attaches, counts for a while and detaches again. held is how long packets paid for it.
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

// spareWaits has waits for locks seen in windows only, where to be attached all the time for them takes more than its
// part: programs run for each lock that anybody in the kernel waits for. Otherwise they stay attached, since to attach
// them costs more than they do.
func (w *watcher) spareWaits(spent, passed time.Duration) error {
	if w.noWaits != nil || w.sparing || float64(spent) <= cmp.Or(w.waitShare, share/2)*float64(passed) {
		return nil
	}
	return w.spare()
}

// rhythm is how windows and pauses follow each other.
type rhythm struct {
	length time.Duration // of the next window
	part   float64       // of the busiest CPU's time that watching all the time would take
}

// next sets the next window's length and tells the pause before it, after a window that packets paid for during held,
// which took a time that was spent on the busiest CPU, so that all together takes its share of it. A window that ended
// late is made up for. A window without packets may have been an accident: the next is at most twice as long, and a
// busy one is half remembered. chance in [0, 1) varies the pause by a quarter up or down.
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

// measure takes what one run costs from the kernel's own statistics, which overstate it. enough reports whether there
// were enough. The programs that see waits for locks cost less, and are taken to cost as much.
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

// newDevices looks for devices that came meanwhile, where packets were seen on one that was not known.
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
	return w.know(w.inventory)
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
