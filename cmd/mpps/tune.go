package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/knob"
	"mpps/internal/measure"
	"mpps/internal/measure/adapter"
	"mpps/internal/ops"
	"mpps/internal/outcome"
	"mpps/internal/plan"
	"mpps/internal/report"
	"mpps/internal/tune"
)

// tuneFlags are the flags of tune.
type tuneFlags struct {
	goal    goalFlags
	path    ppsFlags
	command string
	maxPPS  string
	grace   time.Duration

	budget, trial time.Duration
	seed          uint64
	propose       bool
	runtimeOnly   bool
	restarts      bool          // make what needs a restart, too
	resume        bool          // behind it
	earlier       *tune.Earlier // nil: nothing is gone on with
	learned       []string
	only          []string
	output        string
	planFile      string
	page          string
	changed       func(string) bool
}

func (a *app) tuneCommand() *cobra.Command {
	var f tuneFlags
	cmd := &cobra.Command{
		Use:   "tune",
		Short: "the closed loop: try what helps, keep what is proven to",
		Long: `The closed loop: searches for the highest rate, says which stage holds the path
back, tries what acts there, likeliest first, measures each change against what
stands in pairs of trials, keeps what is proven to help and takes back the rest,
until the target holds in a last search, nothing is left or the budget is spent.
What was kept is proven once more as a whole, then made to last.

  mpps tune --pps 1.8M --via br0 --agent 10.50.0.2:7878 --guest web1
  mpps tune --pps 500k --loss 0.005 --from eth1 --agent 192.0.2.7:7878
  mpps tune --pps 1M --from netns:A/veth0 --to netns:B/veth1 --propose

With --propose nothing stays; --plan-output writes the plan that would; what can
be planned only on top of it goes to a second file (plan.2.json), to be applied
behind it. Each
change is a transaction of one session: if mpps dies on the way, 'mpps status'
says so and 'mpps rollback' restores the beginning. Ctrl-C does so at once.
What gains too little to be shown alone is tried all at once in the end.
Guests are never restarted, the host never rebooted: what needs that is named,
and with --restarts made to take effect then, guests' restarts before a reboot.
Behind the restart 'mpps tune --resume' measures what it gained and goes on.
What helped is kept in /var/lib/mpps/effects.json for the next run; --learned
takes another host's file too (docs/tune.md).

Exit codes: 0 the target holds, or nothing was to be changed · 1 failed or
interrupted · 2 the target is missed · 5 the generator or the receiver is the
limit, not the host · 11 another mpps is at work · 64 usage.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.resume {
				if err := a.goOnTuning(cmd, &f); err != nil {
					return err
				}
			}
			return a.runTune(cmd.Context(), &f)
		},
	}
	f.add(cmd)
	return cmd
}

func (f *tuneFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.goal.add(cmd)
	f.path.addEnds(cmd)
	flags.StringVar(&f.path.via, "via", "", "bridge of this host that leads to the agent, or with --forward to the guest")
	flags.BoolVar(&f.path.forward, "forward", false, "through a guest or router, from --from or --via to --to or --out")
	flags.StringVar(&f.path.out, "out", "", "with --forward: bridge of this host on the far side of the guest")
	flags.StringVar(&f.path.gateway, "gateway", "", "with --forward: the guest's address on the sending side, if it routes")
	flags.StringVar(&f.path.gatewayMAC, "gateway-mac", "", "with --forward: its MAC address, instead of --gateway")
	flags.IntVar(&f.path.flows, "flows", 16, "distinct source addresses and ports")
	flags.StringVar(&f.path.generator, "generator", "auto", "auto, xdp, af_packet or pktgen")
	flags.StringVar(&f.path.sink, "sink", "auto", "auto, xdp, xdp-skb or af_packet")
	flags.StringVar(&f.path.cpus, "generator-cpus", "", "CPUs that the generator runs on, one worker each (default: one of the first allowed)")
	flags.StringVar(&f.command, "trial-command", "", "program that does the trials, with its arguments (docs/search.md)")
	flags.StringVar(&f.maxPPS, "max-pps", "", "with --trial-command: the most that it can send, such as 14.88M")
	flags.DurationVar(&f.grace, "trial-grace", 60*time.Second, "with --trial-command: how long after a trial's time its answer is waited for")
	flags.DurationVar(&f.budget, "budget", 30*time.Minute, "time for all of it; 0: as long as there is something to try")
	flags.DurationVar(&f.trial, "trial", time.Second, "length of one trial")
	flags.Uint64Var(&f.seed, "seed", 0, "of the order of the trials (default: by lot)")
	flags.BoolVar(&f.restarts, "restarts", false, "also make, at the end, what takes effect with a restart only")
	flags.BoolVar(&f.resume, "resume", false, "go on behind the restart that the last run with --restarts waited for")
	flags.BoolVar(&f.propose, "propose", false, "leave nothing: say what would be kept")
	flags.BoolVar(&f.runtimeOnly, "runtime-only", false, "what is kept need not outlast a reboot or an ifup")
	flags.StringSliceVar(&f.only, "only", nil, "try only these knobs, by ID")
	flags.StringSliceVar(&f.learned, "learned", nil, "file of what was learned on another host")
	flags.StringVarP(&f.output, "output", "o", "", "write the result to this file")
	flags.StringVar(&f.page, "report", "", "write the run as a page (HTML) to this file; 'mpps report RESULT' does it later")
	flags.StringVar(&f.planFile, "plan-output", "", "write the final plan to this file, for 'mpps apply FILE'")
	flags.BoolVar(&f.path.keep, "keep", true, "keep the result in /var/lib/mpps/runs")
	f.changed = flags.Changed
	f.path.changed = func(name string) bool { return name != "seed" && flags.Changed(name) } // which is not that of a comparison
}

// target is the goal, with what tune cannot do refused.
func (f *tuneFlags) target() (goal.Goal, error) {
	g, err := f.goal.goal()
	switch {
	case err != nil:
		return g, err
	case g.Latency > 0 || g.Bulk > 0:
		return g, usage(errors.New("--latency and --bulk: tune drives towards packets per second"), "give --pps; for wake-up latency 'mpps apply --latency' and 'mpps latency'")
	case g.NIC == "vf":
		return g, usage(errors.New("--nic vf: how a guest is attached is no change to be tried in turns"), "see 'mpps sriov assign'")
	case f.trial < 100*time.Millisecond || f.trial > time.Minute:
		return g, usage(fmt.Errorf("--trial %v: expected 100ms to 1m", f.trial), "")
	case f.propose && f.restarts:
		return g, usage(errors.New("--propose and --restarts: nothing stays of what is proposed"), "")
	case f.unknownKnob() != "":
		return g, usage(fmt.Errorf("--only %s: there is no such knob", f.unknownKnob()), "'mpps explain --list' has them all")
	case f.budget < 0:
		return g, usage(fmt.Errorf("--budget %v: expected a time, or 0 for none", f.budget), "")
	case f.command == "" && (f.changed("max-pps") || f.changed("trial-grace")):
		return g, usage(errors.New("--max-pps and --trial-grace belong to --trial-command"), "")
	}
	g.Frame = max(g.Frame, 64)
	f.path.frame = strconv.Itoa(g.Frame)
	return g, nil
}

// unknownKnob is the first of --only that the catalogue does not have.
func (f *tuneFlags) unknownKnob() string {
	for _, id := range f.only {
		if !slices.ContainsFunc(knob.Catalogue(), func(k *knob.Knob) bool { return k.ID == id }) {
			return id
		}
	}
	return ""
}

// gauge opens what measures.
func (f *tuneFlags) gauge(ctx context.Context, a *app, g goal.Goal) (gauge, error) {
	if f.command == "" {
		return a.openPathGauge(ctx, &f.path, g, f.budget)
	}
	for _, name := range pathFlagNames {
		if f.changed(name) && name != "cpus" {
			return nil, usage(fmt.Errorf("--trial-command and --%s: expected one of them", name), "the program knows its own ends")
		}
	}
	most, err := rateOf("max-pps", f.maxPPS)
	if err != nil {
		return nil, err
	}
	if most == 0 {
		return nil, usage(errors.New("--trial-command needs --max-pps: nothing else says how much it can send"), "64-byte frames fill 10 Gbit/s at 14.88M")
	}
	p, err := adapter.Start(f.command, f.grace)
	if err != nil {
		return nil, err
	}
	return &programGauge{app: a, program: p, goal: g, budget: f.budget, maxPPS: most}, nil
}

func (a *app) runTune(ctx context.Context, f *tuneFlags) error {
	g, err := f.target()
	if err != nil {
		return err
	}
	if err := a.env().NeedsRoot("tune"); err != nil {
		return err
	}
	own, known, err := a.learned(f.learned)
	if err != nil {
		return err
	}
	ctx, stop := ops.UntilHangup(ctx)
	defer stop()
	if err := a.unhindered(); err != nil {
		return err
	}
	by, err := f.gauge(ctx, a, g)
	if err != nil {
		return err
	}
	h, err := a.openTuneHost(g, by, f.trial, f.only)
	if err != nil {
		return errors.Join(err, by.close())
	}
	class, r, plans, failure := a.loop(ctx, f, h, g, known)
	failure = errors.Join(failure, by.close(), h.close())
	if r == nil {
		return failure
	}
	if r.Verdict != tune.Interrupted && r.Verdict != tune.Failed {
		if err := a.learn(own, class, newAttempts(r, f.earlier)); err != nil {
			r.Warnings = append(r.Warnings, tune.Warning{Code: "not-learned", Text: "what was found could not be kept for the next run: " + err.Error()})
		}
	}
	return a.finishTune(ctx, f, r, plans, failure)
}

// loop tunes and makes lasting what was kept. plans are those of what is kept, each on top of the one before.
func (a *app) loop(ctx context.Context, f *tuneFlags, h *tuneHost, g goal.Goal, known tune.Effects) (class string, r *tune.Result, plans []*plan.Plan, err error) {
	seed := f.seed
	if !f.changed("seed") {
		seed = uint64(rand.Uint32())
	}
	if f.earlier != nil { // what comes of the same knobs behind the restart is a candidate of its own
		for _, key := range f.earlier.Kept {
			for _, part := range keysOf(tune.Candidate{Key: key}) {
				h.proven[part] = true
			}
		}
	}
	h.load = g.PPS / 10 // while it is looked at for the first time
	if err := h.look(ctx); err != nil {
		return "", nil, nil, err
	}
	class = hostClass(h.machine.Facts)
	r, err = tune.Run(ctx, h, tune.Options{
		Goal: g, Budget: f.budget, Seed: seed, Class: class, Learned: known, Propose: f.propose, Progress: a.tuneProgress, Earlier: f.earlier,
		Trial: f.trial,
	})
	if r == nil {
		return class, nil, nil, err
	}
	r.Host, r.Emulated = h.machine.Facts.Name, h.machine.Facts.Emulated
	r.Untried = append(r.Untried, h.untried()...)
	if r.Emulated {
		r.Warnings = append(r.Warnings, tune.Warning{Code: "emulated", Text: "measured under full emulation: rates say nothing about hardware, ratios little", Hint: "repeat on the real host"})
	}
	if err != nil {
		return class, r, nil, err
	}
	if len(r.Added) > 0 {
		if plans, err = h.final(ctx, f, r); err != nil {
			return class, r, nil, err
		}
	}
	if f.resume {
		err = os.Remove(filepath.Join(a.root, waitingPath))
	}
	if err != nil || !f.restarts || len(r.Waits) == 0 || r.Verdict == tune.Met || r.Verdict == tune.Good || r.Verdict == tune.NotDevice {
		return class, r, plans, err
	}
	later, err := h.restart(ctx, f, r)
	if later != nil {
		plans = append(plans, later)
	}
	return class, r, plans, err
}

// finishTune saves and shows a result. failure is what ended it early, or nil.
func (a *app) finishTune(ctx context.Context, f *tuneFlags, r *tune.Result, plans []*plan.Plan, failure error) error {
	if err := a.writePlans(f.planFile, plans, r); err != nil {
		return errors.Join(failure, err)
	}
	whole := facts.Whole(r)
	text, err := json.MarshalIndent(whole, "", "  ")
	if err != nil {
		return errors.Join(failure, err)
	}
	f.path.output = f.output
	saved, err := a.save(append(text, '\n'), r.Started, "tune", &f.path.benchFlags, func(w measure.Warning) {
		r.Warnings = append(r.Warnings, w)
	})
	if err != nil {
		return errors.Join(failure, err)
	}
	if f.page != "" {
		if err := a.writeTunePage(f.page, r); err != nil {
			return errors.Join(failure, err)
		}
	}
	var warnings []outcome.Warning
	warnings = append(warnings, r.Warnings...)
	err = a.out.Answer(report.Answer{
		Verb: "tune", Host: r.Host, Result: whole, Warnings: warnings,
		Text: func(t *report.Text) { drawTune(t, r, saved) },
	})
	switch {
	case interrupted(ctx, failure):
		return errors.Join(err, outcome.Failed(fmt.Errorf("interrupted after %s: %s", ops.Count(len(r.Attempts), "attempt"), whatStands(r, failure)), ""), beyond(ctx, failure))
	case err != nil || failure != nil:
		return errors.Join(failure, err)
	}
	return outcome.Exit(tuneCode(r.Verdict))
}

func tuneCode(v tune.Verdict) int {
	switch v {
	case tune.Met, tune.Good:
		return outcome.CodeOK
	case tune.NotDevice:
		return outcome.CodeNotDevice
	}
	return outcome.CodeChanges
}
