package main

import (
	"github.com/spf13/cobra"
)

func (a *app) sriovCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sriov",
		Short: "create, configure, assign and release virtual functions",
		Args:  args(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand( // in the order of a function's life
		a.sriovCheckCommand(), a.sriovListCommand(),
		a.sriovCreateCommand(),
		a.sriovDestroyCommand(),
		a.sriovSetCommand(),
		a.sriovAssignCommand(),
		a.sriovReleaseCommand(),
		a.sriovResetCommand(),
		a.sriovRecoverCommand(),
		a.sriovGuestCommand(),
		a.sriovMigratePlanCommand(),
	)
	return cmd
}
