package main

import (
	"github.com/spf13/cobra"
)

func (a *app) sriovCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sriov",
		Short: "create, configure, assign and release virtual functions",
		Long: `Carries virtual functions of a NIC (SR-IOV) through their life: checks whether
firmware and kernel are ready, makes them so that they come back at boot before
the guests start, sets what each may do, gives them to guests and takes them
back. Every change is a transaction like that of 'mpps apply': journaled, read
back, undone by 'mpps rollback'.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
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
