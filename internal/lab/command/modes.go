package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mpps/internal/cli"
	"mpps/internal/measure"
	"mpps/internal/ops"
	"mpps/internal/ops/bench"
	"mpps/internal/outcome"
	"mpps/internal/report"
	draw "mpps/internal/report/bench"
	"mpps/internal/version"
)

// modesFlags are the flags of modes, except campaignFlags.
type modesFlags struct {
	campaign                 *campaign
	only                     []string
	duration, warmUp, budget time.Duration
	notes                    []string
	keep                     bench.Keep
	checkpoint, resume       string
	set                      *pflag.FlagSet
	stamp                    time.Time
}

// campaignFlags are passed on to 'mpps bench modes' on the emulated host.
var campaignFlags = []struct{ name, short, otherwise, use string }{
	{"workloads", "", "", "what is measured of each mode (default: all)"},
	{"repeat", "", "", "samples of each mode and workload: N, or MIN,MAX with -I (default: 3)"},
	{"interval", "I", "", "LEVEL,WIDTH in percent: sample until the interval is so narrow"},
	{"frame", "", "", "pps: frame size in bytes, including FCS (default: 64)"},
	{"flows", "", "", "pps: number of flows (default: 16)"},
	{"connections", "", "", "stream, rr: concurrent TCP connections (default: 1)"},
	{"generator", "", "", "pps: traffic generator: auto, xdp or af_packet (default: auto)"},
	// The verifier takes several seconds in an emulated guest.
	{"sink", "", "af_packet", "pps: receiver: xdp-skb, xdp or af_packet"},
	{"cpus", "", "", "pps: CPUs of the emulated host for the generator"},
	{"seed", "", "", "random seed of the order (default: random)"},
	{"name", "", "", "label of the result"},
}

// campaignCommand is a command that measures the modes of a campaign.
func (a *app) campaignCommand(c *campaign) *cobra.Command {
	f := modesFlags{campaign: c}
	cmd := &cobra.Command{
		Use:   c.name,
		Short: c.short,
		Long: strings.TrimSpace(c.long) + `

Continue an interrupted campaign:
  mpps-lab ` + c.name + ` --resume FILE

Exit codes: 0 measured · 1 failed, or ended early · 3 not configured · 64 usage.`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.set, f.stamp = cmd.Flags(), time.Now().UTC()
			return a.modes(cmd.Context(), &f)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.only, "only", nil, "measure only these (default: all), and always "+c.reference)
	flags.DurationVar(&f.duration, "duration", time.Second, "duration of one sample")
	flags.DurationVar(&f.warmUp, "warm-up", 200*time.Millisecond, "warm-up traffic before each sample, not counted")
	flags.DurationVar(&f.budget, "search-budget", 10*time.Second, "ndr: traffic time limit of one search")
	for _, c := range campaignFlags {
		flags.StringP(c.name, c.short, c.otherwise, c.use)
	}
	flags.StringArrayVar(&f.notes, "note", nil, "note stored with the result; repeatable")
	cli.OutputVar(flags, &f.keep.File, "output,o", "", "write the result to this file")
	flags.BoolVar(&f.keep.Runs, "keep", true, "store the result, and samples while measuring, in /var/lib/mpps/runs")
	cli.OutputVar(flags, &f.checkpoint, "checkpoint", "", "write each sample to this file at once")
	flags.StringVar(&f.resume, "resume", "", "continue the campaign of this file")
	return cmd
}

// modes boots the host, measures its guests and prints the result.
func (a *app) modes(ctx context.Context, f *modesFlags) (err error) {
	argv, wanted, err := f.command()
	if err != nil {
		return err
	}
	a.out.Step("an emulated host, %s", f.campaign.scene)
	s, err := a.openModesScene(ctx, f.campaign, wanted)
	if err != nil {
		return err
	}
	defer func() { err = closeAfter(s.lab, err) }()
	env := &ops.Env{Root: "/", Version: version.Version, Out: a.out}
	log := bench.NewCampaignLog(env, f.keep, cmp.Or(f.resume, f.checkpoint), f.stamp)
	w := &modesWatch{env: env, share: s.lab.ShareDir(), log: log, stall: stall + f.duration + f.warmUp + f.budget}
	if f.resume != "" {
		if err := s.lab.Put(modesSamples, f.resume); err != nil {
			return err
		}
	} else {
		for _, m := range f.campaign.modesOf(s.wanted) {
			argv = append(argv, "--mode", modeArg(m))
		}
		for _, note := range s.left {
			argv = append(argv, "--note", note)
		}
	}
	failure := s.measureOn(ctx, w, argv)
	if failure == nil {
		failure = s.unchanged(ctx)
	}
	if err := w.copy(); err != nil {
		return errors.Join(failure, err)
	}
	m, err := w.result()
	if err != nil || m == nil {
		return errors.Join(failure, err)
	}
	if m.Partial && ctx.Err() != nil {
		failure = nil // the user had enough
	}
	return a.finishModes(env, m, f, log, failure)
}

// command returns the command line for the emulated host, without its modes, and the modes needed there.
func (f *modesFlags) command() (argv, wanted []string, err error) {
	if f.resume != "" {
		return f.resumeCommand()
	}
	if wanted, err = f.campaign.wanted(f.only); err != nil {
		return nil, nil, err
	}
	argv = append(modesCommand(), "--native", f.campaign.reference, "--checkpoint", "/share/"+modesSamples,
		"--duration", f.duration.String(), "--warm-up", f.warmUp.String(), "--search-budget", f.budget.String())
	for _, c := range campaignFlags {
		if text := f.set.Lookup(c.name).Value.String(); text != "" {
			argv = append(argv, "--"+c.name, text)
		}
	}
	for _, note := range slices.Concat(f.campaign.notes, f.notes) {
		argv = append(argv, "--note", note)
	}
	return argv, wanted, nil
}

// resumeCommand returns the command line that resumes the file's campaign.
func (f *modesFlags) resumeCommand() (argv, wanted []string, err error) {
	plan := []string{"only", "duration", "warm-up", "search-budget", "note"}
	for _, c := range campaignFlags {
		plan = append(plan, c.name)
	}
	for _, name := range plan {
		if f.set.Changed(name) {
			return nil, nil, outcome.Usage(fmt.Errorf("--resume and --%s: the file has the plan", name), "")
		}
	}
	if f.checkpoint != "" {
		return nil, nil, outcome.Usage(errors.New("--resume and --checkpoint: the file is both"), "")
	}
	c, _, err := bench.ResumeCampaign(f.resume)
	if err != nil {
		return nil, nil, err
	}
	var names []string
	for _, m := range c.Plan.Modes {
		names = append(names, m.Name)
	}
	if wanted, err = f.campaign.wanted(names); err != nil {
		return nil, nil, outcome.Failed(fmt.Errorf("campaign %s: its modes are not those of the emulated host",
			f.resume),
			"'mpps bench modes --resume' goes on with it")
	}
	return resumeInLab(), wanted, nil
}

// finishModes saves and shows a result. failure is what ended the campaign early, or nil.
func (a *app) finishModes(env *ops.Env, m *measure.Modes, f *modesFlags, log *bench.CampaignLog, failure error) error {
	saved, shown, failure := bench.FinishCampaign(env, m, f.keep, log, "mpps-lab "+f.campaign.name, failure)
	if !shown {
		return failure
	}
	return errors.Join(failure, a.out.Answer(report.Answer{
		Verb: "bench-modes", Host: m.Host, Result: m, Warnings: m.Warnings,
		Text: func(t *report.Text) { draw.ModesText(t, m, saved) },
	}))
}
