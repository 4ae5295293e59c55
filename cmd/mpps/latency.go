package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/cli"
	"mpps/internal/measure/wakeloop"
	"mpps/internal/measure/wakeup"
	"mpps/internal/model/setting"
	"mpps/internal/ops/latency"
	"mpps/internal/ops/saved"
	"mpps/internal/outcome"
	"mpps/internal/owned"
	"mpps/internal/report"
	"mpps/internal/report/bench"
	"mpps/internal/words"
)

// latencyFlags are the flags of latency.
type latencyFlags struct {
	latency.Options
	output, before string
	imported       []string // outputs of other measurements; empty: measure
}

func (a *app) latencyCommand() *cobra.Command {
	var f latencyFlags
	cmd := &cobra.Command{
		Use:   "latency",
		Short: "measure how late threads wake up, and why the worst did",
		Args:  func(_ *cobra.Command, more []string) error { return f.checkFiles(more) },
		RunE: func(cmd *cobra.Command, more []string) error {
			if len(f.imported) > 0 {
				f.imported = append(f.imported, more...)
				a.reads.Store(true)
				return a.answerWakeups(&f, func() (*wakeup.File, error) { return f.read() })
			}
			if err := f.check(); err != nil {
				return err
			}
			return a.answerWakeups(&f, func() (*wakeup.File, error) {
				return latency.Run(cmd.Context(), a.env(), f.Options)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.Guest, "guest", "", "running libvirt guest to measure (default: this host)")
	cli.ValueVar(flags, &f.CPUs, "cpu", "",
		"CPUs of the guest or host to measure, such as 1 or 2-3 (default: the isolated ones, else the last)", parseCPUs)
	flags.DurationVar(&f.For, "for", 10*time.Minute, "duration of one run, in whole seconds")
	cli.IntVar(flags, &f.Runs, "runs", 5, 1, maxRuns, "number of runs; a reliable comparison needs at least 6")
	flags.DurationVar(&f.Slice, "slice", 0, "duration of one slice, in whole seconds (default: 10s, less for short "+
		"runs)")
	cli.DurationVar(flags, &f.Interval, "interval", 200*time.Microsecond, 20*time.Microsecond, time.Second,
		"time between wake-ups")
	cli.IntVar(flags, &f.Priority, "priority", 95, 1, 99, "SCHED_FIFO priority, 1 to 99")
	cli.ChoiceVar(flags, &f.Tool, "tool", "auto", "measuring tool: cyclictest, timerlat, "+
		"oslat, own or auto", toolNames()...)
	flags.StringVar(&f.Load, "load", "own", "load: own, stress-ng, none or a command")
	cli.CheckLater(flags, "load", func(text string) error {
		if slices.Contains([]string{"own", "stress-ng", "none"}, text) {
			return nil
		}
		return isProgram(text)
	})
	flags.StringVar(&f.Name, "name", "", "label of the result")
	cli.OutputVar(flags, &f.output, "output,o", "", "write the result to this file")
	flags.StringVar(&f.before, "against", "", "earlier result to compare with")
	flags.StringArrayVar(&f.imported, "import", nil, "read outputs of cyclictest, oslat, rtla timerlat or rtla "+
		"osnoise instead of measuring, one run each: --import `FILE` FILE…")
	cmd.AddCommand(a.latencyLoop(), a.latencyLoad())
	return cmd
}

// maxRuns bounds the runs, and maxLength one of them.
const (
	maxRuns   = 1000
	maxLength = 7 * 24 * time.Hour
)

// isProgram checks a command line for a program that can be run.
func isProgram(line string) error {
	if words := strings.Fields(line); len(words) == 0 || !owned.Exists(words[0]) {
		return fmt.Errorf(" %q: there is no such program", line)
	}
	return nil
}

// checkFiles refuses files without --import, and too many.
func (f *latencyFlags) checkFiles(more []string) error {
	switch {
	case len(more) > 0 && len(f.imported) == 0:
		return usage(fmt.Errorf("found %q, expected no argument", more[0]), "--import reads files")
	case len(f.imported)+len(more) > maxRuns:
		return usage(fmt.Errorf("%d files, expected at most %d", len(f.imported)+len(more), maxRuns), "")
	}
	return nil
}

// read reads the outputs named by --import.
func (f *latencyFlags) read() (*wakeup.File, error) {
	tool := f.Tool
	if tool == "auto" {
		tool = ""
	}
	return latency.Import(f.imported, tool, f.Name, version)
}

// check refuses what cannot be measured.
func (f *latencyFlags) check() error {
	if f.Slice == 0 {
		f.Slice = 10 * time.Second
		if f.For < time.Minute {
			f.Slice = max(f.For/6, time.Second).Truncate(time.Second)
		}
	}
	switch {
	case f.For < time.Second || f.For > maxLength || f.For%time.Second != 0:
		return usage(fmt.Errorf("--for %v: expected whole seconds from 1s to %v", f.For, maxLength),
			"10m is long enough to see what happens once a minute")
	case f.Slice < time.Second || f.Slice > f.For || f.Slice%time.Second != 0:
		return usage(fmt.Errorf("--slice %v: expected whole seconds from 1s to --for", f.Slice), "")
	case strings.TrimSpace(f.Load) == "":
		return usage(errors.New("--load: expected own, stress-ng, none or a command"), "")
	case len(f.CPUs) > 64:
		return usage(fmt.Errorf("--cpu %s: expected at most 64 CPUs", f.CPUs),
			"each is a thread that wakes all the time")
	}
	return nil
}

// toolNames returns the values of --tool.
func toolNames() []string {
	programs := words.Each(wakeup.Programs("mpps"), func(p wakeup.Program) string { return p.Name })
	return append([]string{"auto"}, programs...)
}

// latencyAnswer is the answer of latency.
type latencyAnswer struct {
	wakeup.File
	Compared *wakeup.Comparison `json:"compared,omitempty"` // with --against
}

// answerWakeups measures or reads wake-ups, saves and answers.
func (a *app) answerWakeups(f *latencyFlags, measure func() (*wakeup.File, error)) error {
	var before *wakeup.File
	if f.before != "" {
		var err error
		if before, err = saved.ReadWakeups(f.before); err != nil {
			return err
		}
	}
	file, failure := measure()
	if file == nil {
		return failure
	}
	if f.output != "" {
		if err := a.writeJSON(f.output, func(w io.Writer) error { return wakeup.Encode(w, file) }); err != nil {
			return errors.Join(failure, err)
		}
	}
	answer := latencyAnswer{File: *file}
	warnings := file.Warnings
	if before != nil {
		c := wakeup.Compare(before, file)
		answer.Compared = &c
		warnings = slices.Concat(warnings, c.Warnings)
	}
	return joinFailure(failure, a.out.Answer(report.Answer{
		Verb: "latency", Host: file.Host, Result: answer, Warnings: warnings,
		Text: func(t *report.Text) { bench.WakeupsText(t, file, answer.Compared, f.output) },
	}))
}

func (a *app) latencyLoop() *cobra.Command {
	var cpus setting.CPUSet
	var length, interval time.Duration
	var priority int
	cmd := &cobra.Command{
		Use: "loop", Hidden: true, Short: "one slice of mpps' own loop, as JSON (loop)", Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			threads, err := wakeloop.Measure(cmd.Context(),
				wakeloop.Options{CPUs: cpus, Interval: interval, For: length, Priority: priority, Keep: 256})
			if err != nil {
				return outcome.Failed(err, "--cpu takes CPUs that are online")
			}
			return json.NewEncoder(a.stdout).Encode(wakeup.Own{Schema: wakeup.OwnSchema, Version: version,
				Threads: threads})
		},
	}
	flags := cmd.Flags()
	cli.ValueVar(flags, &cpus, "cpu", "0", "CPUs to measure", parseCPUs)
	cli.DurationVar(flags, &length, "for", time.Second, 1, maxRuns*maxLength, "how long")
	cli.DurationVar(flags, &interval, "interval", 200*time.Microsecond, 20*time.Microsecond, time.Second,
		"time between wake-ups")
	cli.IntVar(flags, &priority, "priority", 95, 1, 99, "of SCHED_FIFO")
	return cmd
}

func (a *app) latencyLoad() *cobra.Command {
	var cpus setting.CPUSet
	var length time.Duration
	cmd := &cobra.Command{
		Use: "load", Hidden: true, Short: "busy threads that copy memory, for a while (load)", Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return wakeloop.Load(cmd.Context(), cpus, length) },
	}
	flags := cmd.Flags()
	cli.ValueVar(flags, &cpus, "cpu", fmt.Sprintf("0-%d", runtime.NumCPU()-1), "CPUs to keep busy", parseCPUs)
	cli.DurationVar(flags, &length, "for", time.Minute, 1, maxRuns*maxLength, "how long")
	return cmd
}
