package probe

import (
	"time"

	"github.com/cilium/ebpf/link"
)

// The most that one run of a program on a tracepoint costs. If the programs would take more of the busiest CPU's time
// than their share, they count one event in thinned. If that is not enough, they are attached only for windows, and
// their counts are scaled up. Attaching and detaching interrupt all CPUs (arch/x86/kernel/alternative.c,
// text_poke_sync), so there are few windows.
const (
	runCost  = 150 * time.Nanosecond
	thinCost = 50 * time.Nanosecond // the mean when one event in thinned is counted
	turnCost = 5 * time.Millisecond // to attach and detach a group
	thinned  = 16
	shortest = 20 * time.Millisecond
	longest  = 2 * time.Second // of pauses
)

// window attaches and detaches a group of programs.
type window struct {
	names []string
	runs  func(probeRan) uint64
	begin func() error          // called when they are attached
	share float64               // limit, of a CPU's time
	thin  func(of uint32) error // counts one event in of; nil: cannot

	links       []link.Link
	since       time.Time     // attached, or detached
	pause       time.Duration // until they are attached again
	last        []probeRan    // the last counts
	attachedFor time.Duration // attached, since the last Take
	cost        time.Duration // by the programs, on all CPUs, since the last Take
	// since they were attached:
	window  time.Duration
	busiest time.Duration
	thinned bool
	err     error
}

func (w *window) attached() bool { return len(w.links) > 0 }

// open attaches the programs.
func (w *window) open(p *programs, now time.Time) {
	if w.last, w.err = p.runs(); w.err != nil {
		return
	}
	if w.links, w.err = p.attach(w.names...); w.err != nil {
		return
	}
	if w.begin != nil {
		w.err = w.begin()
	}
	w.since, w.window, w.busiest = now, 0, 0
}

// update counts how often the programs ran, and attaches or detaches them as needed.
func (w *window) update(p *programs, now time.Time) {
	switch {
	case w.err != nil:
		return
	case !w.attached():
		if now.Sub(w.since) >= w.pause {
			w.open(p, now)
		}
		return
	}
	counts, err := p.runs()
	if err != nil {
		w.err = err
		return
	}
	w.count(counts, now)
	w.adjust(now)
}

// count adds the programs' runs, and the time that they were attached, since the last count.
func (w *window) count(counts []probeRan, now time.Time) {
	passed := now.Sub(w.since) - w.window
	most, cost := uint64(0), runCost
	if w.thinned {
		cost = thinCost
	}
	for i, c := range counts {
		n := w.runs(c)
		if i < len(w.last) {
			n -= w.runs(w.last[i])
		}
		most = max(most, n)
		w.cost += time.Duration(n) * cost
	}
	w.last, w.attachedFor, w.window = counts, w.attachedFor+passed, w.window+passed
	w.busiest += time.Duration(most) * cost
}

// adjust makes the programs count fewer events, or detaches them, if they take more than their share.
func (w *window) adjust(now time.Time) {
	pause := pauseAfter(w.window, w.busiest, w.share)
	switch {
	case pause > 0 && w.thin != nil && !w.thinned:
		w.thinned, w.since, w.window, w.busiest = true, now, 0, 0 // restart, or this time would be judged again
		w.err = w.thin(thinned)
		return
	case w.thinned && w.window > time.Second &&
		float64(w.busiest)*float64(runCost)/float64(thinCost) < w.share/2*float64(w.window):
		w.thinned = false
		w.err = w.thin(1)
	}
	if pause > 0 {
		w.err = closeAll(w.links)
		w.links, w.since, w.pause = nil, now, pause
		return
	}
	if w.window > time.Second { // judge recent time only
		w.since, w.window, w.busiest = now, 0, 0
	}
}

// pauseAfter returns how long programs that took some time of the busiest CPU within a window stay detached; 0 if that
// was no more than their share, or if detaching would cost more.
func pauseAfter(window, busiest time.Duration, share float64) time.Duration {
	if window < shortest/2 || float64(busiest) <= share*float64(window) || busiest < turnCost/4 {
		return 0
	}
	return min(time.Duration(float64(busiest+turnCost)/share)-window, longest)
}

// scale returns the factor for counts that were taken within an interval.
func (w *window) scale(interval time.Duration) float64 {
	if w.attachedFor <= 0 || w.attachedFor >= interval {
		return 1
	}
	return float64(interval) / float64(w.attachedFor)
}
