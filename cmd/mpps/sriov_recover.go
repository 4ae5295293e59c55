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
		Short: "find what is wrong with a virtual function, and repair it",
		Long: `Looks at a virtual function in the order in which things are mended, and mends
what can be: the physical function is brought up, a driver_override that was
left behind is cleared, a function that is stuck in vfio-pci or that its driver
did not take is reset and bound to its driver, an address that its guest was
promised is set. A guest or a process that has it is named and left alone. What
only a person can do is said, and last what is left to try: making all
functions of the card anew, as a command.

  mpps sriov recover ens1f0/3 --dry-run
  mpps sriov recover 0000:41:10.3

Exit codes: 0 nothing is the matter, or it was mended · 1 failed, and put back ·
4 something is left to be done · 11 another mpps is at work.`,
		Args: args(cobra.RangeArgs(1, 3)),
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
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "look, and change nothing")
	return cmd
}
