package main

import (
	"github.com/spf13/cobra"

	"mpps/internal/ops/definition"
	"mpps/internal/report"
)

func (a *app) domainShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME|FILE",
		Short: "show a definition's CPUs, memory, NICs and devices",
		Long: `Shows what a guest's definition says of everything that matters to packets and
latency, with -v every value by the path that 'mpps domain tune --set' takes.
NAME is a guest of this host; FILE is a path, a name that ends in .xml, or - for
standard input.

  mpps domain show vm1
  virsh dumpxml vm1 | mpps domain show - -v`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			shown, err := definition.Show(cmd.Context(), a.env(), given[0], a.stdin)
			if err != nil {
				return err
			}
			return a.out.Answer(report.Answer{
				Verb: "domain-show", Host: shown.Host, Result: shown, Warnings: shown.Warnings,
				Text: func(t *report.Text) {
					report.Domain(t, shown.State, shown.Guest, shown.Pending)
					if a.verbose {
						report.DomainValues(t, shown.Values)
					}
				},
			})
		},
	}
}
