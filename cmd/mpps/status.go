package main

import (
	"github.com/spf13/cobra"

	"mpps/internal/ops/change"
	"mpps/internal/outcome"
	"mpps/internal/report"
)

func (a *app) statusCommand() *cobra.Command {
	var detailed bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "show what mpps changed on this host, and its state",
		Args:  args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := change.ReadStatus(cmd.Context(), a.env(), true)
			if err == nil {
				err = a.out.Answer(report.Answer{
					Verb: "status", Host: s.Host, Result: s.Status, Warnings: s.Warnings,
					Text: func(t *report.Text) { report.Status(t, s.Status, a.verbose) },
				})
			}
			if err != nil || !detailed {
				return err
			}
			return outcome.Exit(s.Code())
		},
	}
	cmd.Flags().BoolVar(&detailed, "detailed-exit-code", false, "exit code shows the state")
	return cmd
}
