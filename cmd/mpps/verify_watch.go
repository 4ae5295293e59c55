package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"mpps/internal/facts"
	"mpps/internal/host"
	"mpps/internal/journal"
	"mpps/internal/realtime"
	"mpps/internal/report"
	"mpps/internal/report/words"
	"mpps/internal/setting"
	verdicts "mpps/internal/watch"
)

// watchFlags are the flags of verify --watch.
type watchFlags struct {
	every, length time.Duration
	metrics, list string
	cpus          setting.CPUSet
	cost          float64 // of one CPU that looks may take, percent: where one is dearer the next one waits
}

func (f *watchFlags) check() error {
	var err error
	if f.cpus, err = setting.ParseCPUs(f.list); err != nil {
		return usage(fmt.Errorf("--cpus: %w", err), "such as --cpus 20-23")
	}
	switch {
	case !(f.cost >= 0.1 && f.cost <= 50):
		return usage(fmt.Errorf("--cost %v: expected 0.1 to 50, percent of one CPU", f.cost), "1 is the usual")
	case f.every < time.Second || f.every > time.Hour:
		return usage(fmt.Errorf("--every %v: expected 1s to 1h", f.every), "30s is the usual")
	case f.length < 0:
		return usage(fmt.Errorf("--for %v: expected a time such as 10m", f.length), "leave it out to watch until the end")
	}
	return nil
}

// pause is how long it is to the next look, where the last one took some CPU time.
func (f *watchFlags) pause(used time.Duration) time.Duration {
	return max(f.every, time.Duration(float64(used)*100/f.cost))
}

// watcher is one run of verify --watch.
type watcher struct {
	*app
	flags   *watchFlags
	machine *host.Machine
	watch   *verdicts.Watcher
	show    *metrics
	facts   *facts.Host    // of the last look
	scope   realtime.Scope // of the last look
	rarer   bool           // it was told that looks are rarer than asked for
}

// watchVerify looks again and again until the context ends or the time is over, and tells what begins and ends.
func (a *app) watchVerify(ctx context.Context, f *watchFlags) (err error) {
	ctx, stop := untilHangup(ctx) // the metrics would stay and be read
	defer stop()
	m, err := host.Open(a.root)
	if err != nil {
		return failed(err, "--root takes a directory that holds proc/ and sys/ of a machine")
	}
	m.LookInside(host.NoGuest)
	w := &watcher{app: a, flags: f, machine: m, watch: verdicts.New()}
	if w.show, err = showMetrics(f.metrics); err != nil {
		return errors.Join(err, m.Close())
	}
	defer func() { err = errors.Join(err, w.show.close(), m.Close()) }()
	var end <-chan time.Time
	if f.length > 0 {
		timer := time.NewTimer(f.length)
		defer timer.Stop()
		end = timer.C
	}
	started := w.guests(ctx)
	w.idle(ctx)
	pause := f.every
	for look := 0; ; look++ {
		seen, over := w.wait(ctx, look, pause, started, end)
		if ctx.Err() != nil { // SIGTERM and SIGINT end a watch as it is meant to end
			return nil
		}
		pause, err = w.look(ctx, look, seen)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if over {
			break
		}
	}
	if len(w.watch.Standing()) > 0 {
		return exit(exitDrifted)
	}
	return nil
}

// guests tells of guests that are started, so that one that has lost its pins is seen at once; nil where that cannot be told.
func (w *watcher) guests(ctx context.Context) <-chan host.Event {
	if !w.machine.Live() {
		return nil
	}
	events, err := w.machine.Events(ctx)
	if err != nil {
		w.out.Step("starts of guests are seen at the next look only: %v", err)
		return nil
	}
	return events
}

// busy is how long the first look waits for another mpps to end: what starts the service is mostly an apply, which is at work still.
const busy = 30 * time.Second

// idle waits until no other mpps is at work, for a time.
func (w *watcher) idle(ctx context.Context) {
	limit := busy
	if w.flags.length > 0 {
		limit = min(limit, w.flags.length/2)
	}
	j, err := journal.Open(w.root)
	if err != nil {
		return // the look tells
	}
	defer j.Close()
	for began := time.Now(); time.Since(began) < limit && ctx.Err() == nil; {
		if holder, err := j.Holder(); err != nil || holder == nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// settled is how long a guest's start is given until it is looked at.
const settled = 3 * time.Second

// wait watches the CPUs until the next look is due: when the pause or the whole time is over, or a moment after a guest was started.
func (w *watcher) wait(ctx context.Context, look int, pause time.Duration, started <-chan host.Event, end <-chan time.Time) (seen *facts.Observation, over bool) {
	if look == 0 {
		return nil, false
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan *facts.Observation, 1)
	go func() {
		if w.machine.Live() && len(w.scope.CPUs) > 0 {
			done <- w.machine.Observe(watching, w.facts, w.scope.CPUs, pause)
			return
		}
		select {
		case <-watching.Done():
		case <-time.After(pause):
		}
		done <- nil
	}()
	for {
		select {
		case o := <-done:
			return o, over
		case <-end:
			over, end = true, nil
			stop()
		case e, open := <-started:
			switch {
			case !open:
				started = nil
			case e.Guest == host.GuestStarted:
				time.AfterFunc(settled, stop)
			}
		}
	}
}

// look looks once, tells what is new, and says how long it is to the next look.
func (w *watcher) look(ctx context.Context, n int, seen *facts.Observation) (time.Duration, error) {
	used, begun := host.UsedTime(), time.Now()
	l := verdicts.Look{Host: w.name(), Saw: map[verdicts.Source]bool{}, Unseen: map[verdicts.Source]string{}}
	w.values(ctx, &l)
	w.realtime(ctx, &l, seen)
	if ctx.Err() != nil {
		return 0, nil
	}
	l.At, l.Took, l.Cost = time.Now(), time.Since(begun), host.UsedTime()-used
	if n == 0 {
		w.out.Step("watching %s and what runs on %s, every %v", counted(l.Values, "applied value"), where(w.scope), w.flags.every)
	}
	if seen != nil {
		l.Cost += time.Duration(seen.CostMS * float64(time.Millisecond))
	}
	l.Pause = w.flags.pause(l.Cost)
	if l.Pause > w.flags.every && !w.rarer {
		w.rarer = true
		w.out.Step("a look takes %v of CPU time here: the next one comes after %v instead of %v, so that looks take %v %% of one CPU at most (--cost)",
			l.Cost.Round(time.Millisecond), l.Pause.Round(time.Second), w.flags.every, w.flags.cost)
	}
	for _, e := range w.watch.Take(l) {
		if err := w.out.Line(e, report.Event(e)); err != nil {
			return 0, err
		}
	}
	return l.Pause, w.show.publish(w.watch.Metrics(version))
}

func where(s realtime.Scope) string {
	if len(s.CPUs) == 0 {
		return "no CPU: none is set aside"
	}
	return fmt.Sprintf("%s (%s)", words.CPUs(s.CPUs), s.From)
}

func (w *watcher) name() string {
	name, _ := w.machine.Identity()
	return name
}

// values looks at what was applied, without the lock. While another mpps is at work they are left out: it is changing them.
func (w *watcher) values(ctx context.Context, l *verdicts.Look) {
	e, err := w.engine(nil)
	if err != nil {
		l.Unseen[verdicts.Values] = err.Error()
		return
	}
	defer e.close()
	e.watchGuests(ctx, w.root)
	e.watchOwners(ctx, w.root)
	e.watchFunctions(ctx, w.root)
	s, err := e.Status(ctx)
	switch {
	case err != nil:
		l.Unseen[verdicts.Values] = err.Error()
		return
	case s.Holder != nil:
		return
	}
	l.Saw[verdicts.Values], l.Values = true, len(s.Rows)
	found, off := verdicts.Rows(s)
	l.Findings, l.Drifted = append(l.Findings, found...), off
	if n := s.Counts["unknown"]; n > 0 && n == len(s.Rows) {
		delete(l.Saw, verdicts.Values)
		l.Unseen[verdicts.Values] = counted(n, "value") + " could not be read"
	}
}

// realtime looks at what says which CPU is for what, at the next boot and at daemons.
func (w *watcher) realtime(ctx context.Context, l *verdicts.Look, seen *facts.Observation) {
	h := w.machine.Inventory(ctx)
	host.Read(ctx, w.machine.Mechanisms(), h, realtime.Addresses(h))
	scope := realtime.Find(h, w.flags.cpus, "")
	l.Aside, l.From = scope.CPUs, scope.From
	if scope.CPUs = w.watch.Aside(scope.CPUs); !scope.CPUs.Equal(l.Aside) {
		scope.From = "set aside at an earlier look"
	}
	w.facts, w.scope = h, scope
	l.State = verdicts.Of(h)
	if len(h.Topology.CPUs) == 0 {
		for _, s := range []verdicts.Source{verdicts.Isolated, verdicts.Boots, verdicts.Services} {
			l.Unseen[s] = "not one CPU was found"
		}
		return
	}
	l.Saw[verdicts.Services], l.Saw[verdicts.Isolated] = true, true
	if _, known := h.Boot.NextEntry(); known {
		l.Saw[verdicts.Boots] = true
	} else if h.Boot != nil {
		l.Unseen[verdicts.Boots] = h.Boot.Why
	}
	l.Findings = append(l.Findings, verdicts.Boot(h)...)
	if len(scope.CPUs) == 0 {
		return
	}
	if seen != nil && seen.Seconds > 0 {
		l.Saw[verdicts.Observed] = true
		why := ""
		if len(seen.Times) == 0 && len(seen.Threads) == 0 {
			why = "neither threads nor times could be seen"
		}
		for _, u := range seen.Unseen { // what was seen counts; what was not may have been anything
			why = strings.TrimPrefix(why+"; "+u.What+": "+u.Why, "; ")
		}
		if why != "" {
			delete(l.Saw, verdicts.Observed)
			l.Unseen[verdicts.Observed] = why
		}
	} else {
		seen = nil
	}
	l.Findings = append(l.Findings, verdicts.Realtime(realtime.Check(h, seen, scope))...)
}
