package main

import "github.com/spf13/cobra"

func (a *app) exportCommand() *cobra.Command {
	return verbs("export", "write a target in another program's format", a.exportTunedCommand())
}
