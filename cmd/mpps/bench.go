package main

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mpps/internal/cli"
	"mpps/internal/measure"
	"mpps/internal/measure/export"
	"mpps/internal/measure/rig"
	"mpps/internal/measure/traffic"
	"mpps/internal/ops/bench"
	"mpps/internal/ops/change"
	"mpps/internal/ops/saved"
	"mpps/internal/outcome"
	"mpps/internal/report"
	draw "mpps/internal/report/bench"
)

func (a *app) benchCommand() *cobra.Command {
	return verbs("bench", "measure packets, transactions and streams; compare runs", slices.Concat(
		[]*cobra.Command{a.benchPPS(), a.benchTalk(measure.RR), a.benchTalk(measure.CRR), a.benchTalk(measure.Stream),
			a.benchModes()},
		withManner(onlyReads, a.benchCompare()))...)
}

// runFlags are the flags that all measurements of bench share.
type runFlags struct {
	duration, warmUp time.Duration
	repeat           int
	name             string
	keep             bench.Keep
	plan             change.Source
	blocks           int
	seed             uint64
	set              *pflag.FlagSet
}

func (f *runFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.set = flags
	cli.DurationVar(flags, &f.duration, "duration", 5*time.Second, 1, 0, "duration of one trial")
	cli.DurationVar(flags, &f.warmUp, "warm-up", 500*time.Millisecond, 0, 0,
		"warm-up traffic before the first trial, not counted")
	cli.IntVar(flags, &f.repeat, "repeat", 6, 1, 10000, "number of trials; a 95 % interval needs at least 6")
	flags.StringVar(&f.name, "name", "", "label of the result")
	addKeep(flags, &f.keep, "run")
	flags.StringVar(&f.plan.Name, "plan", "", "compare the host as found with the host under this plan; rolls back "+
		"afterwards")
	flags.BoolVar(&f.plan.Foreign, "foreign", false, "with --plan: also apply changes that mpps would not plan for "+
		"this host")
	cli.IntVar(flags, &f.blocks, "blocks", 6, 1, 1000, "with --plan: blocks of four trials; small differences need "+
		"at least 6")
	flags.Uint64Var(&f.seed, "seed", 0, "with --plan: random seed of the trial order (default: random)")
	formatFlag(cmd, "text", "json")
}

// check refuses contradicting flags.
func (f *runFlags) check() error {
	switch {
	case f.plan.Name == "" && (f.set.Changed("blocks") || f.set.Changed("seed") || f.plan.Foreign):
		return usage(errors.New("--blocks and --seed belong to --plan"), "")
	case f.plan.Name != "" && f.set.Changed("repeat"):
		return usage(errors.New("--plan and --repeat: expected one of them"),
			"--blocks says how many trials there are: two a side in each")
	}
	return nil
}

// setTimes fills in the duration, warm-up and number of trials.
func (f *runFlags) setTimes(load *measure.Load) {
	load.Duration, load.WarmUp, load.Repeat = f.duration, f.warmUp, f.repeat
}

// measure measures and answers: one run, or with --plan two alternately.
func (a *app) measure(ctx context.Context, kind measure.Kind, f *runFlags, load measure.Load, of bench.Subject) error {
	if err := a.checkFormat(kind, load); err != nil {
		return err
	}
	m := &bench.Measurement{Kind: kind, Load: load, Name: f.name, Of: of, Keep: f.keep}
	if f.plan.Name != "" {
		return a.measureInTurns(ctx, m, f)
	}
	run, saved, failure := m.Run(ctx, a.env())
	if run == nil {
		return failure
	}
	return joinFailure(failure, a.answer(report.Answer{
		Verb: "bench-" + string(run.Kind), Host: run.Host, Result: run, Warnings: run.Warnings,
		Text: func(t *report.Text) { draw.RunText(t, run, saved) },
	}, func(s *export.Set) { s.Add("", run) }))
}

// measureInTurns compares the machine as found with a plan.
func (a *app) measureInTurns(ctx context.Context, m *bench.Measurement, f *runFlags) error {
	ab, saved, failure := m.InTurns(ctx, a.env(), f.plan, f.blocks, seedOf(f.set, f.seed))
	if ab == nil {
		return failure
	}
	return joinFailure(failure, a.answer(report.Answer{
		Verb: "bench-ab", Host: ab.BeforeRun.Host, Result: ab, Warnings: ab.AllWarnings(),
		Text: func(t *report.Text) { draw.TurnsText(t, ab, saved) },
	}, func(s *export.Set) { s.AddAB(ab) }))
}

// joinFailure returns the error of a command that has printed a result. failure is what ended it early or carries its
// exit code; shown is the error of printing.
func joinFailure(failure, shown error) error {
	if shown == nil || failure != nil && !outcome.Silent(failure) {
		return errors.Join(failure, shown)
	}
	return shown
}

// seedOf returns --seed, or a random seed if it was not given.
func seedOf(set *pflag.FlagSet, seed uint64) uint64 {
	if set.Changed("seed") {
		return seed
	}
	return uint64(rand.Uint32())
}

// ppsFlags are the flags of bench pps.
type ppsFlags struct {
	runFlags
	path    trafficFlags
	rate    float64
	latency bool
}

func (a *app) benchPPS() *cobra.Command {
	var f ppsFlags
	cmd := verb("pps", "measure packets per second, and where they are lost", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) error {
			load, err := f.load()
			if err != nil {
				return err
			}
			return a.measure(cmd.Context(), measure.PPS, &f.runFlags, load, &f.path.Path)
		})
	f.add(cmd)
	return cmd
}

func (f *ppsFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.runFlags.add(cmd)
	f.path.add(flags, "cpus")
	f.path.addPackets(flags)
	cli.ValueVar(flags, &f.rate, "rate", "", "send rate in packets per second, such "+
		"as 100k; 0 is as fast as possible", parseRate)
	flags.BoolVar(&f.latency, "latency", false, "measure one-way delay with timestamps; slows the generator "+
		"(default: with --rate)")
}

// load checks the flags against each other and returns the load.
func (f *ppsFlags) load() (measure.Load, error) {
	if err := cmp.Or(checkEnds(&f.path.Ends, f.path.Forward), f.check()); err != nil {
		return measure.Load{}, err
	}
	load, err := f.path.load(f.latency)
	if err != nil {
		return load, err
	}
	f.setTimes(&load)
	load.Rate = f.rate
	// One-way delays need one clock; stamping frames would lower the highest rate.
	pktgen := f.path.Options.Generator == traffic.Pktgen
	load.Latency = f.path.Agent == "" && !pktgen && (f.latency || f.rate > 0)
	return load, rig.CheckLoad(load)
}

func (a *app) benchCompare() *cobra.Command {
	cmd := verb("compare BEFORE.json AFTER.json", "compare two runs: ratio and interval, or ~ for no difference",
		cobra.ExactArgs(2), func(_ *cobra.Command, files []string) error {
			var runs [2]*measure.Run
			var names [2]string
			for i, file := range files {
				r, err := saved.ReadRun(file)
				if err != nil {
					return err
				}
				runs[i], names[i] = r.Run, r.Label()
			}
			before, after := runs[0], runs[1]
			c, caveats, err := measure.CompareRuns(before, after, names)
			if err != nil {
				return usage(err, "compare runs of the same kind")
			}
			return a.answer(report.Answer{
				Verb: "bench-compare", Host: after.Host, Result: c, Warnings: caveats,
				Text: func(t *report.Text) { draw.ComparedText(t, c) },
			}, func(s *export.Set) {
				s.Runs = []export.Labeled{{Label: c.Runs[0], Side: "before", Run: before},
					{Label: c.Runs[1], Side: "after", Run: after}}
				s.Ratios = []export.Ratio{{Label: c.Runs[0] + " → " + c.Runs[1], Kind: c.Kind,
					Comparison: c.Comparison}}
			})
		})
	formatFlag(cmd, "text", "json")
	return cmd
}
