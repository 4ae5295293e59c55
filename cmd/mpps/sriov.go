package main

import "github.com/spf13/cobra"

func (a *app) sriovCommand() *cobra.Command {
	return verbs("sriov", "create, configure, assign and release virtual functions",
		a.sriovCheckCommand(), a.sriovListCommand(), // in the order of a function's life
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
}
