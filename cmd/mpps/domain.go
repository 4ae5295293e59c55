package main

import (
	"github.com/spf13/cobra"
)

func (a *app) domainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "domain",
		Short: "show, tune or write a guest's libvirt definition",
		Args:  args(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.domainShowCommand(), a.domainTuneCommand(), a.domainRenderCommand())
	return cmd
}
