package main

import (
	"context"

	"github.com/spf13/cobra"

	"mpps/internal/apply"
	"mpps/internal/outcome"
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
or waiting (for a reboot or for a guest to be restarted). Of a plan that waits
or waited it says what is done, what remains for the host as it is now, and with
which command to go on.

  mpps status
  mpps status --detailed-exit-code

Exit codes: 0 · with --detailed-exit-code also 1 interrupted, in doubt or
failed · 2 waiting · 3 clean · 4 drifted · 11 in flight.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.stands(cmd.Context(), "status", report.Status)
			if err != nil || !detailed {
				return err
			}
			return outcome.Exit(statusCode(s.State))
		},
	}
	cmd.Flags().BoolVar(&detailed, "detailed-exit-code", false, "tell the state by the exit code")
	return cmd
}

// stands reads how the host stands and answers with it.
func (a *app) stands(ctx context.Context, verb string, draw func(*report.Text, apply.Status, bool)) (apply.Status, error) {
	e, err := a.engine(nil)
	if err != nil {
		return apply.Status{}, err
	}
	defer e.close()
	e.watchGuests(ctx, a.root)
	e.watchOwners(ctx, a.root)
	e.watchFunctions(ctx, a.root)
	s, err := e.Status(ctx)
	if err != nil {
		return s, err
	}
	if verb == "status" {
		a.whatRemains(ctx, &s)
	}
	return s, a.out.Answer(report.Answer{
		Verb: verb, Host: e.name, Result: s, Warnings: untold(s),
		Text: func(t *report.Text) { draw(t, s, a.verbose) },
	})
}

func statusCode(s apply.Summary) int {
	switch s {
	case apply.IsClean:
		return outcome.CodeNotConfigured
	case apply.IsApplied:
		return outcome.CodeOK
	case apply.IsWaiting:
		return outcome.CodeChanges
	case apply.IsDrifted:
		return outcome.CodeDrifted
	case apply.IsInFlight:
		return outcome.CodeLocked
	}
	return outcome.CodeFailed
}

// untold warns of values that could not be read: they are no verdict.
func untold(s apply.Status) []outcome.Warning {
	n := s.Counts[string(apply.Untold)]
	if n == 0 {
		return nil
	}
	return []outcome.Warning{{Code: "unknown-values", Text: counted(n, "value") + " could not be read: whether they are as applied is not known", Hint: "repeat as root"}}
}
