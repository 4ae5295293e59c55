package main

import (
	"cmp"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/cli"
	"mpps/internal/ops/change"
	"mpps/internal/outcome"
	"mpps/internal/report"
)

func (a *app) rollbackCommand() *cobra.Command {
	var o change.Undo
	var detailed, orphans bool
	var unconfirmed string
	cmd := verb("rollback [TX]", "undo an apply, the last one or any other", cobra.MaximumNArgs(1),
		func(cmd *cobra.Command, given []string) error {
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
		})
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

func (a *app) restoreCommand() *cobra.Command {
	var ask change.RestoreOptions
	var watch, expired bool
	cmd := verb("restore", "restore applied values that a reboot or ifup has reset", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) error {
			if ask.VFs && watch || expired && (ask.VFs || watch) {
				return usage(errors.New("--expired, --vfs and --watch: expected one of them"), "")
			}
			r, err := change.OpenRestorer(cmd.Context(), a.env(), ask)
			if err != nil {
				return err
			}
			defer r.Close()
			switch {
			case watch:
				return r.Watch(cmd.Context())
			case expired:
				return r.UndoExpired(cmd.Context())
			}
			pass, err := r.Put(cmd.Context())
			if pass == nil {
				return err
			}
			printed := a.out.Answer(report.Answer{
				Verb: "restore", Host: r.Name, Result: pass, Text: func(t *report.Text) {
					report.RestoreResult(t, *pass)
				},
			})
			return cmp.Or(printed, err)
		})
	cmd.Flags().BoolVar(&watch, "watch", false, "keep running and restore what events reset (for mpps-restore.service)")
	cmd.Flags().BoolVar(&expired, "expired", false, "only revert what was not confirmed before a reboot (for "+
		"mpps-restore.service)")
	cmd.Flags().BoolVar(&ask.VFs, "vfs", false, "only create and configure VFs (for mpps-vfs.service)")
	cli.DurationVar(cmd.Flags(), &ask.Wait, "wait", 30*time.Second, 0, time.Hour,
		"with --vfs: how long to wait for devices and links")
	cmd.Flags().BoolVar(&ask.Insist, "insist", false, "also restore values changed by hand")
	return cmd
}
