package main

import (
	"slices"

	"github.com/spf13/cobra"
)

func (a *app) domainCommand() *cobra.Command {
	return verbs("domain", "show, tune or write a guest's libvirt definition",
		slices.Concat(withManner(onlyReads, a.domainShowCommand(), a.domainRenderCommand()),
			withManner(sequential, a.domainTuneCommand()))...)
}
