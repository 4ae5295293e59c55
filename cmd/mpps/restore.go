package main

import (
	"cmp"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/ops/change"
	"mpps/internal/report"
)

func (a *app) restoreCommand() *cobra.Command {
	var ask change.RestoreOptions
	var watch, expired bool
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "restore applied values that a reboot or ifup has reset",
		Args:  args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
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
					report.RestoreResult(t,
						*pass)
				},
			})
			return cmp.Or(printed, err)
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "keep running and restore what events reset (for mpps-restore.service)")
	cmd.Flags().BoolVar(&expired, "expired", false, "only revert what was not confirmed before a reboot (for "+
		"mpps-restore.service)")
	cmd.Flags().BoolVar(&ask.VFs, "vfs", false, "only create and configure VFs (for mpps-vfs.service)")
	cmd.Flags().DurationVar(&ask.Wait, "wait", 30*time.Second, "with --vfs: how long to wait for devices and links")
	cmd.Flags().BoolVar(&ask.Insist, "insist", false, "also restore values changed by hand")
	return cmd
}
