package rig

import (
	"context"
	"errors"
	"fmt"

	"mpps/internal/measure"
)

// sender is the end that packets leave from.
type sender interface {
	prepare(ctx context.Context, load measure.Load) error
	send(ctx context.Context, load measure.Load) (measure.Sent, error)
	alone(ctx context.Context, load measure.Load) measure.Alone
	method() string
	close() error
}

// receiver is the end that packets arrive at.
type receiver interface {
	reset(ctx context.Context) error
	arrived(ctx context.Context) (measure.Arrived, error)
	latency(ctx context.Context) (*measure.Latency, error)
	alone(ctx context.Context, load measure.Load) measure.Alone
	method() string
	close() error
}

// machine is a machine on the way.
type machine interface {
	where() string
	cpuTimes(ctx context.Context) (measure.CPUTimes, error)
	counters(ctx context.Context) (measure.Counters, error)
}

// Path is one way from a sender to a receiver. It implements measure.Path. Close it to leave everything as it was found.
type Path struct {
	From, To measure.Endpoint
	Warnings []measure.Warning // what was found while it was put together

	FarHost, FarKernel string // the agent's, where there is one

	sender   sender
	receiver receiver
	machines []machine // the near one first
	undo     []func() error
}

// Generator and Sink are the ways in which the ends send and count.
func (p *Path) Generator() string { return p.sender.method() }

// Sink is the way in which arriving packets are counted.
func (p *Path) Sink() string { return p.receiver.method() }

// Prepare makes both ends ready.
func (p *Path) Prepare(ctx context.Context, load measure.Load) error {
	if err := p.sender.prepare(ctx, load); err != nil {
		return err
	}
	return p.receiver.reset(ctx)
}

// Send sends a load.
func (p *Path) Send(ctx context.Context, load measure.Load) (measure.Sent, error) {
	return p.sender.send(ctx, load)
}

// Arrived reads the receiver.
func (p *Path) Arrived(ctx context.Context) (measure.Arrived, error) { return p.receiver.arrived(ctx) }

// Latency is the one-way delays since Prepare.
func (p *Path) Latency(ctx context.Context) (*measure.Latency, error) { return p.receiver.latency(ctx) }

// GeneratorAlone measures the sender without the device.
func (p *Path) GeneratorAlone(ctx context.Context, load measure.Load) measure.Alone {
	return p.sender.alone(ctx, load)
}

// ReceiverAlone measures the receiver without the device.
func (p *Path) ReceiverAlone(ctx context.Context, load measure.Load) measure.Alone {
	return p.receiver.alone(ctx, load)
}

// CPU reads the CPU times of every machine on the way.
func (p *Path) CPU(ctx context.Context) ([]measure.MachineTimes, error) {
	var all []measure.MachineTimes
	for _, m := range p.machines {
		times, err := m.cpuTimes(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.where(), err)
		}
		all = append(all, measure.MachineTimes{Where: m.where(), Times: times})
	}
	return all, nil
}

// Counters reads the counters of every machine on the way.
func (p *Path) Counters(ctx context.Context) (measure.Counters, error) {
	all := measure.Counters{}
	for _, m := range p.machines {
		counters, err := m.counters(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.where(), err)
		}
		for c, n := range counters {
			all[c] = n
		}
	}
	return all, nil
}

// Close ends both ends and undoes, last first, what was done to the machine. It goes on past errors and joins them.
func (p *Path) Close() error {
	var errs []error
	if p.sender != nil {
		errs = append(errs, p.sender.close())
		p.sender = nil
	}
	if p.receiver != nil {
		errs = append(errs, p.receiver.close())
		p.receiver = nil
	}
	for i := len(p.undo) - 1; i >= 0; i-- {
		errs = append(errs, p.undo[i]())
	}
	p.undo = nil
	return errors.Join(errs...)
}

// Error is a complaint with what the user can do about it. Usage marks those that are about the command line.
type Error struct {
	Err   error
	Tip   string
	Usage bool
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Hint is what the user can do.
func (e *Error) Hint() string { return e.Tip }

// ExitCode is 64 for a wrong command line, 1 for a failure.
func (e *Error) ExitCode() int {
	if e.Usage {
		return 64
	}
	return 1
}

func wrong(hint, format string, args ...any) error {
	return &Error{Err: fmt.Errorf(format, args...), Tip: hint, Usage: true}
}

func fault(hint, format string, args ...any) error {
	return &Error{Err: fmt.Errorf(format, args...), Tip: hint}
}
