package main

import (
	"github.com/spf13/cobra"

	"mpps/internal/apply"
	"mpps/internal/report"
)

func (a *app) statusCommand() *cobra.Command {
	var detailed bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "what mpps changed on this host and how that stands",
		Long: `Says in one word how this host stands: clean, applied, in-flight (an mpps is at
work), interrupted (one died on the way), in-doubt (a write did not return),
failed (something could not be put back), drifted (values are not as applied)
or waiting (for a reboot or for a guest to be restarted).

  mpps status
  mpps status --detailed-exit-code

Exit codes: 0 · with --detailed-exit-code also 1 interrupted, in doubt or
failed · 2 waiting · 3 clean · 4 drifted · 11 in flight.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			e, err := a.engine(nil)
			if err != nil {
				return err
			}
			defer e.close()
			e.watchGuests(cmd.Context(), a.root)
			e.watchOwners(cmd.Context(), a.root)
			s, err := e.Status(cmd.Context())
			if err != nil {
				return err
			}
			err = a.out.Answer(report.Answer{
				Verb: "status", Host: e.name, Result: s, Warnings: untold(s),
				Text: func(t *report.Text) { report.Status(t, s, a.verbose) },
			})
			if err != nil || !detailed {
				return err
			}
			return exit(statusCode(s.State))
		},
	}
	cmd.Flags().BoolVar(&detailed, "detailed-exit-code", false, "tell the state by the exit code")
	return cmd
}

func statusCode(s apply.Summary) int {
	switch s {
	case apply.IsClean:
		return exitNotConfigured
	case apply.IsApplied:
		return exitOK
	case apply.IsWaiting:
		return exitChanges
	case apply.IsDrifted:
		return exitDrifted
	case apply.IsInFlight:
		return exitLocked
	}
	return exitFailed
}

// untold warns of values that could not be read: they are no verdict.
func untold(s apply.Status) []report.Warning {
	n := s.Counts[string(apply.Untold)]
	if n == 0 {
		return nil
	}
	return []report.Warning{{Code: "unknown-values", Text: counted(n, "value") + " could not be read: whether they are as applied is not known", Hint: "repeat as root"}}
}
