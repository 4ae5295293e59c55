package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mpps/internal/measure"
	"mpps/internal/measure/adapter"
	"mpps/internal/measure/rig"
	"mpps/internal/measure/search"
	"mpps/internal/model/goal"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// Search is one call of 'mpps search'.
type Search struct {
	Options search.Options
	Name    string
	Command string        // external program that runs the trials; empty: our own generator over Path
	Grace   time.Duration // how long to wait for the program's result after a trial's time
	Path    *Path
	Load    measure.Load
	Keep    Keep
}

// Run searches. The result is nil if there is nothing to show.
func (s *Search) Run(ctx context.Context, env *ops.Env) (found *measure.Search, saved []string, err error) {
	found, err = s.find(ctx, env, "")
	if found == nil {
		return nil, nil, err
	}
	saved, failure := Save(env, s.Keep, found, found.Started, "search", found.Warn)
	switch {
	case failure != nil:
		return nil, nil, errors.Join(err, failure)
	case Interrupted(ctx, err):
		err = outcome.Failed(fmt.Errorf("interrupted after %s: the bounds are what was known by then",
			ops.Count(found.Trials, "trial")), "")
	case err == nil && !found.Valid():
		err = outcome.Exit(outcome.CodeNotDevice)
	}
	return found, saved, err
}

// find searches. label begins each line of progress. The result is nil if no trial was complete.
func (s *Search) find(ctx context.Context, env *ops.Env, label string) (found *measure.Search, err error) {
	s.Options.Progress = func(step search.Step) {
		env.Out.Progress("%strial %d, %.0f s of traffic so far: %s pps for %g s (%s)",
			label, step.N, step.Spent, goal.FormatRate(step.PPS), step.Seconds, step.Purpose)
	}
	if s.Command != "" {
		found, err = s.byCommand(ctx, env)
	} else {
		found, err = s.overPath(ctx, env)
	}
	switch {
	case found == nil || found.Trials > 0:
		return found, err
	case Interrupted(ctx, err):
		return nil, outcome.Failed(errors.New("interrupted before the first trial was complete"), "")
	}
	return nil, err
}

// byCommand searches by the trials of an external program.
func (s *Search) byCommand(ctx context.Context, env *ops.Env) (*measure.Search, error) {
	run, err := NewRun(ctx, env, measure.PPS, s.Name, measure.Load{})
	if err != nil {
		return nil, err
	}
	p, err := adapter.Start(s.Command, s.Grace)
	if err != nil {
		return nil, err
	}
	o, started := s.Options, time.Now()
	r, err := search.Run(ctx, p, o)
	err = errors.Join(err, p.Close())
	if r == nil {
		return nil, err
	}
	found := &measure.Search{
		Schema: measure.SchemaSearch, Name: s.Name, Result: *r, Host: run.Host, Environment: run.Environment,
		Command: s.Command,
		Started: started.UTC(), WallSeconds: time.Since(started).Seconds(), FrameBytes: o.FrameBytes, MinPPS: o.MinPPS,
		MaxPPS: o.MaxPPS,
	}
	found.LimitedBy = LimitOf(r)
	return found, err
}

// LimitOf returns what limited a search by an external program's trials.
func LimitOf(r *search.Result) string {
	if r.LimitedBy == "load" {
		return string(measure.ByNothing)
	}
	return r.LimitedBy
}

// overPath searches with our own generator and receiver.
func (s *Search) overPath(ctx context.Context, env *ops.Env) (*measure.Search, error) {
	g, err := OpenGauge(ctx, env, s.Path, s.Load)
	if err != nil {
		return nil, err
	}
	g.Bench.Progress = progress(env, measure.PPS)
	found, err := g.Search(ctx, s.Options)
	found.Name = s.Name
	return found, errors.Join(err, g.Close())
}

// Gauge is an open path for trials at any rate.
type Gauge struct {
	Bench *measure.Bench
	Load  measure.Load // common to all trials

	machine *rig.Machine
	path    *rig.Path
	run     *measure.Run // describes this machine
}

// OpenGauge opens this machine and a path.
func OpenGauge(ctx context.Context, env *ops.Env, p *Path, load measure.Load) (*Gauge, error) {
	m, err := OpenMachine(env)
	if err != nil {
		return nil, err
	}
	load.Rate = 1 // trials are paced, which generators must know from the start
	path, err := p.Open(ctx, m, load, env.Version)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	g := &Gauge{Bench: &measure.Bench{Path: path}, Load: load, machine: m, path: path}
	if g.run, err = NewRun(ctx, env, measure.PPS, "", load); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// Search searches over the path.
func (g *Gauge) Search(ctx context.Context, o search.Options) (*measure.Search, error) {
	s := &measure.Search{Host: g.run.Host, Environment: g.run.Environment, From: g.path.From, To: g.path.To}
	d := &measure.Searched{Bench: g.Bench, Load: g.Load}
	err := d.Search(ctx, s, o)
	s.Environment.FarHost, s.Environment.FarKernel = g.path.FarHost, g.path.FarKernel
	s.Environment.Generator, s.Environment.Sink = g.path.Generator(), g.path.Sink()
	s.Warnings = append(s.Warnings, g.path.Warnings...)
	return s, err
}

// Close closes the path and the machine.
func (g *Gauge) Close() error { return errors.Join(g.path.Close(), g.machine.Close()) }
