package main

import (
	"cmp"

	"github.com/spf13/cobra"

	"mpps/internal/ops"
	"mpps/internal/ops/vf"
	"mpps/internal/outcome"
	"mpps/internal/report"
)

func (a *app) sriovCheckCommand() *cobra.Command {
	var snapshot string
	var failOn failOn
	cmd := &cobra.Command{
		Use:   "check [PF]",
		Short: "check that firmware, kernel and NIC are ready for SR-IOV",
		Args:  args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			fails, err := failOn.severity()
			if err != nil {
				return err
			}
			h, c, err := vf.Check(cmd.Context(), a.env(), snapshot, firstArg(given))
			if err != nil {
				return err
			}
			err = a.out.Answer(report.Answer{
				Verb: "sriov-check", Host: h.Name, Result: c, Warnings: ops.AccessWarnings(h),
				Text: func(t *report.Text) { report.SRIOVCheck(t, c, a.verbose) },
			})
			return cmp.Or(err, exitIf(fails != nil && len(c.AtLeast(*fails)) > 0, outcome.CodeDrifted))
		},
	}
	cmd.Flags().StringVar(&snapshot, "snapshot", "", "use this snapshot file instead of this host")
	failOn.add(cmd, "check")
	return cmd
}
