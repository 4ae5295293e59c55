package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"mpps/internal/goal"
	"mpps/internal/measure"
	"mpps/internal/measure/adapter"
	"mpps/internal/measure/rig"
	"mpps/internal/measure/search"
	"mpps/internal/tune"
)

// gauge measures the path for a tuning run: with our own generator, or by another program's trials.
type gauge interface {
	// sample sends packets per second for a time.
	sample(ctx context.Context, pps float64, length time.Duration) (passed, error)
	// flood sends packets per second until done is closed, and a little longer where it must.
	flood(ctx context.Context, pps float64, done <-chan struct{}) error
	// search finds the highest rate with no more loss than the goal allows.
	search(ctx context.Context) (tune.Rate, error)
	// netns are the network namespaces that the path goes through, the empty name for that of this process.
	netns() []string
	close() error
}

// passed is what a trial counted, packets per second.
type passed struct {
	sent float64 // that left the sender; 0: not known
	pps  float64 // that came through
}

// mostSearch is how long a search of a tuning run sends at the most; a sixth of its budget where that is less.
const mostSearch = time.Minute

// searching are the options of the searches of a tuning run with a budget; 0: none.
func searching(g goal.Goal, budget time.Duration, maxPPS float64, progress func(search.Step)) search.Options {
	o := search.Options{
		Mode: search.Fast, PDR: 0.005, Width: 0.02, Budget: mostSearch, FrameBytes: g.Frame, MaxPPS: maxPPS, Progress: progress,
		MinPPS: max(1, maxPPS/10000),
	}
	if budget > 0 {
		o.Budget = min(mostSearch, budget/6)
	}
	if g.Loss > 0 {
		o.PDR = g.Loss
	}
	return o
}

// rateFound is a search's answer to a goal.
func rateFound(r *search.Result, g goal.Goal, limit string) tune.Rate {
	found := r.NDR
	if g.Loss > 0 {
		found = r.PDR
	}
	rate := tune.Rate{UpperPPS: found.UpperPPS, LimitedBy: limit, Loss: g.Loss, Seconds: r.Seconds, Trials: r.Trials, None: found.None, Loaded: r.Device.CapacityPPS}
	if found.LowerPPS != nil {
		rate.PPS = *found.LowerPPS
	}
	return rate
}

// pathGauge measures with our own generator and receiver.
type pathGauge struct {
	app     *app
	machine *rig.Machine
	path    *rig.Path
	bench   *measure.Bench
	load    measure.Load
	goal    goal.Goal
	budget  time.Duration // of the whole run; 0: none
	run     *measure.Run  // of which the environment is known
	spaces  []string
}

func (a *app) openPathGauge(ctx context.Context, f *ppsFlags, g goal.Goal, budget time.Duration) (*pathGauge, error) {
	f.rate, f.duration, f.repeat, f.blocks, f.burst = "0", time.Second, 1, 1, 1
	load, options, err := f.plan()
	if err != nil {
		return nil, err
	}
	m, err := a.openMachine()
	if err != nil {
		return nil, err
	}
	load.Rate = 1 // paced trials, as in a search
	p, err := f.path(ctx, m, load, options)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	run, err := a.newRun(ctx, measure.PPS, "", load)
	if err != nil {
		return nil, errors.Join(err, p.Close(), m.Close())
	}
	return &pathGauge{
		app: a, machine: m, path: p, load: load, goal: g, budget: budget, run: run, spaces: spacesOf(f.from, f.to),
		bench: &measure.Bench{Path: p, Still: 100 * time.Millisecond},
	}, nil
}

// spacesOf are the namespaces of ends such as netns:A/veth0, and that of this process.
func spacesOf(ends ...string) []string {
	spaces := []string{""}
	for _, end := range ends {
		if rest, is := strings.CutPrefix(end, "netns:"); is {
			name, _, _ := strings.Cut(rest, "/")
			spaces = append(spaces, name)
		}
	}
	return spaces
}

func (p *pathGauge) sample(ctx context.Context, pps float64, length time.Duration) (passed, error) {
	load := p.load
	load.Rate, load.Duration = pps, length
	s, err := p.bench.Trial(ctx, load)
	if err != nil {
		return passed{}, err
	}
	return passed{sent: perSecond(s.Sent, s.Seconds), pps: s.PPS}, nil
}

// perSecond is a count as a rate; 0 where it took no time.
func perSecond(n uint64, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(n) / seconds
}

func (p *pathGauge) flood(ctx context.Context, pps float64, done <-chan struct{}) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-done:
			stop() // which ends a trial early
		case <-ctx.Done():
		}
	}()
	for ctx.Err() == nil {
		if _, err := p.sample(ctx, pps, time.Minute); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

func (p *pathGauge) search(ctx context.Context) (tune.Rate, error) {
	s := &measure.Search{Host: p.run.Host, Environment: p.run.Environment, From: p.path.From, To: p.path.To}
	d := &measure.Searched{Bench: p.bench, Load: p.load}
	o := searching(p.goal, p.budget, 0, p.app.searchProgress)
	if err := d.Search(ctx, s, o); err != nil {
		return tune.Rate{}, err
	}
	return rateFound(&s.Result, p.goal, s.LimitedBy), nil
}

func (p *pathGauge) netns() []string { return p.spaces }

func (p *pathGauge) close() error { return errors.Join(p.path.Close(), p.machine.Close()) }

// programGauge measures by another program's trials.
type programGauge struct {
	app     *app
	program *adapter.Program
	goal    goal.Goal
	budget  time.Duration // of the whole run; 0: none
	maxPPS  float64
}

func (p *programGauge) sample(ctx context.Context, pps float64, length time.Duration) (passed, error) {
	if pps == 0 { // as fast as possible
		pps = p.maxPPS
	}
	o, err := p.program.Trial(ctx, search.Trial{PPS: min(pps, p.maxPPS), Seconds: length.Seconds(), FrameBytes: p.goal.Frame})
	if err != nil {
		return passed{}, err
	}
	if o.Seconds <= 0 {
		return passed{}, fmt.Errorf("a trial of %v took no time", length)
	}
	return passed{sent: perSecond(o.Sent, o.Seconds), pps: perSecond(o.Received, o.Seconds)}, nil
}

// flood has the program do one trial after another. None is cut short: a program to which that was done is of no more use.
func (p *programGauge) flood(ctx context.Context, pps float64, done <-chan struct{}) error {
	for {
		if _, err := p.sample(ctx, pps, 3*time.Second); err != nil {
			return err
		}
		select {
		case <-done:
			return nil
		default:
		}
	}
}

func (p *programGauge) search(ctx context.Context) (tune.Rate, error) {
	r, err := search.Run(ctx, p.program, searching(p.goal, p.budget, p.maxPPS, p.app.searchProgress))
	if err != nil {
		return tune.Rate{}, err
	}
	limit := r.LimitedBy
	if limit == "load" {
		limit = string(measure.ByNothing)
	}
	return rateFound(r, p.goal, limit), nil
}

func (p *programGauge) netns() []string { return nil }

func (p *programGauge) close() error { return p.program.Close() }

// searchProgress shows a search's trials.
func (a *app) searchProgress(s search.Step) {
	a.out.Progress("search: trial %d, %s pps for %g s (%s)", s.N, goal.FormatRate(s.PPS), s.Seconds, s.Purpose)
}
