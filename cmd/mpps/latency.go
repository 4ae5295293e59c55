package main

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/measure/wakeup"
	"mpps/internal/setting"
)

// latencyFlags are the flags of latency.
type latencyFlags struct {
	guest, cpu           string
	length, slice        time.Duration
	runs                 int
	interval             time.Duration
	priority             int
	tool, load           string
	name, output, before string

	cpus setting.CPUSet // of cpu
}

func (a *app) latencyCommand() *cobra.Command {
	var f latencyFlags
	cmd := &cobra.Command{
		Use:   "latency",
		Short: "how late threads wake up in a guest or here, and why the worst did",
		Long: `Measures how late a thread of high priority runs after its timer was due: in a
guest, through its QEMU agent, or on this host. cyclictest measures where it is
installed, otherwise rtla's timerlat, otherwise a loop of mpps itself. A load
runs beside it, because an idle machine hides the truth.

  mpps latency --guest rt1 --cpu 1 -o before.json
  mpps latency --guest rt1 --cpu 1 --against before.json -o after.json
  mpps latency --cpu 3 --for 1m --runs 3 --load none
  mpps report before.json after.json -o latency.html

At the same time it counts on the host, ten times a second and away from the
measured CPUs, what could be the cause: stolen time, SMIs, exits of the guest,
interrupts, other threads, idle states and more. What goes with the longest
wake-ups is named, or that nothing does.

Each run is measured in slices, each with its own maximum. Where the tool does
not tell when a long wake-up happened, its slice is how exactly it is known.
With Ctrl-C it ends with what it has, and ends the tool in the guest too.

  --load own        busy threads that copy memory: on the host's CPUs that are
                    neither measured nor isolated nor pinned to by a running
                    guest's vCPU, and on the guest's other CPUs where mpps is
                    in the guest
  --load stress-ng  the same by stress-ng, where installed
  --load none       nothing
  --load 'CMD ARGS' a program of yours on this host, started without a shell;
                    it may run on all CPUs that are not measured

Exit codes: 0 measured · 1 failed, or ended early · 64 usage.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return a.latency(cmd.Context(), &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.guest, "guest", "", "a running guest of libvirt (default: this host)")
	flags.StringVar(&f.cpu, "cpu", "", "CPUs to measure, of the guest or the host, such as 1 or 2-3 (default: the isolated ones, or the last)")
	flags.DurationVar(&f.length, "for", 10*time.Minute, "of one run, in whole seconds")
	flags.IntVar(&f.runs, "runs", 5, "how many; 6 or more can be compared with confidence")
	flags.DurationVar(&f.slice, "slice", 0, "of one slice, in whole seconds (default: 10s, shorter for short runs)")
	flags.DurationVar(&f.interval, "interval", 200*time.Microsecond, "from one wake-up to the next")
	flags.IntVar(&f.priority, "priority", 95, "of SCHED_FIFO, 1 to 99")
	flags.StringVar(&f.tool, "tool", "auto", "cyclictest, timerlat, oslat, own or auto")
	flags.StringVar(&f.load, "load", "own", "own, stress-ng, none or a command")
	flags.StringVar(&f.name, "name", "", "a label for the result")
	flags.StringVarP(&f.output, "output", "o", "", "write the result to this file")
	flags.StringVar(&f.before, "against", "", "a result from before to compare with")
	cmd.AddCommand(a.latencyLoop(), a.latencyLoad())
	return cmd
}

// maxRuns bounds the runs, and maxLength one of them.
const (
	maxRuns   = 1000
	maxLength = 7 * 24 * time.Hour
)

// check refuses what cannot be measured.
func (f *latencyFlags) check() error {
	if f.cpu != "" {
		set, err := setting.ParseCPUs(f.cpu)
		if err != nil || len(set) == 0 {
			return usage(fmt.Errorf("--cpu %q: expected CPUs such as 1 or 2-3", f.cpu), "")
		}
		f.cpus = set
	}
	if f.slice == 0 {
		f.slice = 10 * time.Second
		if f.length < time.Minute {
			f.slice = max(f.length/6, time.Second).Truncate(time.Second)
		}
	}
	var tools []string
	known := f.tool == "auto"
	for _, p := range wakeup.Programs("mpps") {
		tools = append(tools, p.Name)
		known = known || p.Name == f.tool
	}
	switch {
	case f.length < time.Second || f.length > maxLength || f.length%time.Second != 0:
		return usage(fmt.Errorf("--for %v: expected whole seconds from 1s to %v", f.length, maxLength), "10m is long enough to see what happens once a minute")
	case f.runs < 1 || f.runs > maxRuns:
		return usage(fmt.Errorf("--runs %d: expected 1 to %d", f.runs, maxRuns), "")
	case f.slice < time.Second || f.slice > f.length || f.slice%time.Second != 0:
		return usage(fmt.Errorf("--slice %v: expected whole seconds from 1s to --for", f.slice), "")
	case f.interval < 20*time.Microsecond || f.interval > time.Second:
		return usage(fmt.Errorf("--interval %v: expected 20µs to 1s", f.interval), "")
	case f.priority < 1 || f.priority > 99:
		return usage(fmt.Errorf("--priority %d: expected 1 to 99", f.priority), "99 is that of the kernel's own threads that must not wait")
	case !known:
		return usage(fmt.Errorf("--tool %q: expected auto, %s", f.tool, strings.Join(tools, ", ")), "")
	case strings.TrimSpace(f.load) == "":
		return usage(errors.New("--load: expected own, stress-ng, none or a command"), "")
	case len(f.cpus) > 64:
		return usage(fmt.Errorf("--cpu %s: expected at most 64 CPUs", f.cpus), "each is a thread that wakes all the time")
	}
	return nil
}

func (a *app) latencyLoop() *cobra.Command {
	var cpu string
	var length, interval time.Duration
	var priority int
	cmd := &cobra.Command{
		Use: "loop", Hidden: true, Short: "one slice of mpps' own loop, as JSON (loop)", Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.runLoop(cmd.Context(), cpu, length, interval, priority)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&cpu, "cpu", "0", "CPUs to measure")
	flags.DurationVar(&length, "for", time.Second, "how long")
	flags.DurationVar(&interval, "interval", 200*time.Microsecond, "from one wake-up to the next")
	flags.IntVar(&priority, "priority", 95, "of SCHED_FIFO")
	return cmd
}

func (a *app) latencyLoad() *cobra.Command {
	var cpu string
	var length time.Duration
	cmd := &cobra.Command{
		Use: "load", Hidden: true, Short: "busy threads that copy memory, for a while (load)", Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runLoad(cmd.Context(), cpu, length) },
	}
	flags := cmd.Flags()
	flags.StringVar(&cpu, "cpu", fmt.Sprintf("0-%d", runtime.NumCPU()-1), "CPUs to keep busy")
	flags.DurationVar(&length, "for", time.Minute, "how long")
	return cmd
}
