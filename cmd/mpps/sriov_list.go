package main

import (
	"github.com/spf13/cobra"

	"mpps/internal/advise/sriov"
	"mpps/internal/ops"
	"mpps/internal/ops/vf"
	"mpps/internal/report"
)

func (a *app) sriovListCommand() *cobra.Command {
	var which sriov.Which
	var snapshot string
	cmd := &cobra.Command{
		Use:   "list [PF]",
		Short: "list virtual functions with their guests and settings",
		Args:  args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			which.PF = firstArg(given)
			h, l, err := vf.List(cmd.Context(), a.env(), snapshot, which)
			if err != nil {
				return err
			}
			return a.out.Answer(report.Answer{
				Verb: "sriov-list", Host: h.Name, Result: l, Warnings: ops.UnseenWarnings(h),
				Text: func(t *report.Text) { report.SRIOVList(t, l) },
			})
		},
	}
	cmd.Flags().BoolVar(&which.Free, "free", false, "show only free VFs")
	cmd.Flags().StringVar(&which.Guest, "guest", "", "show only VFs of this guest")
	cmd.Flags().StringVar(&snapshot, "snapshot", "", "use this snapshot file instead of this host")
	return cmd
}
