package main

import (
	"cmp"
	"slices"

	"github.com/spf13/cobra"

	"mpps/internal/advise/sriov"
	"mpps/internal/ops"
	"mpps/internal/ops/vf"
	"mpps/internal/outcome"
	"mpps/internal/report"
)

func (a *app) sriovGuestCommand() *cobra.Command {
	var snapshot string
	cmd := &cobra.Command{
		Use:   "guest GUEST",
		Short: "show a VF inside its guest: driver, queues, interrupts",
		Args:  args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			h, side, err := vf.Guest(cmd.Context(), a.env(), snapshot, given[0])
			if err != nil {
				return err
			}
			err = a.out.Answer(report.Answer{
				Verb: "sriov-guest", Host: h.Name, Result: side, Warnings: ops.UnseenWarnings(h),
				Text: func(t *report.Text) { report.GuestSide(t, side) },
			})
			off := slices.ContainsFunc(side.Functions, func(f sriov.GuestFunction) bool { return f.State == "off" })
			return cmp.Or(err, exitIf(off, outcome.CodeDrifted))
		},
	}
	cmd.Flags().StringVar(&snapshot, "snapshot", "", "use this snapshot file instead of this host")
	return cmd
}
