package main

import "github.com/spf13/cobra"

func (a *app) domainCommand() *cobra.Command {
	return verbs("domain", "show, tune or write a guest's libvirt definition",
		a.domainShowCommand(), a.domainTuneCommand(), a.domainRenderCommand())
}
