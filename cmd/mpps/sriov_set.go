package main

import (
	"mpps/internal/ops/change"
	"mpps/internal/ops/vf"

	"github.com/spf13/cobra"
)

func (a *app) sriovSetCommand() *cobra.Command {
	var dryRun, detailed bool
	cmd := &cobra.Command{
		Use:   "set VF ATTRIBUTE VALUE...",
		Short: "set a virtual function's MAC, VLAN, rate and trust",
		Args:  args(cobra.MinimumNArgs(3)),
		RunE: func(cmd *cobra.Command, given []string) error {
			d, err := vf.Set(cmd.Context(), a.env(), given, change.Options{DryRun: dryRun})
			return a.answerApply(d, err, detailed)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would change; write nothing")
	cmd.Flags().BoolVar(&detailed, "detailed-exit-code", false, "exit code 2 if changes were or would be made")
	return cmd
}
