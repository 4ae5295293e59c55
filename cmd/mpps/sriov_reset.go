package main

import (
	"errors"

	"mpps/internal/ops/change"
	"mpps/internal/ops/vf"

	"github.com/spf13/cobra"
)

func (a *app) sriovResetCommand() *cobra.Command {
	var dryRun, detailed bool
	var ask vf.ResetOptions
	cmd := &cobra.Command{
		Use:   "reset {VF | --guest NAME | --all-free PF}",
		Short: "reset a virtual function, so nothing of its last guest remains",
		Args:  args(cobra.MaximumNArgs(3)),
		RunE: func(cmd *cobra.Command, given []string) error {
			named := 0
			for _, is := range []bool{len(given) > 0, ask.Guest != "", ask.Free != ""} {
				if is {
					named++
				}
			}
			if named != 1 {
				return usage(errors.New("expected a virtual function, --guest NAME or --all-free PF"), "")
			}
			ask.Words = given
			d, err := vf.Reset(cmd.Context(), a.env(), ask, change.Options{DryRun: dryRun})
			return a.answerApply(d, err, detailed)
		},
	}
	cmd.Flags().StringVar(&ask.Guest, "guest", "", "reset all VFs of this guest")
	cmd.Flags().StringVar(&ask.Free, "all-free", "", "reset all free VFs of this PF")
	cmd.Flags().BoolVar(&ask.AttributesOnly, "attributes-only", false, "reset only attributes, no FLR")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would change; write nothing")
	cmd.Flags().BoolVar(&detailed, "detailed-exit-code", false, "exit code 2 if changes were or would be made")
	return cmd
}
