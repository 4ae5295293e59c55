package main

import (
	"cmp"

	"github.com/spf13/cobra"

	"mpps/internal/advise/sriov"
	"mpps/internal/ops/vf"
	"mpps/internal/outcome"
	"mpps/internal/report"
)

func (a *app) sriovRecoverCommand() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "recover VF",
		Short: "diagnose a virtual function and repair it",
		Args:  args(cobra.RangeArgs(1, 3)),
		RunE: func(cmd *cobra.Command, given []string) error {
			name, r, err := vf.Recover(cmd.Context(), a.env(), given, dryRun)
			if err != nil {
				return err
			}
			err = a.out.Answer(report.Answer{
				Verb: "sriov-recover", Host: name, Result: r,
				Text: func(t *report.Text) { report.SRIOVRecover(t, *r, dryRun) },
			})
			return cmp.Or(err, exitIf(r.Verdict != sriov.Well && r.After != sriov.Well, outcome.CodeDrifted))
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "diagnose only; change nothing")
	return cmd
}
