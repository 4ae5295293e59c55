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
		Args:  args(cobra.ExactArgs(1)),
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
