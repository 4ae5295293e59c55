// Package load measures what the stages of the packet path do, once or repeatedly.
package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/machine"
	"mpps/internal/machine/load"
	"mpps/internal/model/facts"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// Read reads a snapshot that includes a load.
func Read(file string) (*facts.Host, error) {
	h, err := ops.ReadSnapshot(file)
	if err == nil && h.Load == nil {
		err = outcome.Failed(fmt.Errorf("%s holds a host, but not what its stages did", file),
			"make one with 'mpps diagnose -o FILE' while traffic runs")
	}
	return h, err
}

// Options select what is watched.
type Options struct {
	Interval time.Duration
	Guest    string   // the guest to judge; empty: none
	Netns    []string // network namespaces besides that of the process
	Counters bool     // only counters: load nothing into the kernel
}

// Watch watches the path for an interval and returns the host with its load.
func Watch(ctx context.Context, env *ops.Env, o Options) (*facts.Host, error) {
	m, err := env.Open()
	if err != nil {
		return nil, err
	}
	m.Inside.Select(o.Guest)
	h := m.Inventory(ctx)
	if err := cmp.Or(ops.Complete(ctx), ops.CheckGuest(h, o.Guest)); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	machine.Read(ctx, m.Within(ctx).Mechanisms(), h, bottleneck.Addresses())
	done := env.Countdown("watching the path", o.Interval)
	defer done()
	h.Load = load.Observe(ctx, m.Tree, h, load.Options{Interval: o.Interval, Netns: watched(h, o.Guest, o.Netns),
		Counters: o.Counters, Inside: m.Inside})
	return h, m.Close()
}

// watched returns the network namespaces to watch: the process's, those asked for, and those that guests' packets pass.
func watched(h *facts.Host, guest string, asked []string) []string {
	all := append([]string{""}, asked...)
	for _, name := range load.Spaces(h, guest) {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// Caveats returns warnings that qualify a load.
func Caveats(h *facts.Host, l *facts.Load) []outcome.Warning {
	warnings := ops.AccessWarnings(h)
	for _, u := range l.Unseen {
		warnings = append(warnings, outcome.Warning{Code: "unseen", Text: u.What + ": " + u.Why})
	}
	return warnings
}

// Pauses after a look and after an inventory, in multiples of the CPU time that it took.
const (
	pausePerCost     = 50  // at most 2 % of one CPU
	inventoryPerCost = 200 // 0.5 %: devices and guests change seldom
)

// settledLooks is the number of looks after which their usual cost is known.
const settledLooks = 5

// longestPause bounds the pause however expensive a look is: the host's watch itself keeps within 2 % of its interval.
const longestPause = 10 * time.Second

// Watcher looks at a machine repeatedly.
type Watcher struct {
	machine *machine.Machine
	every   time.Duration
	how     load.Options

	facts *facts.Host
	watch *load.Watch
	until time.Time     // when the next inventory is due
	used  time.Duration // CPU time of the process at the end of the last look
	pause time.Duration // until the next look is due
	taken int           // looks
	dear  bool          // tracepoints and a profile cost too much here: only counters
	usual time.Duration // moving average of the CPU time of a look
}

// Start opens a watcher of the machine below the root.
func Start(env *ops.Env, every time.Duration, netns []string, counters bool) (*Watcher, error) {
	m, err := env.Open()
	if err != nil {
		return nil, err
	}
	m.Inside.Select(ops.NoGuest)
	how := load.Options{Netns: netns, Counters: counters}
	return &Watcher{machine: m, every: every, how: how}, nil
}

// Next waits for the next look and returns it; nil if the context ended before.
func (l *Watcher) Next(ctx context.Context) *bottleneck.Look {
	if l.facts == nil {
		l.used, l.pause = machine.UsedTime(), l.every
	}
	if time.Now().After(l.until) {
		l.readInventory(ctx)
	}
	load := l.watch.Next(ctx, l.pause)
	if ctx.Err() != nil && !(errors.Is(ctx.Err(), context.DeadlineExceeded) &&
		(l.taken == 0 || load.Seconds >= l.every.Seconds()/2)) {
		return nil // at the end of --for, an interval that was cut short counts if it is long enough to say anything
	}
	l.taken++
	look := Look(l.facts, load, time.Now())
	used := machine.UsedTime() // including the drawing of the last look
	cost := used - l.used
	l.used = used
	l.usual = cmp.Or(l.usual, cost)
	l.usual += (cost - l.usual) / 4 // a look that is expensive by chance does not delay the next
	l.pause = max(l.every, min(l.usual*pausePerCost, longestPause))
	look.CostMS = float64(cost) / float64(time.Millisecond)
	// The cost of tracepoints and of a profile grows with the interval: waiting longer does not help.
	if span := time.Duration(load.Seconds * float64(time.Second)); load.Method == facts.ByTracepoints &&
		l.taken >= settledLooks && l.usual*pausePerCost > span*11/10 {
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

// Look returns a host's stations and diagnosis from a load.
func Look(h *facts.Host, l *facts.Load, at time.Time) *bottleneck.Look {
	return &bottleneck.Look{
		Schema: bottleneck.LookSchema, At: at, Host: h.Name, Seconds: l.Seconds, Method: l.Method, CPUs: l.CPUs,
		Stations: bottleneck.Stations(h, l), Diagnosis: bottleneck.Find(h, l), Unseen: l.Unseen,
	}
}

// readInventory reads the inventory again: guests come and go.
func (l *Watcher) readInventory(ctx context.Context) {
	used := machine.UsedTime()
	l.Close()
	l.facts = l.machine.Inventory(ctx)
	machine.Read(ctx, l.machine.Within(ctx).Mechanisms(), l.facts, bottleneck.Addresses())
	l.begin(ctx)
	cost := machine.UsedTime() - used
	l.until = time.Now().Add(max(15*time.Second, cost*inventoryPerCost))
	l.used += cost // not part of a look's cost: it has its own pause
}

// begin starts watching the load.
func (l *Watcher) begin(ctx context.Context) {
	how := l.how
	how.Interval, how.Counters = l.pause, how.Counters || l.dear
	how.Netns = watched(l.facts, "", how.Netns)
	l.watch = load.Start(ctx, l.machine.Tree, l.facts, how)
}

// Stop ends the watch and closes the machine.
func (l *Watcher) Stop() error {
	l.Close()
	return l.machine.Close()
}

// Close ends the watch.
func (l *Watcher) Close() {
	if l.watch != nil {
		_ = l.watch.Close() // no longer needed
	}
}
