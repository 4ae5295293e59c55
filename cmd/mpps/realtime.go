package main

import (
	"github.com/spf13/cobra"
)

func (a *app) realtimeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "realtime",
		Short: "check the CPUs of realtime guests",
		Args:  args(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.realtimeCheckCommand())
	return cmd
}
