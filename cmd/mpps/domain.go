package main

import (
	"github.com/spf13/cobra"
)

func (a *app) domainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "domain",
		Short: "show, tune or write a guest's libvirt definition",
		Long: `Reads and edits the XML in which libvirt keeps a guest. An edit changes the
bytes of the values that it names and no others: comments, order, quotes, white
space and what mpps does not know stay as they are.

  mpps domain show vm1
  mpps domain tune vm1.xml --queues 4 -o vm1-tuned.xml
  mpps domain tune vm1 --queues 4 --vcpupin 2-5 --apply
  mpps domain render --name vm2 --vcpus 4 --memory 8GiB --nic br0`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.domainShowCommand(), a.domainTuneCommand(), a.domainRenderCommand())
	return cmd
}
