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
		Long: `Says in one word how this host stands: clean, applied, in-flight (an mpps is at
work), interrupted (one died on the way), in-doubt (a write did not return),
failed (something could not be put back), drifted (values are not as applied)
or waiting (for a reboot or for a guest to be restarted). Of a plan that waits
or waited it says what is done, what remains for the host as it is now, and with
which command to go on.

  mpps status
  mpps status --detailed-exit-code

Exit codes: 0 · with --detailed-exit-code also 1 interrupted, in doubt or
failed · 2 waiting · 3 clean · 4 drifted · 11 in flight.`,
		Args: args(cobra.NoArgs),
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
	cmd.Flags().BoolVar(&detailed, "detailed-exit-code", false, "tell the state by the exit code")
	return cmd
}
