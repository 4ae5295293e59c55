package main

import (
	"cmp"

	"github.com/spf13/cobra"

	"mpps/internal/ops/change"
	"mpps/internal/outcome"
	"mpps/internal/report"
)

func (a *app) rollbackCommand() *cobra.Command {
	var o change.Undo
	var detailed, orphans bool
	var unconfirmed string
	cmd := &cobra.Command{
		Use:   "rollback [TX]",
		Short: "undo an apply, the last one or any other",
		Args:  args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			switch {
			case unconfirmed != "":
				return change.RunGuard(cmd.Context(), a.env(), unconfirmed)
			case orphans:
				return change.RunOrphanGuard(cmd.Context(), a.env(), a.stdin, a.stdout)
			}
			o.TX = firstArg(given)
			r, err := change.Rollback(cmd.Context(), a.env(), o)
			if r == nil {
				return err
			}
			printed := a.out.Answer(report.Answer{
				Verb: "rollback", Host: r.Host, Result: r, Warnings: r.Warnings,
				Text: func(t *report.Text) { report.RollbackResult(t, r.Transactions, o.DryRun, a.verbose) },
			})
			if err := cmp.Or(err, printed, exitIf(r.Drifted() > 0, outcome.CodeDrifted)); err != nil {
				return err
			}
			return exitIf(detailed && r.Written() > 0, outcome.CodeChanges)
		},
	}
	cmd.Flags().BoolVar(&o.Force, "force", false, "also restore values that something else changed since")
	cmd.Flags().BoolVar(&o.WithLater, "with-later", false, "first roll back later transactions that build on it")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "show what would be restored; write nothing")
	cmd.Flags().BoolVar(&detailed, "detailed-exit-code", false, "exit code 2 if values were or would be restored")
	cmd.Flags().StringVar(&unconfirmed, "unconfirmed", "", "wait until this transaction is confirmed, else put it back")
	cmd.Flags().BoolVar(&orphans, "orphans", false,
		"put back the transaction that standard input names last, when it ends")
	for _, hidden := range []string{"unconfirmed", "orphans"} {
		if err := cmd.Flags().MarkHidden(hidden); err != nil {
			panic(err) // the flags are defined on the lines above
		}
	}
	return cmd
}
