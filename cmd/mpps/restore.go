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
		Short: "set applied values again that something has reset",
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
	cmd.Flags().BoolVar(&watch, "watch", false, "stay, and put back what events reset (for mpps-restore.service)")
	cmd.Flags().BoolVar(&expired, "expired", false, "once, and only undo what was not confirmed before the host was "+
		"rebooted (for mpps-restore.service)")
	cmd.Flags().BoolVar(&ask.VFs, "vfs", false, "once, and only what makes virtual functions what they are (for "+
		"mpps-vfs.service)")
	cmd.Flags().DurationVar(&ask.Wait, "wait", 30*time.Second, "with --vfs: how long to wait for devices and links")
	cmd.Flags().BoolVar(&ask.Insist, "insist", false, "put back also what somebody changed by hand")
	return cmd
}
