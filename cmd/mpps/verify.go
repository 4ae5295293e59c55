package main

import (
	"github.com/spf13/cobra"

	"mpps/internal/apply"
	"mpps/internal/report"
)

func (a *app) verifyCommand() *cobra.Command {
	var detailed bool
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "whether every applied value still stands",
		Long: `Reads every value that was applied and stands, and compares it with what was
wanted. Each is compliant, or drifted, owned (somebody else who is known sets
it), read-only, unsupported, absent (of a guest that is off), waiting (for a
restart), or unknown, which is no verdict.

  mpps verify
  mpps verify --json

Exit codes: 0 everything stands · 1 a transaction is interrupted, in doubt or
failed · 2 some wait for a restart (--detailed-exit-code) · 3 nothing was
applied · 4 drifted · 11 another mpps is at work.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.stands(cmd.Context(), "verify", report.Verified)
			if err != nil || s.State == apply.IsWaiting && !detailed {
				return err
			}
			return exit(statusCode(s.State))
		},
	}
	cmd.Flags().BoolVar(&detailed, "detailed-exit-code", false, "exit with 2 where values wait for a restart")
	return cmd
}
