package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/advise/plan"
	"mpps/internal/ops/change"
	"mpps/internal/outcome"
	"mpps/internal/report"
	"mpps/internal/words"
)

func (a *app) applyCommand() *cobra.Command {
	var flags goalFlags
	var ask change.Request
	var detailed, yes bool
	cmd := verb("apply [PLAN]", "apply a plan as one transaction, with undo", cobra.MaximumNArgs(1),
		func(cmd *cobra.Command, given []string) (err error) {
			if err := checkConfirm(ask.Confirm); err != nil {
				return err
			}
			if len(given) > 0 && flags.isGiven(cmd) {
				return usage(errors.New("a plan file and goal flags: expected one of them"),
					"the goal is part of the plan")
			}
			if ask.Foreign && len(given) == 0 {
				return usage(errors.New("--foreign without a plan file"), "mpps plans only changes that it knows")
			}
			if ask.Resume && (len(given) > 0 || flags.isGiven(cmd) || ask.RuntimeOnly) {
				return usage(errors.New("--resume and a plan file, goal flags or --runtime-only: expected --resume "+
					"alone"),
					"the goal is that of the resumed transaction; to change it: 'mpps apply' with the new goal")
			}
			if !cmd.Flags().Changed("confirm") {
				ask.Confirm = change.ConfirmByRisk
			}
			ask.File, ask.Stdin, ask.Watch = firstArg(given), a.stdin, flags.watch
			if ask.File == "" && !ask.Resume {
				if ask.Goal, err = flags.goal(); err == nil && ask.Goal.Unnamed {
					err = usage(errors.New("neither a plan nor a goal to apply"),
						"'mpps plan --pps 500k -o plan.json' shows what would change, 'mpps apply plan.json' does it")
				}
			}
			if err == nil && !ask.DryRun && !yes && !a.approved {
				err = a.asks(&ask)
			}
			if err != nil {
				return err
			}
			d, err := change.Apply(cmd.Context(), a.env(), ask)
			return a.answerApply(d, err, detailed)
		})
	flags.add(cmd, a)
	flags.addWatch(cmd)
	cmd.Flags().DurationVar(&ask.Confirm, "confirm", 0,
		"revert unless confirmed within this time, such as 60s; 0 turns it off")
	cmd.Flags().BoolVar(&ask.Resume, "resume", false, "apply the rest of a plan after the reboot or guest restart "+
		"that it needed")
	cmd.Flags().BoolVar(&ask.Foreign, "foreign", false, "also apply changes that mpps would not plan for this host")
	cmd.Flags().BoolVar(&ask.DryRun, "dry-run", false, "show what would change; write nothing")
	cmd.Flags().BoolVar(&yes, "yes", false, "apply without asking")
	cmd.Flags().BoolVar(&ask.RuntimeOnly, "runtime-only", false, "change only the running host, nothing persistent")
	cmd.Flags().BoolVar(&detailed, "detailed-exit-code", false, "exit code 2 if changes were or would be made")
	return cmd
}

// asks makes a request ask before it changes anything. Without a person to ask that is an error.
func (a *app) asks(ask *change.Request) error {
	if ask.File == "-" || !a.out.CanAsk(a.stdin) {
		if ask.File != "-" && ask.File != "" {
			if err := change.CheckFile(ask.File); err != nil {
				return err
			}
		}
		return usage(errors.New("nobody to ask whether to apply: expected a terminal, or --yes"),
			"--dry-run or 'mpps plan' shows what would be changed, --yes changes it without a question")
	}
	ask.Approve = a.approve
	return nil
}

// approve shows a plan and asks whether to apply it.
func (a *app) approve(ctx context.Context, p *plan.Plan) (bool, error) {
	return a.out.Ask(ctx, a.stdin, func(t *report.Text) { report.Plan(t, p) },
		fmt.Sprintf("Apply %s? [y/N] ", words.Count(len(p.Changes), "change")))
}

// checkConfirm refuses implausible times to confirm.
func checkConfirm(within time.Duration) error {
	if within != 0 && within != change.ConfirmByRisk && (within < time.Second || within > 24*time.Hour) {
		return usage(fmt.Errorf("--confirm %v: expected 1s to 24h, or 0 for never", within), "")
	}
	return nil
}

// answerApply prints the outcome of changes and returns the command's error. d is nil if nothing was tried.
func (a *app) answerApply(d *change.Outcome, err error, detailed bool) error {
	answer := report.Answer{Verb: "apply"}
	if d != nil {
		answer.Result = d.Result
		answer.Text = func(t *report.Text) { report.ApplyResult(t, d.Result, d.DryRun, a.verbose) }
	}
	return a.answerChange(d, err, detailed, answer)
}

// answerChange is answerApply with the verb's own answer.
func (a *app) answerChange(d *change.Outcome, err error, detailed bool, answer report.Answer) error {
	if d == nil || err != nil && !a.json { // programs get the outcome of every change too
		return err
	}
	if err == nil {
		a.restarts = d.Plan.Restarts
	}
	answer.Host, answer.Warnings = d.Host, d.Warnings
	switch err = errors.Join(err, a.out.Answer(answer)); {
	case err != nil:
		return err
	case d.AfterErr != nil:
		return d.AfterErr
	}
	return exitIf(detailed && d.Changed(), outcome.CodeChanges)
}

// confirmed is the answer of confirm.
type confirmed struct {
	TX        string `json:"tx"`
	Confirmed bool   `json:"confirmed"`
}

func (a *app) confirmCommand() *cobra.Command {
	return verb("confirm [TX]", "keep the changes of an apply before they are reverted", cobra.MaximumNArgs(1),
		func(cmd *cobra.Command, given []string) error {
			host, tx, err := change.Confirm(cmd.Context(), a.env(), firstArg(given))
			if err != nil {
				return err
			}
			return a.out.Answer(report.Answer{
				Verb: "confirm", Host: host, Result: confirmed{tx, true},
				Text: func(t *report.Text) { t.Line("transaction %s is confirmed: its changes stay", tx) },
			})
		})
}

// firstArg returns the first argument, empty if there is none.
func firstArg(given []string) string {
	if len(given) == 0 {
		return ""
	}
	return given[0]
}
