// Package bench measures: runs, comparisons in turns, searches and campaigns over NIC modes. Its functions return the
// result with the files that hold it and the error that the command ends in, together: a result that was cut short, or
// that was not limited by the device under test, comes with an error.
package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mpps/internal/measure"
	"mpps/internal/measure/rig"
	"mpps/internal/measure/traffic/agent"
	"mpps/internal/model/goal"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// Measurement is one call of 'mpps bench'.
type Measurement struct {
	Kind measure.Kind
	Load measure.Load
	Name string
	Of   Subject
	Keep Keep
}

// Subject is what is measured: a Path or a Talk.
type Subject interface {
	open(ctx context.Context, o openOptions) (*session, error)
}

// openOptions are the options for opening a subject.
type openOptions struct {
	machine  *rig.Machine
	load     measure.Load
	version  string
	progress func(measure.Step)
}

// session is an open subject.
type session struct {
	run     func(context.Context, *measure.Run) error
	inTurns func(ctx context.Context, sides [2]measure.Configuration, blocks int, seed uint64) (measure.Interleaved,
		error)
	before func(*measure.Run) // fills in the ends
	after  func(*measure.Run) // fills in what is known only after measuring
	close  func() error
}

// begin opens the machine and the subject and returns a new run. stop closes both.
func (m *Measurement) begin(ctx context.Context, env *ops.Env) (o *session, run *measure.Run, stop func() error,
	err error) {
	machine, err := OpenMachine(env)
	if err != nil {
		return nil, nil, nil, err
	}
	o, err = m.Of.open(ctx, openOptions{machine, m.Load, env.Version, progress(env, m.Kind)})
	if err != nil {
		return nil, nil, nil, errors.Join(err, machine.Close())
	}
	stop = func() error { return errors.Join(o.close(), machine.Close()) }
	run, err = NewRun(ctx, env, m.Kind, m.Name, m.Load)
	if err != nil {
		return nil, nil, nil, errors.Join(err, stop())
	}
	o.before(run)
	return o, run, stop, nil
}

// Run measures once. The run is nil if there is nothing to show.
func (m *Measurement) Run(ctx context.Context, env *ops.Env) (run *measure.Run, saved []string, err error) {
	o, run, stop, err := m.begin(ctx, env)
	if err != nil {
		return nil, nil, err
	}
	err = o.run(ctx, run)
	o.after(run)
	err = errors.Join(err, stop())
	if errors.Is(err, agent.ErrLost) {
		err = outcome.Failed(err, "the control connection shares the link with the traffic: use a shorter "+
			"--duration, or an address of the agent on another NIC and --guest-nic")
	}
	if len(run.Samples) == 0 {
		if err == nil {
			err = outcome.Failed(errors.New("interrupted before the first trial was complete"), "")
		}
		return nil, nil, err
	}
	saved, failure := Save(env, m.Keep, run, run.Started, string(run.Kind), run.Warn)
	switch {
	case failure != nil:
		return nil, nil, errors.Join(err, failure)
	case err != nil:
	case run.Kind == measure.RR && run.Sent > 0 && run.Received == 0:
		err = noAnswerError(run)
	case run.Partial:
		err = outcome.Failed(fmt.Errorf("interrupted: %d of %d trials were completed", len(run.Samples),
			run.Load.Repeat), "")
	case !run.Valid():
		err = outcome.Exit(outcome.CodeNotDevice)
	}
	return run, saved, err
}

// noAnswerError returns the error for a run without any answer.
func noAnswerError(run *measure.Run) error {
	const headers = 28 // bytes of IPv4 and UDP
	longest := max(run.Load.Request, run.Load.Response) + headers
	return outcome.Failed(fmt.Errorf("none of %d requests was answered within %v", run.Sent, run.Load.Timeout),
		fmt.Sprintf("only the control connection may get through: a firewall that drops datagrams, or an MTU below "+
			"%d bytes at the far end or between", longest))
}

// NewRun returns a run that describes this machine.
func NewRun(ctx context.Context, env *ops.Env, kind measure.Kind, name string, load measure.Load) (*measure.Run,
	error) {
	m, err := env.Open()
	if err != nil {
		return nil, err
	}
	defer m.Close()
	h := m.Inventory(ctx)
	if err := ops.Complete(ctx); err != nil {
		return nil, err
	}
	return &measure.Run{
		Schema: measure.Schema, Kind: kind, Name: name, Host: h.Name, Load: load, Started: time.Now().UTC(),
		Environment: measure.Environment{
			Kernel: h.Kernel.Release, CPU: h.Topology.Model, CPUs: h.Topology.Counts.CPUsOnline,
			Emulated: h.Emulated, Virtual: h.Virtual, MPPS: env.Version,
		},
	}, nil
}

// OpenMachine opens this machine for a measurement.
func OpenMachine(env *ops.Env) (*rig.Machine, error) {
	m, err := rig.OpenMachine(env.Root)
	if err != nil {
		return nil, outcome.Failed(err, "--root takes a directory that holds proc/ and sys/ of a machine")
	}
	if h, err := env.Open(); err == nil {
		m.Patient = h.Emulated()
		_ = h.Close()
	}
	return m, nil
}

// progress shows the steps of a measurement.
func progress(env *ops.Env, kind measure.Kind) func(measure.Step) {
	return func(s measure.Step) {
		if s.What != "trial" {
			env.Out.Progress("%s", s.What)
			return
		}
		if env.Trial != nil {
			env.Trial()
		}
		last := ""
		if s.Last != nil {
			last = fmt.Sprintf(", the last one %s %s", goal.FormatRate(s.Last.Value(kind)), kind.Unit())
		}
		env.Out.Progress("trial %d of %d%s", s.N, s.M, last)
	}
}
