package load

import (
	"context"
	"errors"
	"time"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/machine"
	"mpps/internal/model/facts"
	"mpps/internal/ops"
)

// Shares of one CPU that looking may take, as how many times its cost passes until it is done again.
const (
	perLook      = 50  // 2 %
	perInventory = 200 // what there is changes seldom
)

// settledLooks are looks behind which their usual cost is known.
const settledLooks = 5

// longestPause is until when a look is taken however dear it is: the host's watch keeps within 2 % of its interval by
// itself.
const longestPause = 10 * time.Second

// Watch takes looks at a machine.
type Watch struct {
	machine *machine.Machine
	every   time.Duration
	how     machine.LoadOptions

	facts *facts.Host
	watch *machine.LoadWatch
	until time.Time     // when the inventory is taken again
	used  time.Duration // CPU time of the process at the end of the last look
	pause time.Duration // until the next look is due
	taken int
	dear  bool          // tracepoints and a profile cost too much here: counters alone
	usual time.Duration // what a look has cost, the last ones counting most
}

// Begin opens a watch of the machine below the root.
func Begin(env *ops.Env, every time.Duration, netns []string, counters bool) (*Watch, error) {
	m, err := env.Open()
	if err != nil {
		return nil, err
	}
	m.LookInside(ops.NoGuest)
	how := machine.LoadOptions{Netns: append([]string{""}, netns...), Counters: counters}
	return &Watch{machine: m, every: every, how: how}, nil
}

// Next waits for the next look; nil where the context ended before.
func (l *Watch) Next(ctx context.Context) *bottleneck.Look {
	if l.facts == nil {
		l.used, l.pause = machine.UsedTime(), l.every
	}
	if time.Now().After(l.until) {
		l.inventory(ctx)
	}
	load := l.watch.Next(ctx, l.pause)
	if ctx.Err() != nil && !(errors.Is(ctx.Err(), context.DeadlineExceeded) &&
		(l.taken == 0 || load.Seconds >= l.every.Seconds()/2)) {
		return nil // what is left of an interval when --for is over is shown where it says anything
	}
	l.taken++
	look := Look(l.facts, load, time.Now())
	used := machine.UsedTime() // with what drawing the last one took
	cost := used - l.used
	l.used = used
	if l.usual == 0 {
		l.usual = cost
	}
	l.usual += (cost - l.usual) / 4 // one that is dear by chance does not hold up the next
	l.pause = max(l.every, min(l.usual*perLook, longestPause))
	look.CostMS = float64(cost) / float64(time.Millisecond)
	// What tracepoints and a profile cost grows with the interval: to wait longer does not help there.
	if span := time.Duration(load.Seconds * float64(time.Second)); load.Method == facts.ByTracepoints &&
		l.taken >= settledLooks && l.usual*perLook > span*11/10 {
		l.dear = true
		l.Close()
		l.begin(ctx)
	}
	if l.dear {
		look.Unseen = append(look.Unseen, facts.Unseen{What: "reasons of drops, waits for CPUs, where CPU time goes",
			Why: "to see them takes more than 2 % of a CPU here"})
	}
	return look
}

// Look is what a load shows of a host.
func Look(h *facts.Host, l *facts.Load, at time.Time) *bottleneck.Look {
	return &bottleneck.Look{
		Schema: bottleneck.LookSchema, At: at, Host: h.Name, Seconds: l.Seconds, Method: l.Method, CPUs: l.CPUs,
		Stations: bottleneck.Stations(h, l), Diagnosis: bottleneck.Find(h, l), Unseen: l.Unseen,
	}
}

// inventory looks at what there is again: guests come and go.
func (l *Watch) inventory(ctx context.Context) {
	used := machine.UsedTime()
	l.Close()
	l.facts = l.machine.Inventory(ctx)
	machine.Read(ctx, l.machine.Mechanisms(), l.facts, bottleneck.Addresses())
	l.begin(ctx)
	cost := machine.UsedTime() - used
	l.until = time.Now().Add(max(15*time.Second, cost*perInventory))
	l.used += cost // stretched by itself
}

// begin watches from now on.
func (l *Watch) begin(ctx context.Context) {
	how := l.how
	how.Interval, how.Counters = l.pause, how.Counters || l.dear
	l.watch = l.machine.WatchLoad(ctx, l.facts, how)
}

// Stop ends the watch and closes the machine.
func (l *Watch) Stop() error {
	l.Close()
	return l.machine.Close()
}

// Close ends the watch.
func (l *Watch) Close() {
	if l.watch != nil {
		_ = l.watch.Close() // nothing of it is needed any more
	}
}
