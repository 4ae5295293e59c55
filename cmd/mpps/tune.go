package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mpps/internal/cli"
	"mpps/internal/measure/rig"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/ops"
	"mpps/internal/ops/tuning"
	"mpps/internal/outcome"
	"mpps/internal/report"
	draw "mpps/internal/report/tuning"
)

// tuneFlags are the flags of tune.
type tuneFlags struct {
	goal goalFlags
	path trafficFlags
	trialFlags
	tuning.Options
	page string
	set  *pflag.FlagSet
}

func (a *app) tuneCommand() *cobra.Command {
	var f tuneFlags
	cmd := verb("tune", "try changes in a loop; keep only what measurably helps", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) error {
			if f.Resume {
				if err := a.resumeTune(cmd, &f); err != nil {
					return err
				}
			}
			return a.runTune(cmd.Context(), &f)
		})
	f.add(cmd, a)
	return cmd
}

func (f *tuneFlags) add(cmd *cobra.Command, a *app) {
	flags := cmd.Flags()
	f.goal.add(cmd, a)
	f.set = flags
	f.path.add(flags, generatorCPUs)
	f.trialFlags.add(flags)
	cli.DurationVar(flags, &f.Budget, "budget", 30*time.Minute, 0, 0, "time limit of the run; 0 is no limit")
	cli.DurationVar(flags, &f.Trial, "trial", tuning.Slice, 100*time.Millisecond, time.Minute,
		"duration of one trial (default with --trial-command: 1s)")
	flags.Uint64Var(&f.Seed, "seed", 0, "random seed of the trial order (default: random)")
	flags.BoolVar(&f.Restarts, "restarts", false, "also apply changes that need a restart: guests first, the host last")
	flags.BoolVar(&f.Resume, "resume", false, "continue after the restart that the last --restarts run waited for")
	flags.BoolVar(&f.Propose, "propose", false, "revert everything; show what would be kept")
	flags.BoolVar(&f.RuntimeOnly, "runtime-only", false, "do not make kept changes persistent")
	flags.StringSliceVar(&f.Only, "only", nil, "try only these settings, by ID or family, such as nic.*")
	cli.Check(flags, "only", checkKnobs)
	flags.StringSliceVar(&f.Learned, "learned", nil, "effects.json of another host, to order the trials")
	addKeep(flags, &f.Keep, "result")
	cli.OutputVar(flags, &f.page, "report", "", "write an HTML report to this file; or run 'mpps report RESULT' later")
	cli.OutputVar(flags, &f.PlanFile, "plan-output", "", "write the final plan to this file for 'mpps apply'")
}

// generatorCPUs is the flag for the generator's CPUs: --cpus are the guest's.
const generatorCPUs = "generator-cpus"

// target returns the goal, or an error for what tune cannot do.
func (f *tuneFlags) target() (goal.Goal, error) {
	g, err := f.goal.namedGoal("tune")
	switch {
	case err != nil:
		return g, err
	case g.Latency > 0 || g.Bulk > 0:
		return g, usage(errors.New("--latency and --bulk: tune drives towards packets per second"),
			"give --pps; for wake-up latency 'mpps apply --latency' and 'mpps latency'")
	case g.NIC == "vf":
		return g, usage(errors.New("--nic vf: how a guest is attached is no change to be tried in turns"),
			"see 'mpps sriov assign'")
	case f.Propose && f.Restarts:
		return g, usage(errors.New("--propose and --restarts: nothing stays of what is proposed"), "")
	case f.command == "" && f.set.Changed("max-pps"):
		return g, usage(errors.New("--max-pps belongs to --trial-command"), "")
	}
	if err := f.check(f.set, generatorCPUs, f.maxPPS); err != nil {
		return g, err
	}
	g.Frame = max(g.Frame, 64)
	f.path.frame.bytes = g.Frame
	return g, nil
}

func (a *app) runTune(ctx context.Context, f *tuneFlags) (err error) {
	if f.Goal, err = f.target(); err != nil {
		return err
	}
	if err := a.env().NeedsRoot("tune"); err != nil {
		return err
	}
	if f.command != "" && !f.set.Changed("trial") {
		f.Trial = time.Second
	}
	f.Seed, f.Flags, f.Write = seedOf(f.set, f.Seed), givenFlags(f.set), a.writeFile
	r, saved, failure := tuning.Run(ctx, a.env(), f.Options,
		func(ctx context.Context) (tuning.Gauge, error) { return f.gauge(ctx, a.env()) })
	if r == nil {
		return failure
	}
	if f.page != "" {
		if err := a.writeTunePage(f.page, r); err != nil {
			return joinFailure(failure, err)
		}
	}
	return joinFailure(failure, a.out.Answer(report.Answer{
		Verb: "tune", Host: r.Host, Result: facts.NonNil(r), Warnings: r.Warnings,
		Text: func(t *report.Text) { draw.Text(t, r, saved) },
	}))
}

// gauge opens the gauge: our own generator, or the program of --trial-command.
func (f *tuneFlags) gauge(ctx context.Context, env *ops.Env) (tuning.Gauge, error) {
	if f.command != "" {
		return tuning.NewProgramGauge(env, f.command, f.grace, f.maxPPS, f.Goal, f.Budget)
	}
	load, err := f.path.load(false)
	if err != nil {
		return nil, err
	}
	load.Duration, load.Repeat = time.Second, 1
	if err := rig.CheckLoad(load); err != nil {
		return nil, err
	}
	return tuning.NewPathGauge(ctx, env, &f.path.Path, load, f.Goal, f.Budget)
}

// resumeTune takes over the flags and the state of the run that waits.
func (a *app) resumeTune(cmd *cobra.Command, f *tuneFlags) error {
	for name := range givenFlags(cmd.Flags()) {
		return usage(fmt.Errorf("--resume and --%s: the run that waits has its flags", name),
			"beside --resume only --restarts, --budget, --seed and where the result goes may be given")
	}
	earlier, flags, err := tuning.ReadWaiting(cmd.Context(), a.env())
	if err != nil {
		return err
	}
	for name, values := range flags {
		if err := setAgain(cmd.Flags(), name, values); err != nil {
			return outcome.Failed(fmt.Errorf("the run that waits: --%s: %w", name, err), "start over: 'mpps tune …'")
		}
	}
	if !f.set.Changed("pps") { // of a version whose default was this one
		if err := cmd.Flags().Set("pps", goal.FormatRate(goal.Unlimited().PPS)); err != nil {
			return outcome.Failed(fmt.Errorf("the run that waits has no target: %w", err), "start over: 'mpps tune …'")
		}
	}
	f.Earlier = earlier
	return nil
}

// perCallFlags are the flags that a resumed run does not take over.
var perCallFlags = []string{"resume", "restarts", "output", "report", "plan-output", "json", "quiet", "no-color",
	"verbose", "root", "seed", "budget"}

// givenFlags returns the flags on a command line with their values, except perCallFlags.
func givenFlags(flags *pflag.FlagSet) map[string][]string {
	all := map[string][]string{}
	flags.Visit(func(f *pflag.Flag) {
		if slices.Contains(perCallFlags, f.Name) {
			return
		}
		if many, is := f.Value.(pflag.SliceValue); is {
			all[f.Name] = many.GetSlice()
		} else {
			all[f.Name] = []string{f.Value.String()}
		}
	})
	return all
}

// setAgain sets a flag to values returned by givenFlags, so that givenFlags finds it again.
func setAgain(flags *pflag.FlagSet, name string, values []string) error {
	f := flags.Lookup(name)
	if f == nil {
		return errors.New("there is no such flag")
	}
	many, is := f.Value.(pflag.SliceValue)
	if len(values) == 0 || !is && len(values) != 1 {
		return fmt.Errorf("found %d values, expected one", len(values))
	}
	// Set first, even if Replace follows: only Set marks a flag as given.
	if err := flags.Set(name, values[0]); err != nil || !is {
		return err
	}
	return many.Replace(values)
}
