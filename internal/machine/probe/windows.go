package probe

import (
	"time"

	"github.com/cilium/ebpf/link"
)

// What one run of a program on a tracepoint takes at most. Where they would take more of the busiest CPU's time than
// their share, one event of some is counted for all, and where that is not enough they are attached for windows only,
// and what they count is scaled up. To attach and to detach interrupts all CPUs (arch/x86/kernel/alternative.c,
// text_poke_sync), so that windows are few.
const (
	runCost  = 150 * time.Nanosecond
	thinCost = 50 * time.Nanosecond // of one that is not counted, with its part of one that is
	turnCost = 5 * time.Millisecond // to attach a group and detach it again
	thinned  = 16
	shortest = 20 * time.Millisecond
	longest  = 2 * time.Second // of pauses
)

// window is when a group of programs is attached.
type window struct {
	names []string
	runs  func(probeRan) uint64
	begin func() error          // called when they are attached
	share float64               // of a CPU's time
	thin  func(of uint32) error // has one of so many counted, for all; nil: all are counted

	links []link.Link
	since time.Time     // attached, or detached
	pause time.Duration // until they are attached again
	last  []probeRan    // when that was counted last
	held  time.Duration // attached, since the last taking
	spent time.Duration // by the programs, on all CPUs, since then
	// of the time since they were attached
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

// look counts how often the programs ran, and attaches or detaches them as that asks.
func (w *window) look(p *programs, now time.Time) {
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
	w.judge(now)
}

// count adds what the programs did, and how long they were attached, since they were counted last.
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
		w.spent += time.Duration(n) * cost
	}
	w.last, w.held, w.window = counts, w.held+passed, w.window+passed
	w.busiest += time.Duration(most) * cost
}

// judge thins the programs out, or detaches them, where they take more than their share.
func (w *window) judge(now time.Time) {
	pause := pauseAfter(w.window, w.busiest, w.share)
	switch {
	case pause > 0 && w.thin != nil && !w.thinned:
		w.thinned, w.since, w.window, w.busiest = true, now, 0, 0 // else the time until now would be counted again
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
	if w.window > time.Second { // what was an hour ago tells nothing of now
		w.since, w.window, w.busiest = now, 0, 0
	}
}

// pauseAfter is how long programs stay detached that took some time of the busiest CPU within a window; none where that
// was no more than their share.
func pauseAfter(window, busiest time.Duration, share float64) time.Duration {
	// the last: to detach would cost more
	if window < shortest/2 || float64(busiest) <= share*float64(window) || busiest < turnCost/4 {
		return 0
	}
	return min(time.Duration(float64(busiest+turnCost)/share)-window, longest)
}

// scale is by what counts are multiplied that were taken within an interval.
func (w *window) scale(interval time.Duration) float64 {
	if w.held <= 0 || w.held >= interval {
		return 1
	}
	return float64(interval) / float64(w.held)
}
