package main

import (
	"errors"

	"github.com/spf13/cobra"

	"mpps/internal/ops/definition"
	"mpps/internal/outcome"
	"mpps/internal/report"
)

func (a *app) domainTuneCommand() *cobra.Command {
	var flags domainFlags
	var goals domainGoal
	var output string
	var ask definition.TuneOptions
	var detailed bool
	cmd := &cobra.Command{
		Use:   "tune NAME|FILE",
		Short: "edit a guest's XML; change only what you name",
		Args:  args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) (err error) {
			if ask.Apply && output != "" {
				return usage(errors.New("--apply and -o: expected one of them"),
					"--apply changes the guest, -o writes a file")
			}
			if ask.DryRun && output != "" {
				return usage(errors.New("--dry-run and -o: expected one of them"), "--dry-run writes nothing")
			}
			a.reads.Store(!ask.Apply)
			ask.Word, ask.Stdin, ask.Asked = given[0], a.stdin, flags.request()
			if ask.Goal, err = goals.goal(); err != nil {
				return err
			}
			tuned, done, err := definition.Tune(cmd.Context(), a.env(), ask)
			if err != nil || done != nil {
				return a.answerApply(done, err, detailed)
			}
			if err := a.writeTuned(tuned, output, ask.DryRun); err != nil {
				return err
			}
			return exitIf(detailed && tuned.Changed(), outcome.CodeChanges)
		},
	}
	flags.add(cmd)
	goals.add(cmd)
	cmd.Flags().StringVar(&ask.Snapshot, "snapshot", "", "check against the host of this 'mpps snapshot' file")
	cmd.Flags().StringVarP(&output, "output", "o", "", "write the definition to this file; - is standard output")
	cmd.Flags().BoolVar(&ask.Apply, "apply", false, "change the guest on this host")
	cmd.Flags().BoolVar(&ask.Config, "config", false,
		"with --apply: change only the definition, not the running guest")
	cmd.Flags().BoolVar(&ask.DryRun, "dry-run", false, "show what would change; write nothing")
	cmd.Flags().BoolVar(&detailed, "detailed-exit-code", false, "exit code 2 if changes were or would be made")
	return cmd
}

// writeTuned writes the definition unless dryRun, and prints the changes.
func (a *app) writeTuned(tuned *definition.TuneResult, output string, dryRun bool) (err error) {
	switch toFile := output != "" && output != "-"; {
	case dryRun:
	case toFile:
		err, tuned.Written = a.writeFile(output, tuned.Text), output
	case !a.json || output == "-":
		for _, n := range tuned.Warnings {
			a.out.Step("%s", n.Text)
		}
		return a.writeFile("-", tuned.Text)
	default:
		tuned.XML = string(tuned.Text)
	}
	if err != nil {
		return err
	}
	return a.out.Answer(report.Answer{
		Verb: "domain-tune", Host: tuned.Host, Result: tuned, Warnings: tuned.Warnings,
		Text: func(t *report.Text) {
			report.DomainEdits(t, tuned.Changes, a.verbose)
			if tuned.Written != "" {
				t.Line("wrote %s", output)
			}
		},
	})
}
