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
		Short: "show a function inside its guest: driver, queues, interrupts",
		Long: `Shows each virtual function of a guest from both sides: what the host gave, and
through the guest's agent which driver it has there, its queues, which vCPUs
take their interrupts, and whether irqbalance runs. Judged by the knob
sriov.guest, as 'mpps audit' does inside the guest. Nothing is changed: values
inside are set by 'mpps apply' of a plan with --guest.

  mpps sriov guest vm1
  mpps explain sriov.guest

Exit codes: 0 all well, or it could not be seen · 1 no such guest, or it has no
function · 4 a function is not served as it should be.`,
		Args: args(cobra.ExactArgs(1)),
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
	cmd.Flags().StringVar(&snapshot, "snapshot", "", "a snapshot file instead of this machine")
	return cmd
}
