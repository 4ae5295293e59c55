package main

import (
	"github.com/spf13/cobra"
)

func (a *app) realtimeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "realtime",
		Short: "check the CPUs of realtime guests",
		Long: `Looks after CPUs that are set aside for guests which must answer in
microseconds. 'mpps plan --latency 20us' sets them aside; 'mpps realtime check'
says what contradicts that, and what ran there all the same.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.realtimeCheckCommand())
	return cmd
}
