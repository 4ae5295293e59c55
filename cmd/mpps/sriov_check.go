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
		Long: `Goes through everything that virtual functions need, of the host and of each
card: IOMMU in the firmware's tables, in the running kernel and at the next
boot, interrupt remapping, groups and ACS, whether the card offers functions
and where it is switched on, address space for them, driver and firmware with
known traps (-v), link, what makes functions at boot; and what is odd about
those there are: two guests of one function, a guest without its address,
functions bound for nobody, gifts of mpps that are half done. Each point is ok,
not, or could not be told, with what to do. Works without root and says what it
could not see.

  mpps sriov check
  mpps sriov check ens1f0 -v
  mpps sriov check --snapshot customer.json --json
  mpps sriov check --fail-on high    exit code 4 where a point is high or worse`,
		Args: args(cobra.MaximumNArgs(1)),
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
	cmd.Flags().StringVar(&snapshot, "snapshot", "", "a snapshot file instead of this machine")
	failOn.add(cmd, "point")
	return cmd
}
