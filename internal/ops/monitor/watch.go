// Package monitor implements the verbs that watch a host: 'mpps verify --watch' and 'mpps realtime check'.
package monitor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/advise/realtime"
	"mpps/internal/change/journal"
	"mpps/internal/change/watch"
	"mpps/internal/machine"
	"mpps/internal/machine/load"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/ops"
	"mpps/internal/ops/change"
	"mpps/internal/outcome"
)

// Options are the options of 'mpps verify --watch'.
type Options struct {
	Every   time.Duration // between two looks
	For     time.Duration // in all; 0: until stopped
	Metrics string        // a file, or a loopback address; empty: none
	CPUs    setting.CPUSet
	Cost    float64 // percent of one CPU that looks may take: after an expensive look the pause is longer

	Event func(watch.Event) error // is called for each problem that begins or ends
}

func (o *Options) check() error {
	switch {
	case !(o.Cost >= 0.1 && o.Cost <= 50):
		return outcome.Usage(fmt.Errorf("--cost %v: expected 0.1 to 50, percent of one CPU", o.Cost), "1 is the usual")
	case o.Every < time.Second || o.Every > time.Hour:
		return outcome.Usage(fmt.Errorf("--every %v: expected 1s to 1h", o.Every), "30s is the usual")
	case o.For < 0:
		return outcome.Usage(fmt.Errorf("--for %v: expected a time such as 10m", o.For),
			"leave it out to watch until the end")
	}
	return nil
}

// pause returns the time until the next look, given the CPU time of the last one.
func (o *Options) pause(used time.Duration) time.Duration {
	return max(o.Every, time.Duration(float64(used)*100/o.Cost))
}

// watcher is one run of verify --watch.
type watcher struct {
	Options
	env     *ops.Env
	machine *machine.Machine
	watch   *watch.Watcher
	show    *metrics
	facts   *facts.Host    // of the last look
	scope   realtime.Scope // of the last look
	slowed  bool           // it was reported that looks are rarer than --every
}

// Watch looks at the host repeatedly until the context ends or the time is up, and reports problems that begin and end.
// If a problem remains at the end, it returns an error with the exit code.
func Watch(ctx context.Context, env *ops.Env, o Options) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	m, err := env.Open()
	if err != nil {
		return err
	}
	m.Inside.Select(ops.NoGuest)
	w := &watcher{Options: o, env: env, machine: m, watch: watch.New()}
	if w.show, err = openMetrics(o.Metrics); err != nil {
		return errors.Join(err, m.Close())
	}
	defer func() { err = errors.Join(err, w.show.close(), m.Close()) }()
	var end <-chan time.Time
	if o.For > 0 {
		timer := time.NewTimer(o.For)
		defer timer.Stop()
		end = timer.C
	}
	started := w.guests(ctx)
	w.waitForHolder(ctx)
	pause := o.Every
	for look := 0; ; look++ {
		seen, over := w.wait(ctx, look, pause, started, end)
		if ctx.Err() != nil { // SIGTERM and SIGINT are the normal end
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
		return outcome.Exit(outcome.CodeDrifted)
	}
	return nil
}

// guests returns a channel of guests' starts, so that lost pins are noticed at once; nil if they cannot be watched.
func (w *watcher) guests(ctx context.Context) <-chan machine.Event {
	if !w.machine.Live() {
		return nil
	}
	events, err := w.machine.Events(ctx)
	if err != nil {
		w.env.Out.Step("starts of guests are seen at the next look only: %v", err)
		return nil
	}
	return events
}

// holderWait is how long the first look waits for another mpps: the service is usually started by an apply that is
// still running.
const holderWait = 30 * time.Second

// waitForHolder waits until no other mpps is running, at most holderWait or half of --for.
func (w *watcher) waitForHolder(ctx context.Context) {
	limit := holderWait
	if w.For > 0 {
		limit = min(limit, w.For/2)
	}
	j, err := journal.Open(w.env.Root)
	if err != nil {
		return // the first look reports it
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

// guestSettle is the delay between a guest's start and the look at it.
const guestSettle = 3 * time.Second

// wait watches the CPUs until the next look is due: after the pause, at the end of --for, or shortly after a guest has
// started. over reports the end of --for.
func (w *watcher) wait(
	ctx context.Context, look int, pause time.Duration, started <-chan machine.Event, end <-chan time.Time,
) (seen *facts.Observation, over bool) {
	if look == 0 {
		return nil, false
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan *facts.Observation, 1)
	go func() {
		if w.machine.Live() && len(w.scope.CPUs) > 0 {
			done <- w.machine.Observe(watching, w.facts, w.scope.CPUs, pause, w.share())
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
			case e.Guest == machine.GuestStarted:
				time.AfterFunc(guestSettle, stop)
			}
		}
	}
}

// share returns the share of one CPU that watching between two looks may take: machine.ObserveShare, or half of --cost
// if that is more.
func (w *watcher) share() float64 { return max(machine.ObserveShare, w.Cost/200) }

// look looks once, reports what is new, and returns the time until the next look.
func (w *watcher) look(ctx context.Context, n int, seen *facts.Observation) (time.Duration, error) {
	used, begun := machine.UsedTime(), time.Now()
	l := watch.Look{Host: w.name(), Saw: map[watch.Source]bool{}, Unseen: map[watch.Source]string{}}
	w.values(ctx, &l)
	w.realtime(ctx, &l, seen)
	w.path(ctx, &l)
	if ctx.Err() != nil {
		return 0, nil
	}
	l.At, l.Took, l.Cost = time.Now(), time.Since(begun), machine.UsedTime()-used
	if n == 0 {
		w.env.Out.Step("watching %s and what runs on %s, every %v", ops.Count(l.Values, "applied value"),
			scopeText(w.scope), w.Every)
	}
	if seen != nil {
		l.Cost += time.Duration(seen.CostMS * float64(time.Millisecond))
	}
	l.Pause = w.Options.pause(l.Cost)
	if l.Pause > w.Every && !w.slowed {
		w.slowed = true
		w.env.Out.Step("a look takes %v of CPU time here: the next one comes after %v instead of %v, "+
			"so that looks take %v %% of one CPU at most (--cost)",
			l.Cost.Round(time.Millisecond), l.Pause.Round(100*time.Millisecond), w.Every, w.Cost)
	}
	for _, e := range w.watch.Observe(l) {
		if err := w.Event(e); err != nil {
			return 0, err
		}
	}
	return l.Pause, w.show.publish(w.watch.Metrics(w.env.Version))
}

// pathInterval is how long a look watches the counters of the packet path.
const pathInterval = time.Second

// path looks at the packets of guests and at what holds them back, for metrics. Nothing is loaded into the kernel.
func (w *watcher) path(ctx context.Context, l *watch.Look) {
	if w.Metrics == "" || w.facts == nil {
		return
	}
	p := watch.PathOf(w.facts)
	l.Path = &p
	if !w.machine.Live() || len(p.Guests) == 0 {
		return
	}
	h := *w.facts
	h.Readings = maps.Clone(h.Readings)
	machine.Read(ctx, w.machine.Within(ctx).Mechanisms(), &h, bottleneck.Addresses())
	h.Load = load.Observe(ctx, w.machine.Tree, &h, load.Options{Interval: pathInterval, Counters: true})
	if ctx.Err() != nil || h.Load.Seconds == 0 {
		return
	}
	p.Judged = true
	if b := bottleneck.Find(&h, h.Load).Bottleneck; b != nil {
		p.Limit = &watch.Limit{Stage: b.Stage, Kind: string(b.Kind), Object: b.Object}
	}
}

func scopeText(s realtime.Scope) string {
	if len(s.CPUs) == 0 {
		return "no CPU: none is set aside"
	}
	return fmt.Sprintf("%s (%s)", s.CPUs.Words(), s.From)
}

func (w *watcher) name() string {
	name, _ := w.machine.Identity()
	return name
}

// values looks at the applied values, without the lock. It skips them while another mpps is running, which may be
// changing them.
func (w *watcher) values(ctx context.Context, l *watch.Look) {
	e, err := change.Open(w.env, nil)
	if err != nil {
		l.Unseen[watch.Values] = err.Error()
		return
	}
	defer e.Close()
	e.Explain(ctx)
	s, err := e.Status(ctx)
	switch {
	case err != nil:
		l.Unseen[watch.Values] = err.Error()
		return
	case s.Holder != nil:
		return
	}
	l.Saw[watch.Values], l.Values, l.States = true, len(s.Rows), s.Counts
	found, off := watch.AppliedFindings(s)
	l.Findings, l.Drifted = append(l.Findings, found...), off
	if n := s.Counts["unknown"]; n > 0 && n == len(s.Rows) {
		delete(l.Saw, watch.Values)
		l.Unseen[watch.Values] = ops.Count(n, "value") + " could not be read"
	}
}

// realtime looks at CPU isolation, at the next boot and at daemons.
func (w *watcher) realtime(ctx context.Context, l *watch.Look, seen *facts.Observation) {
	h := w.machine.Inventory(ctx)
	machine.Read(ctx, w.machine.Within(ctx).Mechanisms(), h, realtime.Addresses())
	scope := realtime.FindScope(h, w.CPUs, "")
	l.Isolated, l.From = scope.CPUs, scope.From
	if scope.CPUs = w.watch.IsolatedCPUs(scope.CPUs); !scope.CPUs.Equal(l.Isolated) {
		scope.From = "set aside at an earlier look"
	}
	w.facts, w.scope = h, scope
	l.State = watch.StateOf(h)
	if len(h.Topology.CPUs) == 0 {
		for _, s := range []watch.Source{watch.Isolated, watch.Boots, watch.Services} {
			l.Unseen[s] = "not one CPU was found"
		}
		return
	}
	l.Saw[watch.Services], l.Saw[watch.Isolated] = true, true
	if _, known := h.Boot.NextEntry(); known {
		l.Saw[watch.Boots] = true
	} else if h.Boot != nil {
		l.Unseen[watch.Boots] = h.Boot.Why
	}
	l.Findings = append(l.Findings, watch.BootFindings(h)...)
	if len(scope.CPUs) == 0 {
		return
	}
	if seen != nil && seen.Seconds > 0 {
		l.Saw[watch.Observed] = true
		why := ""
		if len(seen.Times) == 0 && len(seen.Threads) == 0 {
			why = "neither threads nor times could be seen"
		}
		for _, u := range seen.Unseen { // findings stand, but their absence proves nothing
			why = strings.TrimPrefix(why+"; "+u.What+": "+u.Why, "; ")
		}
		if why != "" {
			delete(l.Saw, watch.Observed)
			l.Unseen[watch.Observed] = why
		}
	} else {
		seen = nil
	}
	l.Findings = append(l.Findings, watch.RealtimeFindings(realtime.Check(h, seen, scope))...)
}
