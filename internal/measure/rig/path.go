package rig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/measure"
)

// machine is a machine on the way.
type machine interface {
	where() string
	cpuTimes(ctx context.Context) (measure.CPUTimes, error)
	counters(ctx context.Context) (measure.Counters, error)
}

// machines are those on the way, the near one first.
type machines []machine

// CPU reads the CPU times of every machine on the way.
func (all machines) CPU(ctx context.Context) ([]measure.MachineTimes, error) {
	var read []measure.MachineTimes
	for _, m := range all {
		times, err := m.cpuTimes(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.where(), err)
		}
		read = append(read, measure.MachineTimes{Where: m.where(), Times: times})
	}
	return read, nil
}

// Counters reads the counters of every machine on the way.
func (all machines) Counters(ctx context.Context) (measure.Counters, error) {
	read := measure.Counters{}
	for _, m := range all {
		counters, err := m.counters(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.where(), err)
		}
		for c, n := range counters {
			read[c] = n
		}
	}
	return read, nil
}

// setup is what was put together for a measurement, and how to take it apart again.
type setup struct {
	machines
	From, To measure.Endpoint
	Warnings []measure.Warning // what was found on the way

	FarHost, FarKernel string // the agent's, where there is one

	undo []func() error
}

// warnAs returns what adds a warning of one end, once: notes of several trials that differ in their figures only are one.
func (s *setup) warnAs(end string) func(measure.Warning) {
	return func(w measure.Warning) {
		w.Code = end + "-" + w.Code
		same := func(have measure.Warning) bool {
			return have.Code == w.Code && withoutFigures(have.Text) == withoutFigures(w.Text)
		}
		if !slices.ContainsFunc(s.Warnings, same) {
			s.Warnings = append(s.Warnings, w)
		}
	}
}

func withoutFigures(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, text)
}

// takeApart undoes, last first, what was done. It goes on past errors and joins them.
func (s *setup) takeApart() error {
	var errs []error
	for i := len(s.undo) - 1; i >= 0; i-- {
		errs = append(errs, s.undo[i]())
	}
	s.undo = nil
	return errors.Join(errs...)
}

// Path is one way from a sender to a receiver. It implements measure.Path. Close it to leave everything as it was found.
type Path struct {
	setup
	sender   *sender
	receiver *receiver
}

// Generator is the way in which packets are sent; it is certain once some were.
func (p *Path) Generator() string { return p.sender.method() }

// Sink is the way in which arriving packets are counted.
func (p *Path) Sink() string { return p.receiver.method() }

// Prepare makes both ends ready.
func (p *Path) Prepare(_ context.Context, load measure.Load) error {
	if err := p.sender.prepare(load); err != nil {
		return err
	}
	return p.receiver.prepare()
}

// Send sends a load.
func (p *Path) Send(ctx context.Context, load measure.Load) (measure.Sent, error) {
	return p.sender.send(ctx, load)
}

// Arrived reads the receiver.
func (p *Path) Arrived(context.Context) (measure.Arrived, error) { return p.receiver.arrived() }

// Latency is the one-way delays since Prepare.
func (p *Path) Latency(context.Context) (*measure.Latency, error) { return p.receiver.latency() }

// GeneratorAlone measures the sender without the device.
func (p *Path) GeneratorAlone(ctx context.Context, load measure.Load) measure.Alone {
	return p.sender.alone(ctx, load)
}

// ReceiverAlone measures the receiver without the device.
func (p *Path) ReceiverAlone(ctx context.Context, load measure.Load) measure.Alone {
	return p.receiver.alone(ctx, load)
}

// Close ends both ends and leaves the machine as it was.
func (p *Path) Close() error {
	var errs []error
	if p.sender != nil {
		errs = append(errs, p.sender.close())
	}
	if p.receiver != nil {
		errs = append(errs, p.receiver.close())
	}
	p.sender, p.receiver = nil, nil
	return errors.Join(append(errs, p.takeApart())...)
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
