package main

import (
	"github.com/spf13/cobra"

	"mpps/internal/ops/profile"
)

func (a *app) exportCommand() *cobra.Command {
	return verbs("export", "write a target in another program's format", a.exportTunedCommand(),
		a.exportKubeCommand(profile.SRIOVPolicy, "write policies for the SR-IOV network operator"),
		a.exportKubeCommand(profile.Features, "write an audit as features of Node Feature Discovery"),
		a.exportKubeCommand(profile.Problems, "write a plugin's configuration for the node problem detector"),
		a.exportKubeCommand(profile.DaemonSet, "write a DaemonSet that only watches"))
}
