// Package latency measures wake-up latency, in a guest or on this host, and counts what may have caused it.
package latency

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"mpps/internal/machine"
	"mpps/internal/machine/place"
	"mpps/internal/measure"
	"mpps/internal/measure/wakeup"
	"mpps/internal/model/setting"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// Options are the options of 'mpps latency'.
type Options struct {
	Guest      string         // empty: this host
	CPUs       setting.CPUSet // to measure; empty: the isolated ones, or else the last
	For, Slice time.Duration  // length of a run, and of one slice of a run
	Runs       int
	Interval   time.Duration // between two wake-ups
	Priority   int           // SCHED_FIFO priority
	Tool, Load string
	Name       string
}

// Run measures. The file is nil if nothing was measured; the error says why the measurement ended early.
func Run(ctx context.Context, env *ops.Env, o Options) (*wakeup.File, error) {
	t, err := findTarget(ctx, env, &o)
	if err != nil {
		return nil, err
	}
	defer t.machine.Close()
	rest, err := machine.KeepOff(t.physical)
	if err != nil {
		return nil, outcome.Failed(fmt.Errorf("keep off the measured CPUs: %w", err), "")
	}
	if len(rest) == 0 {
		t.warn("no-housekeeping", "every CPU that mpps may run on is measured: mpps itself disturbs it",
			"measure fewer CPUs")
	}
	file := t.emptyFile(&o)
	tool, err := t.chooseTool(ctx, &o, &file.Asked)
	if err != nil {
		return nil, err
	}
	file.Tool = wakeup.Tool{Name: tool.program.Name, Version: tool.version, What: tool.program.What,
		Exact: tool.program.Exact() && tool.clock.Known}
	err = t.measure(ctx, tool, &o, file)
	if len(file.Runs) == 0 {
		if err == nil || errors.Is(err, errInterrupted) {
			err = outcome.Failed(errors.New("interrupted before the first slice was complete"), "")
		}
		return nil, err
	}
	file.Finish()
	if file.Total.Latency == nil {
		return nil, outcome.Failed(errors.New("not one wake-up was measured"), "a longer --for, a shorter --interval")
	}
	addCaveats(file)
	if errors.Is(err, errInterrupted) {
		err = outcome.Failed(fmt.Errorf("interrupted: %d of %d runs were begun, %s measured", len(file.Runs), o.Runs,
			time.Duration(file.Seconds)*time.Second), "")
	}
	return file, err
}

// tool is the measuring program with the clock of the machine it runs on.
type tool struct {
	program wakeup.Program
	target  *target
	asked   wakeup.Asked
	clock   wakeup.Clock
	soFar   wakeup.Distribution // of all slices so far, which sets the trigger
	slices  float64
	version string
}

// emptyFile returns a result without figures.
func (t *target) emptyFile(o *Options) *wakeup.File {
	h := t.facts
	return &wakeup.File{
		Schema: wakeup.Schema, Name: o.Name, Host: h.Name, Guest: t.guest, Started: time.Now().UTC(),
		Runs: []wakeup.Run{}, Worst: []wakeup.Wakeup{}, Loads: []wakeup.Load{},
		Environment: measure.Environment{Kernel: h.Kernel.Release, CPU: h.Topology.Model,
			CPUs: h.Topology.Counts.CPUsOnline, Emulated: h.Emulated, Virtual: h.Virtual, MPPS: t.env.Version},
		Asked: wakeup.Asked{CPUs: t.cpus, For: o.For, Runs: o.Runs, Slice: o.Slice, Interval: o.Interval,
			Priority: o.Priority, Load: o.Load},
		Warnings: append([]measure.Warning{}, t.warnings...),
	}
}

// command returns the program name of mpps at the target: this executable on the host, "mpps" in a guest.
func (t *target) command() string {
	if t.guest == nil {
		if path, err := os.Executable(); err == nil {
			return path
		}
	}
	return "mpps"
}

// chooseTool returns the first tool that works at the target.
func (t *target) chooseTool(ctx context.Context, o *Options, asked *wakeup.Asked) (*tool, error) {
	var missing []string
	for _, p := range wakeup.Programs(t.command()) {
		if o.Tool != p.Name && (o.Tool != "auto" || !p.Automatic()) {
			continue
		}
		tool := &tool{program: p, target: t, asked: *asked}
		err := tool.try(ctx)
		switch {
		case ctx.Err() != nil:
			return nil, outcome.Failed(errors.New("interrupted before the first slice"), "")
		case err == nil:
			for _, line := range missing {
				t.env.Out.Step("%s", line)
			}
			return tool, nil
		}
		line := fmt.Sprintf("%s: %v", p.Name, err)
		if errors.Is(err, place.ErrNoProgram) {
			line = fmt.Sprintf("%s is not in %s: it is in package %s", p.Name, t.where(), p.Package)
		}
		missing = append(missing, line)
	}
	return nil, outcome.Failed(errors.New(strings.Join(missing, "; ")),
		"install rt-tests in "+t.where()+", or put mpps into its $PATH and give --tool own")
}

// try probes a tool and has it measure for a second, which does not count.
func (tool *tool) try(ctx context.Context) error {
	p, place := &tool.program, tool.target.place
	probed, err := place.Run(ctx, 0, p.Probe...)
	if err != nil {
		return err
	}
	if err := p.CheckProbe(probed.Out + probed.Err); err != nil {
		if problem := probed.Problem(); problem != "" {
			err = fmt.Errorf("%w (%s)", err, problem)
		}
		return err
	}
	tool.readClock(ctx)
	out, _, err := tool.slice(ctx, time.Second)
	if err != nil {
		return err
	}
	tool.version = cmp.Or(out.Version, wakeup.VersionIn(probed.Out+probed.Err))
	tool.add(out, time.Second)
	return nil
}

// readClock compares the target's monotonic clock with ours. If that fails the measurement continues, but only the
// slice of a wake-up is known and not its time.
func (tool *tool) readClock(ctx context.Context) {
	there, at, off, err := tool.target.place.Monotonic(ctx)
	tool.clock = wakeup.Clock{Host: at, There: there, Off: off, Known: err == nil && off < time.Second}
}

func (tool *tool) add(out *wakeup.Output, length time.Duration) {
	for _, t := range out.Threads {
		tool.soFar = wakeup.Merge(tool.soFar, t.Distribution)
	}
	tool.slices += length.Seconds() / tool.asked.Slice.Seconds()
}

// slice measures one slice. If interrupted, it returns what was measured by then.
func (tool *tool) slice(ctx context.Context, length time.Duration) (*wakeup.Output, *place.Ended, error) {
	trigger := uint64(0)
	if tool.clock.Known {
		trigger = wakeup.Trigger(tool.soFar, tool.slices)
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

// measure fills the file. The error says why it ended early; the file holds what was measured by then.
func (t *target) measure(ctx context.Context, tool *tool, o *Options, file *wakeup.File) error {
	watch := t.watch()
	var failure error
	for run := 1; run <= o.Runs && failure == nil; run++ {
		tool.readClock(ctx)
		loads := t.startLoads(ctx, o)
		r := wakeup.Run{Started: time.Now(), Threads: []wakeup.Thread{}, Slices: []wakeup.Slice{}}
		failure = t.measureRun(ctx, tool, o, run, &r)
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

// errInterrupted says that the user ended the measurement.
var errInterrupted = errors.New("interrupted")

func (t *target) measureRun(ctx context.Context, tool *tool, o *Options, number int, r *wakeup.Run) error {
	for left := o.For; left > 0; left -= o.Slice {
		length := min(o.Slice, left)
		t.showProgress(r, o, number)
		out, e, err := tool.slice(ctx, length)
		if ctx.Err() != nil && err != nil {
			return errInterrupted
		}
		if err != nil {
			return err
		}
		for _, problem := range out.Problems {
			t.warn("loop", problem, "run it as root, with SCHED_FIFO allowed (ulimit -r, cgroup)")
		}
		from := e.To.Add(-length) // excludes the tool's start-up
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

func (t *target) showProgress(r *wakeup.Run, o *Options, number int) {
	text := ""
	if r.Latency != nil {
		text = ", longest so far " + time.Duration(r.Latency.MaxNs).String()
	}
	t.env.Out.Progress("run %d of %d: %s%s", number, o.Runs, ops.Elapsed(time.Since(r.Started), o.For), text)
}

// addCaveats adds warnings that qualify the result.
func addCaveats(file *wakeup.File) {
	if file.Environment.Emulated {
		file.Warn(measure.Warning{Code: "emulated", Text: "measured under full emulation: the figures are those of " +
			"the emulator, and prove nothing of real hardware"})
	} else if file.Environment.Virtual != "" {
		file.Warn(measure.Warning{Code: "virtual", Text: "this host is a guest itself (" + file.Environment.Virtual +
			"): what the hypervisor below does is in the figures"})
	}
	if !slices.ContainsFunc(file.Loads, func(l wakeup.Load) bool { return l.Error == "" }) {
		file.Warn(measure.Warning{Code: "idle", Text: "nothing ran beside it: on an idle machine caches are warm, " +
			"buses are free and few interrupts come, which hides the truth",
			Hint: "--load own, --load stress-ng or what the machine does in earnest"})
	}
	if file.Total.Beyond > 0 {
		file.Warn(measure.Warning{Code: "beyond", Text: fmt.Sprintf("%d were longer than the histogram of %s "+
			"reaches: of these only the longest is known", file.Total.Beyond, file.Tool.Name)})
	}
	if s := file.Counted; s != nil && s.LeftOut > 0 {
		file.Warn(measure.Warning{Code: "counters-left-out",
			Text: fmt.Sprintf("%d counters that moved were left out for lack of room", s.LeftOut)})
	}
}
