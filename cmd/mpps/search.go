package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/measure"
	"mpps/internal/measure/adapter"
	"mpps/internal/measure/search"
	"mpps/internal/ops"
	"mpps/internal/outcome"
	"mpps/internal/report"
	"mpps/internal/traffic"
)

// searchFlags are the flags of search.
type searchFlags struct {
	path         ppsFlags // the ends, where our own generator sends
	command      string
	grace        time.Duration
	minPPS       string
	maxPPS       string
	pdr, width   float64
	compliant    bool
	budget       time.Duration
	final        time.Duration
	name, output string
	changed      func(string) bool
}

func (a *app) searchCommand() *cobra.Command {
	var f searchFlags
	cmd := &cobra.Command{
		Use:   "search",
		Short: "the highest rate without loss (NDR) and within a loss (PDR)",
		Long: `Finds the highest rate that a device carries without loss (NDR) and with no
more than a share of loss (PDR, 0.5 %) in one run: some 10 to 15 s of traffic.
The ends are those of 'mpps bench pps'. Bounds hold for the typical second;
with --compliant lower bounds are proven by trials of 60 s without loss, as
RFC 2544 wants them.

  mpps search --from netns:A/veth0 --to netns:B/veth1
  mpps search --via br0 --agent 10.50.0.2:7878 -o ndr.json
  mpps search --trial-command 'trex.py --server 192.0.2.9' --max-pps 14.88M

Any other generator by --trial-command: the program is started once, without a
shell, and is given a line {"pps", "frame_bytes", "seconds"} for each trial,
which it answers by a line {"sent", "received", "seconds"} (docs/search.md).

Exit codes: 0 found · 1 failed, or ended early · 5 the generator or the
receiver was the limit, not the device under test · 64 usage.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runSearch(cmd.Context(), &f) },
	}
	f.add(cmd)
	return cmd
}

func (f *searchFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.path.addEnds(cmd)
	f.path.addPath(cmd)
	flags.StringVar(&f.command, "trial-command", "", "program that does the trials, with its arguments")
	flags.DurationVar(&f.grace, "trial-grace", 60*time.Second, "how long after a trial's time its answer is waited for")
	flags.StringVar(&f.maxPPS, "max-pps", "", "highest load, such as 14.88M (default: what our generator can do)")
	flags.StringVar(&f.minPPS, "min-pps", "", "lowest load (default: the 10000th part of the highest)")
	flags.Float64Var(&f.pdr, "pdr", 0.005, "share of loss of the PDR")
	flags.Float64Var(&f.width, "width", 0.005, "how far the bounds may be apart, as a share of the result")
	flags.BoolVar(&f.compliant, "compliant", false, "prove lower bounds by final trials of 60 s without loss (RFC 2544)")
	flags.DurationVar(&f.final, "final", 60*time.Second, "with --compliant: length of a final trial")
	flags.DurationVar(&f.budget, "budget", 0, "most time of traffic (default: 1m, with --compliant 20m)")
	flags.StringVar(&f.name, "name", "", "a label for the result")
	flags.StringVarP(&f.output, "output", "o", "", "write the result to this file")
	flags.BoolVar(&f.path.keep, "keep", true, "keep the result in /var/lib/mpps/runs")
	f.changed, f.path.changed = flags.Changed, flags.Changed
}

// pathFlagNames are the flags that belong to our own generator.
var pathFlagNames = []string{"from", "to", "via", "agent", "guest-nic", "secret-file", "reverse", "generator", "sink", "cpus", "flows", "imix",
	"two-way", "forward", "out", "gateway", "gateway-mac", "clone-skb", "burst"}

// options are what the flags ask for.
func (f *searchFlags) options() (search.Options, error) {
	o := search.Options{Mode: search.Fast, PDR: f.pdr, Width: f.width, Budget: f.budget, Final: f.final}
	if f.compliant {
		o.Mode = search.Compliant
	}
	var err error
	if o.FrameBytes, _, err = f.path.sizes(); err != nil {
		return o, err
	}
	if o.MaxPPS, err = rateOf("max-pps", f.maxPPS); err != nil {
		return o, err
	}
	if o.MinPPS, err = rateOf("min-pps", f.minPPS); err != nil {
		return o, err
	}
	switch {
	case !f.compliant && f.changed("final"):
		return o, usage(errors.New("--final belongs to --compliant"), "")
	case f.changed("budget") && f.budget <= 0:
		return o, usage(fmt.Errorf("--budget %v: expected more than nothing", f.budget), "")
	case f.budget == 0 && f.compliant:
		o.Budget = max(20*time.Minute, 20*f.final)
	case f.budget == 0:
		o.Budget = time.Minute
	}
	if f.command != "" {
		for _, name := range pathFlagNames {
			if f.changed(name) {
				return o, usage(fmt.Errorf("--trial-command and --%s: expected one of them", name), "the program knows its own ends")
			}
		}
		if o.MaxPPS == 0 {
			return o, usage(errors.New("--trial-command needs --max-pps: nothing else says how much it can send"), "64-byte frames fill 10 Gbit/s at 14.88M")
		}
		if f.grace <= 0 {
			return o, usage(fmt.Errorf("--trial-grace %v: expected more than nothing", f.grace), "")
		}
	} else if f.changed("trial-grace") {
		return o, usage(errors.New("--trial-grace belongs to --trial-command"), "")
	}
	if o.MinPPS == 0 {
		o.MinPPS = max(1, o.MaxPPS/10000)
		if o.MaxPPS > 0 {
			o.MinPPS = min(o.MinPPS, o.MaxPPS/2)
		}
	}
	check := o
	if check.MaxPPS == 0 {
		check.MaxPPS = 2 * o.MinPPS // measured later
	}
	if err := check.Check(); err != nil {
		return o, usage(err, "")
	}
	// Other generators may have larger frames than ours.
	if most := map[bool]int{true: 16 << 10, false: traffic.MaxFrame}[f.command != ""]; o.FrameBytes < traffic.MinFrame || o.FrameBytes > most {
		return o, usage(fmt.Errorf("frames of %d bytes: expected %d to %d", o.FrameBytes, traffic.MinFrame, most), "sizes count the FCS, as in RFC 2544")
	}
	return o, nil
}

func rateOf(flag, text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	v, err := goal.ParseRate(text)
	if err == nil && v <= 0 {
		err = fmt.Errorf("expected more than nothing, found %q", text)
	}
	if err != nil {
		return 0, usage(fmt.Errorf("--%s: %w", flag, err), "")
	}
	return v, nil
}

func (a *app) runSearch(ctx context.Context, f *searchFlags) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	// A shell that goes away ends it like Ctrl-C.
	ctx, stop := ops.UntilHangup(ctx)
	defer stop()
	o.Progress = func(s search.Step) {
		a.out.Progress("trial %d, %.0f s of traffic so far: %s pps for %g s (%s)", s.N, s.Spent, goal.FormatRate(s.PPS), s.Seconds, s.Purpose)
	}
	if f.command != "" {
		return a.searchByCommand(ctx, f, o)
	}
	return a.searchPath(ctx, f, o)
}

// searchByCommand searches with another program's trials.
func (a *app) searchByCommand(ctx context.Context, f *searchFlags, o search.Options) error {
	run, err := a.newRun(ctx, measure.PPS, f.name, measure.Load{})
	if err != nil {
		return err
	}
	p, err := adapter.Start(f.command, f.grace)
	if err != nil {
		return err
	}
	started := time.Now()
	r, err := search.Run(ctx, p, o)
	wrong := p.Close()
	if r == nil {
		return errors.Join(err, wrong)
	}
	s := &measure.Search{
		Schema: measure.SchemaSearch, Name: f.name, Result: *r, Host: run.Host, Environment: run.Environment, Command: f.command,
		Started: started.UTC(), WallSeconds: time.Since(started).Seconds(), FrameBytes: o.FrameBytes, MinPPS: o.MinPPS, MaxPPS: o.MaxPPS,
	}
	if s.LimitedBy == "load" {
		s.LimitedBy = string(measure.ByNothing)
	}
	return a.finishSearch(ctx, s, f, errors.Join(err, wrong))
}

// searchPath searches with our own generator and receiver.
func (a *app) searchPath(ctx context.Context, f *searchFlags, o search.Options) error {
	f.path.rate, f.path.duration, f.path.repeat, f.path.blocks = "0", time.Second, 1, 1
	load, options, err := f.path.plan()
	if err != nil {
		return err
	}
	m, err := a.openMachine()
	if err != nil {
		return err
	}
	defer m.Close()
	load.Rate = 1 // paced trials: where it is told so from the beginning, generators prepare for it
	p, err := f.path.path(ctx, m, load, options)
	if err != nil {
		return err
	}
	run, err := a.newRun(ctx, measure.PPS, f.name, load)
	if err != nil {
		return errors.Join(err, p.Close())
	}
	s := &measure.Search{Name: f.name, Host: run.Host, Environment: run.Environment, From: p.From, To: p.To}
	d := &measure.Searched{Bench: &measure.Bench{Path: p, Progress: a.progress(measure.PPS)}, Load: load}
	err = d.Search(ctx, s, o)
	s.Environment.FarHost, s.Environment.FarKernel = p.FarHost, p.FarKernel
	s.Environment.Generator, s.Environment.Sink = p.Generator(), p.Sink()
	s.Warnings = append(s.Warnings, p.Warnings...)
	return a.finishSearch(ctx, s, f, errors.Join(err, p.Close()))
}

// finishSearch saves and shows a search. failure is what ended it early, or nil.
func (a *app) finishSearch(ctx context.Context, s *measure.Search, f *searchFlags, failure error) error {
	if s.Trials == 0 {
		if interrupted(ctx, failure) {
			return outcome.Failed(errors.New("interrupted before the first trial was complete"), "")
		}
		return failure
	}
	var text bytes.Buffer
	whole := facts.Whole(s)
	if err := measure.EncodeSearch(&text, whole); err != nil {
		return errors.Join(failure, fmt.Errorf("encode the search: %w", err))
	}
	f.path.output = f.output
	saved, err := a.save(text.Bytes(), s.Started, "search", &f.path.benchFlags, s.Warn)
	if err != nil {
		return errors.Join(failure, err)
	}
	var warnings []outcome.Warning
	warnings = append(warnings, s.Warnings...)
	err = a.out.Answer(report.Answer{
		Verb: "search", Host: s.Host, Result: whole, Warnings: warnings,
		Text: func(t *report.Text) { drawSearch(t, s, saved) },
	})
	switch {
	case interrupted(ctx, failure):
		return errors.Join(err, outcome.Failed(fmt.Errorf("interrupted after %s: the bounds are what was known by then", ops.Count(s.Trials, "trial")), ""))
	case err != nil || failure != nil:
		return errors.Join(failure, err)
	case !s.Valid():
		return outcome.Exit(outcome.CodeNotDevice)
	}
	return nil
}
