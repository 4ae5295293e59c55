package rig

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"mpps/internal/measure"
	"mpps/internal/outcome"
)

// machine is a machine on the path.
type machine interface {
	where() string
	cpuTimes(ctx context.Context) (measure.CPUTimes, error)
	counters(ctx context.Context) (measure.Counters, error)
}

// machines are the machines on the path, the near one first.
type machines []machine

// CPU reads the CPU times of every machine on the path, and for this machine those of the threads that carry packets.
// It identifies the threads before the first reading, so that this is not part of a trial.
func (all machines) CPU(ctx context.Context) ([]measure.MachineTimes, error) {
	var read []measure.MachineTimes
	for _, m := range all {
		near, _ := m.(*Machine)
		if near != nil && near.watch.checks == nil {
			near.threads()
		}
		times, err := m.cpuTimes(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.where(), err)
		}
		read = append(read, measure.MachineTimes{Where: m.where(), Times: times})
		if near != nil {
			read[len(read)-1].Threads = near.threads()
		}
	}
	return read, nil
}

// Counters reads the counters of every machine on the path.
func (all machines) Counters(ctx context.Context) (measure.Counters, error) {
	read := measure.Counters{}
	for _, m := range all {
		counters, err := m.counters(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.where(), err)
		}
		maps.Copy(read, counters)
	}
	return read, nil
}

// setup is what was set up for a measurement, and how to undo it.
type setup struct {
	machines
	From, To measure.Endpoint
	Warnings []measure.Warning // about the set-up

	FarHost, FarKernel string // the agent's, if there is one

	undo []func() error
}

// warnAs returns a function that adds a warning about one end. Notes of several trials that differ only in their
// figures are added once.
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

// tearDown undoes everything, last first. It continues after errors and joins them.
func (s *setup) tearDown() error {
	var errs []error
	for _, undo := range slices.Backward(s.undo) {
		errs = append(errs, undo())
	}
	s.undo = nil
	return errors.Join(errs...)
}

// Path is a path between two ends, with a sender and a receiver for each direction. It implements measure.Path. Close
// restores the machine.
type Path struct {
	setup
	senders   []*sender
	receivers []*receiver // in the order of the senders whose packets they count
}

// Generator returns the methods of the senders. They are final once something was sent.
func (p *Path) Generator() string { return methods(p.senders) }

// Sink returns the methods of the receivers.
func (p *Path) Sink() string { return methods(p.receivers) }

func methods[E interface{ method() string }](ends []E) string {
	var all []string
	for _, e := range ends {
		if m := e.method(); !slices.Contains(all, m) {
			all = append(all, m)
		}
	}
	return strings.Join(all, ", ")
}

// Prepare readies both ends.
func (p *Path) Prepare(ctx context.Context, load measure.Load) error {
	for _, s := range p.senders {
		if err := s.prepare(ctx, load); err != nil {
			return err
		}
	}
	for _, r := range p.receivers {
		if err := r.prepare(); err != nil {
			return err
		}
	}
	return nil
}

// Send sends a load.
func (p *Path) Send(ctx context.Context, load measure.Load) (measure.Sent, error) {
	if len(p.senders) == 1 {
		return p.senders[0].send(ctx, load)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ways := make([]measure.Sent, len(p.senders))
	errs := make([]error, len(p.senders))
	together(p.senders, func(i int, s *sender) {
		if ways[i], errs[i] = s.send(ctx, load); errs[i] != nil {
			stop() // one direction alone is of no use
		}
	})
	sum := measure.Sent{Ways: ways}
	for _, w := range ways {
		sum.Frames, sum.Errors, sum.Slipped = sum.Frames+w.Frames, sum.Errors+w.Errors, sum.Slipped+w.Slipped
		sum.Elapsed, sum.Floor = max(sum.Elapsed, w.Elapsed), max(sum.Floor, w.Floor)
	}
	return sum, errors.Join(errs...)
}

// Progress returns how many frames the senders have sent.
func (p *Path) Progress() uint64 {
	var n uint64
	for _, s := range p.senders {
		if s.gen != nil {
			n += s.gen.Sent()
		}
	}
	return n
}

// Starved reports whether the control connection of an agent is.
func (p *Path) Starved() bool {
	return slices.ContainsFunc(p.machines, func(m machine) bool {
		f, is := m.(*far)
		return is && f.client.Starved()
	})
}

// together calls f for all elements concurrently and waits.
func together[E any](all []E, f func(int, E)) {
	var wait sync.WaitGroup
	for i, e := range all {
		wait.Go(func() { f(i, e) })
	}
	wait.Wait()
}

// Arrived reads the receivers.
func (p *Path) Arrived(context.Context) (measure.Arrived, error) {
	if len(p.receivers) == 1 {
		return p.receivers[0].arrived()
	}
	sum := measure.Arrived{Exact: true}
	for _, r := range p.receivers {
		a, err := r.arrived()
		if err != nil {
			return sum, err
		}
		sum.Frames, sum.Duplicated, sum.Reordered = sum.Frames+a.Frames, sum.Duplicated+a.Duplicated,
			sum.Reordered+a.Reordered
		sum.Overrun, sum.Exact = sum.Overrun+a.Overrun, sum.Exact && a.Exact
		sum.Ways = append(sum.Ways, a)
	}
	return sum, nil
}

// Latency returns the one-way delays since Prepare, of both directions together.
func (p *Path) Latency(context.Context) (*measure.Latency, error) {
	var all []*measure.Latency
	for _, r := range p.receivers {
		l, err := r.latency()
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return measure.MergeLatency(all...), nil
}

// GeneratorAlone measures the senders without the device, concurrently.
func (p *Path) GeneratorAlone(ctx context.Context, load measure.Load) measure.Alone {
	return alone(p.senders, func(s *sender) measure.Alone { return s.alone(ctx, load) })
}

// ReceiverAlone measures the receivers without the device, concurrently.
func (p *Path) ReceiverAlone(ctx context.Context, load measure.Load) measure.Alone {
	return alone(p.receivers, func(r *receiver) measure.Alone { return r.alone(ctx, load) })
}

// alone sums up what each end can do while the others run too.
func alone[E any](ends []E, measureEnd func(E) measure.Alone) measure.Alone {
	results := make([]measure.Alone, len(ends))
	together(ends, func(i int, e E) { results[i] = measureEnd(e) })
	sum := results[0]
	for _, a := range results[1:] {
		sum.PPS, sum.Seconds, sum.AtLeast = sum.PPS+a.PPS, max(sum.Seconds, a.Seconds), sum.AtLeast && a.AtLeast
		if a.Error != "" && sum.Error == "" {
			sum.Error = a.Error
		}
	}
	if len(results) > 1 {
		sum.How += ", all ends at once"
	}
	if sum.Error != "" {
		sum.PPS = 0
	}
	return sum
}

// Close closes both ends and restores the machine.
func (p *Path) Close() error {
	var errs []error
	for _, s := range p.senders {
		errs = append(errs, s.close())
	}
	for _, r := range p.receivers {
		errs = append(errs, r.close())
	}
	p.senders, p.receivers = nil, nil
	return errors.Join(append(errs, p.tearDown())...)
}

func usage(hint, format string, args ...any) error {
	return outcome.Usage(fmt.Errorf(format, args...), hint)
}

func fault(hint, format string, args ...any) error {
	return outcome.Failed(fmt.Errorf(format, args...), hint)
}
