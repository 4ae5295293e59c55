package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"mpps/internal/host"
	"mpps/internal/measure"
	"mpps/internal/measure/wakeup"
	"mpps/internal/ops"
	"mpps/internal/outcome"
	"mpps/internal/report"
)

// tooling is the tool that was chosen, with what is known of the clock where it runs.
type tooling struct {
	program wakeup.Program
	target  *target
	asked   wakeup.Asked
	clock   wakeup.Clock
	sofar   wakeup.Distribution // of all slices, for the trigger
	slices  float64
	version string
}

// latency measures, prints and saves.
func (a *app) latency(ctx context.Context, f *latencyFlags) error {
	ctx, stop := ops.UntilHangup(ctx)
	defer stop()
	var before *wakeup.File
	if f.before != "" {
		var err error
		if before, err = readWakeups(f.before); err != nil {
			return err
		}
	}
	t, err := a.target(ctx, f)
	if err != nil {
		return err
	}
	defer t.machine.Close()
	rest, err := host.KeepOff(t.physical)
	if err != nil {
		return outcome.Failed(fmt.Errorf("keep off the measured CPUs: %w", err), "")
	}
	if len(rest) == 0 {
		t.warn("no-housekeeping", "every CPU that mpps may run on is measured: mpps itself disturbs it", "measure fewer CPUs")
	}
	file := t.file(f)
	tool, err := a.chooseTool(ctx, t, f, &file.Asked)
	if err != nil {
		return err
	}
	file.Tool = wakeup.Tool{Name: tool.program.Name, Version: tool.version, What: tool.program.What, Exact: tool.program.Exact() && tool.clock.Known}
	failure := a.measureWakeups(ctx, t, tool, f, file)
	return a.latencyDone(ctx, f, file, before, failure)
}

// file is a result without figures.
func (t *target) file(f *latencyFlags) *wakeup.File {
	h := t.facts
	return &wakeup.File{
		Schema: wakeup.Schema, Name: f.name, Host: h.Name, Guest: t.guest, Started: time.Now().UTC(), Runs: []wakeup.Run{}, Worst: []wakeup.Wakeup{}, Loads: []wakeup.Load{},
		Environment: measure.Environment{Kernel: h.Kernel.Release, CPU: h.Topology.Model, CPUs: h.Topology.Counts.CPUsOnline, Emulated: h.Emulated, Virtual: h.Virtual, MPPS: version},
		Asked:       wakeup.Asked{CPUs: t.cpus, For: f.length, Runs: f.runs, Slice: f.slice, Interval: f.interval, Priority: f.priority, Load: f.load},
		Warnings:    append([]measure.Warning{}, t.warnings...),
	}
}

// self is how mpps is called where it measures: itself here, by its name in a guest.
func (t *target) self() string {
	if t.guest == nil {
		if path, err := os.Executable(); err == nil {
			return path
		}
	}
	return "mpps"
}

// chooseTool finds a tool that works there: it is asked what it can do, and measures for a second.
func (a *app) chooseTool(ctx context.Context, t *target, f *latencyFlags, asked *wakeup.Asked) (*tooling, error) {
	var missing []string
	for _, p := range wakeup.Programs(t.self()) {
		if f.tool != p.Name && (f.tool != "auto" || !p.Automatic()) {
			continue
		}
		tool := &tooling{program: p, target: t, asked: *asked}
		err := tool.try(ctx)
		switch {
		case ctx.Err() != nil:
			return nil, outcome.Failed(errors.New("interrupted before the first slice"), "")
		case err == nil:
			for _, line := range missing {
				a.out.Step("%s", line)
			}
			return tool, nil
		}
		line := fmt.Sprintf("%s: %v", p.Name, err)
		if errors.Is(err, host.ErrNoProgram) {
			line = fmt.Sprintf("%s is not in %s: it is in package %s", p.Name, t.where(), p.Package)
		}
		missing = append(missing, line)
	}
	text := missing[0]
	for _, line := range missing[1:] {
		text += "; " + line
	}
	return nil, outcome.Failed(errors.New(text), "install rt-tests in "+t.where()+", or put mpps into its $PATH and give --tool own")
}

// try asks a tool what it can do, and has it measure for a second, which is not counted.
func (tool *tooling) try(ctx context.Context) error {
	p, place := &tool.program, tool.target.place
	told, err := place.Run(ctx, 0, p.Probe...)
	if err != nil {
		return err
	}
	if err := p.Took(told.Out + told.Err); err != nil {
		if problem := told.Problem(); problem != "" {
			err = fmt.Errorf("%w (%s)", err, problem)
		}
		return err
	}
	tool.readClock(ctx)
	out, _, err := tool.slice(ctx, time.Second)
	if err != nil {
		return err
	}
	if tool.version = out.Version; tool.version == "" {
		tool.version = wakeup.VersionIn(told.Out + told.Err)
	}
	tool.add(out, time.Second)
	return nil
}

// readClock compares the clock there with ours. A measurement goes on without: then the slice of a wake-up is known and not more.
func (tool *tooling) readClock(ctx context.Context) {
	there, at, off, err := tool.target.place.Monotonic(ctx)
	tool.clock = wakeup.Clock{Host: at, There: there, Off: off, Known: err == nil && off < time.Second}
}

func (tool *tooling) add(out *wakeup.Output, length time.Duration) {
	for _, t := range out.Threads {
		tool.sofar = wakeup.Merge(tool.sofar, t.Distribution)
	}
	tool.slices += length.Seconds() / tool.asked.Slice.Seconds()
}

// slice measures one slice. Where it was interrupted what it has is returned.
func (tool *tooling) slice(ctx context.Context, length time.Duration) (*wakeup.Output, *host.Ended, error) {
	trigger := uint64(0)
	if tool.clock.Known {
		trigger = wakeup.Trigger(tool.sofar, tool.slices)
	}
	e, err := tool.target.place.Run(ctx, length, tool.program.Start(tool.asked, length, trigger)...)
	if err != nil {
		return nil, e, err
	}
	out, err := tool.program.Read(e.Out, tool.asked)
	if err != nil {
		if problem := e.Problem(); problem != "" && !e.Cut {
			err = fmt.Errorf("%s: %s", tool.program.Name, problem)
		}
		return nil, e, err
	}
	out.Trigger = max(out.Trigger, trigger)
	return out, e, nil
}

// measureWakeups fills the file. The error says why it ended early; what was measured by then is in the file.
func (a *app) measureWakeups(ctx context.Context, t *target, tool *tooling, f *latencyFlags, file *wakeup.File) error {
	watch := t.watch()
	var failure error
	for run := 1; run <= f.runs && failure == nil; run++ {
		tool.readClock(ctx)
		loads := t.startLoads(ctx, f)
		r := wakeup.Run{Started: time.Now(), Threads: []wakeup.Thread{}, Slices: []wakeup.Slice{}}
		failure = a.measureRun(ctx, tool, f, run, &r)
		file.Loads = loads.stop(file.Loads)
		r.Seconds = time.Since(r.Started).Seconds()
		if failure != nil {
			r.Error = failure.Error()
		}
		if len(r.Slices) > 0 {
			file.Runs = append(file.Runs, r)
		}
	}
	file.Counted = watch.stop()
	file.Seconds, file.Partial = time.Since(file.Started).Seconds(), failure != nil
	return failure
}

// errInterrupted is the user's own end.
var errInterrupted = errors.New("interrupted")

func (a *app) measureRun(ctx context.Context, tool *tooling, f *latencyFlags, number int, r *wakeup.Run) error {
	for left := f.length; left > 0; left -= f.slice {
		length := min(f.slice, left)
		a.progressOf(r, f, number)
		out, e, err := tool.slice(ctx, length)
		if ctx.Err() != nil && err != nil {
			return errInterrupted
		}
		if err != nil {
			return err
		}
		for _, problem := range out.Problems {
			tool.target.warn("loop", problem, "run it as root, with SCHED_FIFO allowed (ulimit -r, cgroup)")
		}
		from := e.To.Add(-length) // what it took to start lies before
		if e.Cut || from.Before(e.From) {
			from = e.From
		}
		r.Add(number, out, from, e.To, out.Trigger, tool.clock)
		tool.add(out, length)
		if ctx.Err() != nil {
			return errInterrupted
		}
	}
	return nil
}

func (a *app) progressOf(r *wakeup.Run, f *latencyFlags, number int) {
	text := ""
	if r.Latency != nil {
		text = ", longest so far " + short(r.Latency.MaxNs)
	}
	a.out.Progress("run %d of %d: %v of %v%s", number, f.runs, time.Since(r.Started).Truncate(time.Second), f.length, text)
}

// latencyDone puts the result together, saves and prints it.
func (a *app) latencyDone(ctx context.Context, f *latencyFlags, file *wakeup.File, before *wakeup.File, failure error) error {
	if len(file.Runs) == 0 {
		if failure == nil || errors.Is(failure, errInterrupted) {
			failure = outcome.Failed(errors.New("interrupted before the first slice was complete"), "")
		}
		return failure
	}
	file.Finish()
	if file.Total.Latency == nil {
		return outcome.Failed(errors.New("not one wake-up was measured"), "a longer --for, a shorter --interval")
	}
	caveats(file)
	if f.output != "" {
		if err := a.writeWakeups(f.output, file); err != nil {
			return errors.Join(failure, err)
		}
	}
	answer := latencyAnswer{File: *file}
	if before != nil {
		c := wakeup.Compare(before, file)
		answer.Compared = &c
	}
	var warnings []outcome.Warning
	warnings = append(warnings, file.Warnings...)
	if answer.Compared != nil {
		warnings = append(warnings, answer.Compared.Warnings...)
	}
	err := a.out.Answer(report.Answer{Verb: "latency", Host: file.Host, Result: answer, Warnings: warnings, Text: func(t *report.Text) { drawWakeups(t, &answer, f.output) }})
	switch {
	case err != nil:
		return err
	case errors.Is(failure, errInterrupted):
		return outcome.Failed(fmt.Errorf("interrupted: %d of %d runs were begun, %s measured", len(file.Runs), f.runs, (time.Duration(file.Seconds)*time.Second)), "")
	}
	return failure
}

// caveats adds what a reader must know of the result.
func caveats(file *wakeup.File) {
	if file.Environment.Emulated {
		file.Warn(measure.Warning{Code: "emulated", Text: "measured under full emulation: the figures are those of the emulator, and prove nothing of real hardware"})
	} else if file.Environment.Virtual != "" {
		file.Warn(measure.Warning{Code: "virtual", Text: "this host is a guest itself (" + file.Environment.Virtual + "): what the hypervisor below does is in the figures"})
	}
	ran := false
	for _, l := range file.Loads {
		ran = ran || l.Error == ""
	}
	if !ran {
		file.Warn(measure.Warning{Code: "idle", Text: "nothing ran beside it: on an idle machine caches are warm, buses are free and few interrupts come, which hides the truth",
			Hint: "--load own, --load stress-ng or what the machine does in earnest"})
	}
	if file.Total.Beyond > 0 {
		file.Warn(measure.Warning{Code: "beyond", Text: fmt.Sprintf("%d were longer than the histogram of %s reaches: of these only the longest is known", file.Total.Beyond, file.Tool.Name)})
	}
	if s := file.Counted; s != nil && s.LeftOut > 0 {
		file.Warn(measure.Warning{Code: "counters-left-out", Text: fmt.Sprintf("%d counters that moved were left out for lack of room", s.LeftOut)})
	}
}
